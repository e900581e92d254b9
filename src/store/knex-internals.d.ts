declare module 'knex/lib/dialects/sqlite3/index.js' {
	export default class SqliteDialect {
		constructor(config: unknown);
		transaction(...options: unknown[]): unknown;
	}
}

declare module 'knex/lib/dialects/sqlite3/execution/sqlite-transaction.js' {
	export default class SqliteTransaction {
		constructor(client: unknown, ...options: unknown[]);
		begin(connection: unknown): Promise<unknown>;
		query(connection: unknown, sql: string): Promise<unknown>;
	}
}
