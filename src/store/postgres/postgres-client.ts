import type {Socket} from 'node:net';
import type {Knex} from 'knex';
import PostgresDialect, {type PostgresConnection, type PostgresQueryClass} from 'knex/lib/dialects/postgres/index.js';
import {LRUCache} from 'lru-cache';
import {isConnectionLost, isStalePlan, quiet, type Row} from '../engine/dialect.ts';

/** A statement as knex hands it over, and gets it back with its answer. */
export type Statement = {
	sql: string;
	readonly options?: {readonly unanswered?: boolean} | undefined;
	response?: unknown;
};

/** Asked of a statement (`raw(…).options(unanswered)`): the transaction goes on before it is answered. */
export const unanswered = {unanswered: true};

/** What runs outside of a transaction on a connection with this setting writes nothing. */
export const writesInTransactions = 'set default_transaction_read_only = on';

type Running = {
	/** Answers that were not awaited yet; none rejects. */
	readonly sent: Array<Promise<void>>;
	/** How many statements were sent. */
	statements: number;
	/**
	 * Of the first statement that failed: those after it fail because of it. Rejections may arrive in another order.
	 */
	failure: {readonly error: unknown; readonly place: number} | null;
};

const running = new WeakMap<object, Running>();

/**
 * Sends a statement of a transaction. BEGIN and `unanswered` statements count as done at once: they travel with the
 * next awaited statement, at the latest with COMMIT. If one fails, PostgreSQL refuses what follows until the
 * transaction ends, and the next awaited statement rejects with its error. If BEGIN itself fails, what follows cannot
 * write (`writesInTransactions`).
 */
export async function sendOn<Sent extends Statement>(
	connection: object,
	statement: Sent,
	send: (statement: Sent) => Promise<unknown>,
): Promise<unknown> {
	const begins = statement.sql === 'BEGIN;';
	const goesOn = begins || statement.options?.unanswered === true;
	if (begins) {
		running.set(connection, {sent: [], statements: 0, failure: null});
		statement.sql = 'begin read write';
	}
	const transaction = running.get(connection);
	if (transaction === undefined) {
		return await send(statement);
	}
	const place = transaction.statements++;
	const answer = send(statement);
	const settled = answer.then(
		() => undefined,
		(error: Error) => {
			if (goesOn) {
				// knex would name the statement at which it is noticed alone.
				error.message = `${statement.sql} - ${error.message}`;
			}
			if (place < (transaction.failure?.place ?? Infinity)) {
				transaction.failure = {error, place};
			}
		},
	);
	if (goesOn) {
		transaction.sent.push(settled);
		return Object.assign(statement, {response: {rows: []}});
	}
	const [commits, undoes] = [statement.sql === 'COMMIT;', statement.sql === 'ROLLBACK'];
	if (commits || undoes) {
		running.delete(connection);
	}
	await Promise.all([...transaction.sent, settled]);
	if (transaction.failure !== null && !undoes) {
		throw transaction.failure.error;
	}
	if (commits && Object(statement.response).command === 'ROLLBACK') {
		throw new Error('PostgreSQL undid the transaction, whose failure was passed over.');
	}
	return await answer;
}

const escapes = new Map([
	['\\', '\\\\'],
	['\t', '\\t'],
	['\n', '\\n'],
	['\r', '\\r'],
	// PostgreSQL's text holds no NUL.
	['\0', '\ufffd'],
]);
const special = /[\\\t\n\r\0]/g;

function fieldOf(value: Row[number]): string {
	if (value === null) {
		return '\\N';
	}
	return typeof value === 'string' ? value.replaceAll(special, one => escapes.get(one) as string) : `${value}`;
}

/** Rows without bytes in the text format of COPY: a line for each row, tabs between its values. */
export function copyText(rows: readonly Row[]): string {
	return rows.map(row => `${row.map(fieldOf).join('\t')}\n`).join('');
}

/**
 * Sends `copy … from stdin` together with its rows, so that it costs no round trip. pg would refuse the command when
 * PostgreSQL asks for the rows. If the command fails, PostgreSQL drops the rows that follow (its protocol, "COPY
 * Operations").
 */
