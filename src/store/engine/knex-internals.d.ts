declare module 'knex/lib/dialects/sqlite3/index.js' {
	/** A connection of sqlite3, as far as it is used here. */
	export type SqliteConnection = {
		/** If set, the pool does not lend the connection again. */
		__knex__disposed?: unknown;
	};

	export type SqliteStatement = {
		readonly all: (
			bindings: readonly unknown[] | undefined,
			done: (this: unknown, error: Error | null, response: unknown) => void,
		) => unknown;
		readonly finalize: () => unknown;
	};

	export type SqliteQuery = {
		readonly sql: string;
		readonly bindings?: readonly unknown[];
		readonly method?: string;
		readonly returning?: unknown;
		readonly options?: {readonly unanswered?: boolean};
	};

	export type SqliteDriver = {
		readonly Statement: new (
			connection: SqliteConnection,
			sql: string,
			prepared: (error: Error | null) => void,
		) => SqliteStatement;
	};

	export default class SqliteDialect {
		constructor(config: unknown);
		readonly driver: SqliteDriver;
		transaction(...options: unknown[]): unknown;
		_query(connection: SqliteConnection, query: SqliteQuery): Promise<unknown>;
		destroyRawConnection(connection: SqliteConnection): Promise<void>;
	}
}

declare module 'knex/lib/dialects/sqlite3/execution/sqlite-transaction.js' {
	export default class SqliteTransaction {
		constructor(client: unknown, ...options: unknown[]);
		begin(connection: unknown): Promise<unknown>;
		query(connection: unknown, sql: string): Promise<unknown>;
		commit(connection: unknown, value: unknown): Promise<unknown>;
		rollback(connection: unknown, error: unknown): Promise<unknown>;
		isCompleted(): boolean;
		protected _completed: boolean;
		protected _resolver: (value: unknown) => void;
		protected _rejecter: (error: unknown) => void;
		protected readonly client: {query(connection: unknown, sql: string): Promise<unknown>};
	}
}

declare module 'knex/lib/dialects/postgres/index.js' {
	/** Where pg writes the messages of PostgreSQL's protocol. */
	export type PostgresWire = {
		readonly stream: import('node:stream').Duplex;
		readonly query: (sql: string) => void;
		readonly sendCopyFromChunk: (chunk: Uint8Array) => void;
		readonly endCopyFrom: () => void;
	};

	/** A query of pg, as far as it is used here. */
	export type PostgresQuery = {
		submit: (wire: PostgresWire) => null;
		handleCopyInResponse: () => void;
	};
	export type PostgresQueryClass = new (
		sql: string,
		values: undefined,
		done: (error: Error | null, response: unknown) => void,
	) => PostgresQuery;

	/** A connection of pg, as far as it is used here. */
	export type PostgresConnection = {
		readonly connection: PostgresWire;
		readonly connect: () => Promise<unknown>;
		readonly query: (query: PostgresQuery) => unknown;
		readonly on: (event: 'error' | 'end', listener: (error: Error) => void) => void;
		/** If set, the pool does not lend the connection again. */
		__knex__disposed?: unknown;
	};

	export default class PostgresDialect {
		constructor(config: unknown);
		readonly driver: {
			readonly Client: new (settings: unknown) => PostgresConnection;
			readonly Query: PostgresQueryClass;
		};
		readonly config: {readonly prepares?: boolean; readonly pipelines?: boolean};
		readonly connectionSettings: object;
		_acquireOnlyConnection(): Promise<PostgresConnection>;
		_query(connection: PostgresConnection, query: object): Promise<unknown>;
		destroyRawConnection(connection: PostgresConnection): Promise<void>;
	}
}