export function sendCopy<Sent extends Statement>(
	connection: PostgresConnection,
	Query: PostgresQueryClass,
	statement: Sent,
	text: string,
): Promise<Sent> {
	return new Promise((resolve, reject) => {
		const query = new Query(statement.sql, undefined, (error, response) =>
			error ? reject(error) : resolve(Object.assign(statement, {response})),
		);
		query.submit = wire => {
			// One write for the three messages.
			wire.stream.cork();
			wire.query(statement.sql);
			wire.sendCopyFromChunk(Buffer.from(text));
			wire.endCopyFrom();
			wire.stream.uncork();
			return null;
		};
		// The rows are on their way.
		query.handleCopyInResponse = () => undefined;
		connection.query(query);
	});
}

export type PostgresLimits = {
	/** To connect and log in, milliseconds. */
	readonly connectMs: number;
	/** To answer a statement, milliseconds; null: as long as it takes, while the server answers its pulse. */
	readonly statementMs: number | null;
};

type Query = Statement & {
	readonly bindings?: readonly unknown[];
	options?: Statement['options'] & {readonly name?: string; readonly copied?: string};
};

/** Most statements that are prepared. */
const maxNamed = 200;

/** Time that the server has to close a connection that was ended, milliseconds. */
const partingMs = 1000;

/**
 * knex's client for PostgreSQL with time limits on this side, because a server that went silent enforces none. A
 * connection that reaches a limit is destroyed: its answer may still come, and would be taken for the next statement's.
 */
export function createPostgresClient({connectMs, statementMs}: PostgresLimits) {
	const open = new Set<PostgresConnection>();
	const seen = new LRUCache<string, number>({max: maxNamed});
	const names = new Map<string, string>();
	let silent = false;

	async function within<Result>(connection: PostgresConnection, ms: number, work: Promise<Result>): Promise<Result> {
		const timer = setTimeout(() => cut(connection, `no answer within ${ms / 1000} s`), ms);
		try {
			return await work;
		} finally {
			clearTimeout(timer);
		}
	}

	const waits = new WeakMap<PostgresConnection, {open: number; readonly timer: NodeJS.Timeout}>();

	/** Each answer is waited for from the one before it on: several statements may be under way. */
	async function inTime<Result>(connection: PostgresConnection, answer: Promise<Result>): Promise<Result> {
		if (statementMs === null) {
			return await answer;
		}
		const late = `no answer within ${statementMs / 1000} s`;
		const wait = waits.get(connection) ?? {open: 0, timer: setTimeout(() => cut(connection, late), statementMs)};
		waits.set(connection, wait);
		wait.open++;
		try {
			return await answer;
		} finally {
			wait.open--;
			if (wait.open === 0) {
				clearTimeout(wait.timer);
				waits.delete(connection);
			} else {
				wait.timer.refresh();
			}
		}
	}

	/** Gives a statement that comes again and again a name, under which the connection keeps it parsed and planned. */
	function named(query: Query): Query {
		const {sql, bindings} = query;
		let name = names.get(sql);
		if (name === undefined && bindings && bindings.length > 0 && names.size < maxNamed) {
			const times = (seen.get(sql) ?? 0) + 1;
			seen.set(sql, times);
			if (times >= 3) {
				name = `mailctl_${names.size}`;
				names.set(sql, name);
			}
		}
		return name === undefined ? query : Object.assign(query, {options: {...query.options, name}});
	}

	class LimitedPostgres extends PostgresDialect {
		override async _acquireOnlyConnection(): Promise<PostgresConnection> {
			if (silent) {
				throw new NoAnswerError('the PostgreSQL server does not answer');
			}
			const connection = new this.driver.Client({...this.connectionSettings, pipeline: this.config.pipelines});
			// The pool looks at this mark before it lends a connection.
			connection.on('error', error => {
				connection.__knex__disposed = error;
			});
			connection.on('end', () => {
				connection.__knex__disposed ??= 'Connection ended';
				open.delete(connection);
			});
			open.add(connection);
			await within(connection, connectMs, connection.connect());
			return connection;
		}

		override async _query(connection: PostgresConnection, query: Query): Promise<unknown> {
			const {prepares, pipelines} = this.config;
			const start = (one: Query) =>
				one.options?.copied === undefined
					? super._query(connection, one)
					: sendCopy(connection, this.driver.Query, one, one.options.copied);
			const ask = (one: Query) => inTime(connection, start(one));
			const send = (one: Query) => ask(prepares ? named(one) : one).catch(error => fail(connection, error));
			if (pipelines) {
				// The writer repeats a transaction with a stale plan.
				return await sendOn(connection, query, send);
			}
			return await send(query).catch(error => {
				// Retry once without the prepared plan; within a transaction this fails too, and the caller repeats the
				// transaction.
				return isStalePlan(error)
					? ask({...query, options: {}}).catch(() => Promise.reject(error))
					: Promise.reject(error);
			});
		}

		override async destroyRawConnection(connection: PostgresConnection): Promise<void> {
			await within(connection, partingMs, super.destroyRawConnection(connection)).catch(() => undefined);
		}
	}

	return {
		Client: LimitedPostgres,
		/**
		 * The server is silent: pending statements fail now, and nothing connects until it answers again. Older
		 * connections are not used again, as their server may be gone.
		 */
		setSilent(is: boolean): void {
			silent = is;
			if (silent) {
				for (const connection of open) {
					cut(connection, 'the PostgreSQL server does not answer');
				}
			}
		},
	};
}

/** Marks a connection that must not be used again after this error. */
function fail(connection: PostgresConnection, error: unknown): never {
	// After a stale plan the next connection plans again.
	if (isStalePlan(error) || isConnectionLost(error)) {
		connection.__knex__disposed ??= error;
	}
	throw error;
}

function cut(connection: PostgresConnection, why: string): void {
	connection.__knex__disposed ??= why;
	(connection.connection.stream as Socket).destroy(new NoAnswerError(why));
}

/** The server did not answer: whether it did what it was asked is not known. The code is the one of TCP. */
export class NoAnswerError extends Error {
	override readonly name = 'NoAnswerError';
	readonly code = 'ETIMEDOUT';
}

/**
 * What PostgreSQL may take, milliseconds. A server that answers its pulse ends statements by itself: the limit for them
 * here is for a connection that died alone, and above all that the server is allowed.
 */
export const postgresLimits = {connectMs: 10_000, statementMs: 60_000};

// A node that hangs within a transaction holds rows that others wait for (an Idempotency-Key, a month's figures): the
// server ends its transaction before they give up.
const hurried = `set idle_in_transaction_session_timeout = '7s'; set lock_timeout = '8s'; set statement_timeout = '10s'`;
const patient = `set idle_in_transaction_session_timeout = '7s'; set lock_timeout = '30s'`;

// To compile a statement, or to start other processes for it, takes longer than most of ours, and tables of many days
// invite both.
const plain = 'set jit = off; set max_parallel_workers_per_gather = 0';

// What is written is looked up by its key: PostgreSQL would rather read a table of 20,000 rows to the end for 64 of
// them.
const lookingUp = 'set random_page_cost = 1.1';

type Session = {query: (sql: string, done: (error: Error | null) => void) => void};

/** What a pool of connections is for: many that read, one for maintenance, one on which a group writer writes. */
export type Use = 'reading' | 'maintenance' | 'writing';

export type PostgresOptions = {
	readonly client: unknown;
	readonly connections: number;
	readonly use: Use;
	/** Statements may take as long as they need. */
	readonly isPatient: boolean;
};

export function postgresConfig(url: string, {client, connections, use, isPatient}: PostgresOptions) {
	const session = [
		isPatient ? patient : hurried,
		plain,
		...(use === 'writing' ? [writesInTransactions, lookingUp] : []),
	].join('; ');
	return {
		client: client as typeof Knex.Client,
		connection: {connectionString: url, application_name: 'mailctl', keepAlive: true},
		compileSqlOnError: false,
		log: quiet,
		acquireConnectionTimeout: 10_000,
		// Repeated statements are prepared, except those of lists: their best plan depends on the values of filters.
		prepares: use !== 'reading',
		pipelines: use === 'writing',
		pool: {
			min: 0,
			max: connections,
			afterCreate: (connection: Session, done: (error: Error | null, connection: Session) => void) =>
				connection.query(session, error => done(error, connection)),
		},
	} satisfies Knex.Config & {readonly prepares: boolean; readonly pipelines: boolean};
}
