import type {Socket} from 'node:net';
import type {Knex} from 'knex';
import PostgresDialect, {type PostgresConnection, type PostgresQueryClass} from 'knex/lib/dialects/postgres/index.js';
import {LRUCache} from 'lru-cache';
import {isConnectionLost, isStalePlan, quiet, type Row} from '../engine/dialect.ts';

/*
 * What only PostgreSQL needs: the knex client in this file with pipelining and time limits, `pulse.ts`, which detects a
 * silent server, and `days.ts`, which partitions tables by day. It relies on knex and pg. It decides when a connection
 * is given up, but never repeats a transaction: that is the writer's task.
 */

/** A statement as knex passes it to the client, which adds the response. */
export type Statement = {
	sql: string;
	readonly options?: {readonly unanswered?: boolean} | undefined;
	response?: unknown;
};

/**
 * The option of a statement (`raw(…).options(unanswered)`) that lets the transaction continue before its response
 * arrives.
 */
export const unanswered = {unanswered: true};

/** With this setting of a connection, statements outside of a transaction cannot write. */
export const writesInTransactions = 'set default_transaction_read_only = on';

type Running = {
	/** The responses that were not awaited yet. None of them rejects. */
	readonly sent: Array<Promise<void>>;
	/** How many statements were sent. */
	statements: number;
	/**
	 * The first statement that failed, in the order of sending. Those after it fail because of it, and rejections may
	 * arrive in another order.
	 */
	failure: {readonly error: unknown; readonly index: number} | null;
};

const running = new WeakMap<object, Running>();

/**
 * Sends a statement of a transaction. BEGIN and `unanswered` statements count as done immediately: they are sent along
 * with the next awaited statement, at the latest with COMMIT. If one fails, PostgreSQL rejects what follows until the
 * transaction ends, and the next awaited statement rejects with its error. If BEGIN itself fails, nothing that follows
 * can write (`writesInTransactions`).
 */
export async function sendOn<Sent extends Statement>(
	connection: object,
	statement: Sent,
	send: (statement: Sent) => Promise<unknown>,
): Promise<unknown> {
	const isBegin = statement.sql === 'BEGIN;';
	const isPipelined = isBegin || statement.options?.unanswered === true;
	if (isBegin) {
		running.set(connection, {sent: [], statements: 0, failure: null});
		statement.sql = 'begin read write';
	}
	const transaction = running.get(connection);
	if (transaction === undefined) {
		return await send(statement);
	}
	const index = transaction.statements++;
	const response = send(statement);
	const settled = response.then(
		() => undefined,
		(error: Error) => {
			if (isPipelined) {
				// knex would only name the statement during which the failure is noticed.
				error.message = `${statement.sql} - ${error.message}`;
			}
			if (index < (transaction.failure?.index ?? Infinity)) {
				transaction.failure = {error, index};
			}
		},
	);
	if (isPipelined) {
		transaction.sent.push(settled);
		return Object.assign(statement, {response: {rows: []}});
	}
	const [isCommit, isRollback] = [statement.sql === 'COMMIT;', statement.sql === 'ROLLBACK'];
	if (isCommit || isRollback) {
		running.delete(connection);
	}
	await Promise.all([...transaction.sent, settled]);
	if (transaction.failure !== null && !isRollback) {
		throw transaction.failure.error;
	}
	if (isCommit && Object(statement.response).command === 'ROLLBACK') {
		throw new Error('PostgreSQL rolled back the transaction because of an earlier failure.');
	}
	return await response;
}

const escapes = new Map([
	['\\', '\\\\'],
	['\t', '\\t'],
	['\n', '\\n'],
	['\r', '\\r'],
	// PostgreSQL's text cannot contain NUL.
	['\0', '\ufffd'],
]);
const special = /[\\\t\n\r\0]/g;

function toField(value: Row[number]): string {
	if (value === null) {
		return '\\N';
	}
	return typeof value === 'string'
		? value.replaceAll(special, character => escapes.get(character) as string)
		: `${value}`;
}

/** Formats rows without bytes in the text format of COPY: a line for each row, tabs between its values. */
export function copyText(rows: readonly Row[]): string {
	return rows.map(row => `${row.map(toField).join('\t')}\n`).join('');
}

/**
 * Sends `copy … from stdin` together with its rows, so that it costs no extra round trip. pg itself would fail the
 * command when PostgreSQL requests the rows. If the command fails, PostgreSQL discards the rows that follow (its
 * protocol, "COPY Operations").
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
			// Corked, so that the three messages are sent in one write.
			wire.stream.cork();
			wire.query(statement.sql);
			wire.sendCopyFromChunk(Buffer.from(text));
			wire.endCopyFrom();
			wire.stream.uncork();
			return null;
		};
		// The rows are already sent.
		query.handleCopyInResponse = () => undefined;
		connection.query(query);
	});
}

export type PostgresLimits = {
	/** The limit for connecting and signing in, in milliseconds. */
	readonly connectMs: number;
	/** The limit for a statement, in milliseconds; `null` for no limit while the server responds to the pulse. */
	readonly statementMs: number | null;
};

type Query = Statement & {
	readonly bindings?: readonly unknown[];
	options?: Statement['options'] & {readonly name?: string; readonly copied?: string};
};

/** The maximum number of prepared statements. */
const maxNamed = 200;

/** How long the server has to close a connection that was ended, in milliseconds. */
const closeMs = 1000;

const silenceReason = 'the PostgreSQL server does not respond';

/** The open connections, with the limit for each response. */
class OpenConnections {
	readonly open = new Set<PostgresConnection>();
	readonly #statementMs: number | null;
	readonly #waits = new WeakMap<PostgresConnection, {open: number; readonly timer: NodeJS.Timeout}>();
	#isSilent = false;

	constructor(statementMs: number | null) {
		this.#statementMs = statementMs;
	}

	get isSilent(): boolean {
		return this.#isSilent;
	}

	setSilent(isSilent: boolean): void {
		this.#isSilent = isSilent;
		if (isSilent) {
			for (const connection of this.open) {
				destroy(connection, silenceReason);
			}
		}
	}

	/** Limits the wait for each response, counted from the previous one: several statements may be in progress. */
	async limit<Result>(connection: PostgresConnection, response: Promise<Result>): Promise<Result> {
		const ms = this.#statementMs;
		if (ms === null) {
			return await response;
		}
		const reason = `no response within ${ms / 1000} s`;
		const wait = this.#waits.get(connection) ?? {open: 0, timer: setTimeout(() => destroy(connection, reason), ms)};
		this.#waits.set(connection, wait);
		wait.open++;
		try {
			return await response;
		} finally {
			wait.open--;
			if (wait.open === 0) {
				clearTimeout(wait.timer);
				this.#waits.delete(connection);
			} else {
				wait.timer.refresh();
			}
		}
	}
}

/** Names recurring statements, so that each connection caches their parsed and planned form. */
class PreparedStatements {
	readonly #uses = new LRUCache<string, number>({max: maxNamed});
	readonly #names = new Map<string, string>();

	name(query: Query): Query {
		const {sql, bindings} = query;
		let name = this.#names.get(sql);
		if (name === undefined && bindings && bindings.length > 0 && this.#names.size < maxNamed) {
			const uses = (this.#uses.get(sql) ?? 0) + 1;
			this.#uses.set(sql, uses);
			if (uses >= 3) {
				name = `mailctl_${this.#names.size}`;
				this.#names.set(sql, name);
			}
		}
		return name === undefined ? query : Object.assign(query, {options: {...query.options, name}});
	}
}

/**
 * The knex client for PostgreSQL, with time limits on this side, because a server that stopped responding enforces
 * none. A connection that reaches a limit is destroyed: its late response would be mistaken for that of the next
 * statement.
 */
export function createPostgresClient({connectMs, statementMs}: PostgresLimits) {
	const connections = new OpenConnections(statementMs);
	const statements = new PreparedStatements();

	class LimitedPostgres extends PostgresDialect {
		override async _acquireOnlyConnection(): Promise<PostgresConnection> {
			if (connections.isSilent) {
				throw new NoAnswerError(silenceReason);
			}
			const connection = new this.driver.Client({...this.connectionSettings, pipeline: this.config.pipelines});
			// The pool checks this property before it lends a connection.
			connection.on('error', error => {
				connection.__knex__disposed = error;
			});
			connection.on('end', () => {
				connection.__knex__disposed ??= 'Connection ended';
				connections.open.delete(connection);
			});
			connections.open.add(connection);
			await destroyAfter(connection, connectMs, connection.connect());
			return connection;
		}

		override async _query(connection: PostgresConnection, query: Query): Promise<unknown> {
			const {prepares, pipelines} = this.config;
			const start = (statement: Query) =>
				statement.options?.copied === undefined
					? super._query(connection, statement)
					: sendCopy(connection, this.driver.Query, statement, statement.options.copied);
			const run = (statement: Query) => connections.limit(connection, start(statement));
			const send = (statement: Query) =>
				run(prepares ? statements.name(statement) : statement).catch(error => fail(connection, error));
			if (pipelines) {
				// The writer repeats a transaction with a stale plan.
				return await sendOn(connection, query, send);
			}
			return await send(query).catch(error => {
				// Retry once without the prepared plan. Within a transaction this fails too, and the caller repeats the
				// transaction.
				return isStalePlan(error)
					? run({...query, options: {}}).catch(() => Promise.reject(error))
					: Promise.reject(error);
			});
		}

		override async destroyRawConnection(connection: PostgresConnection): Promise<void> {
			await destroyAfter(connection, closeMs, super.destroyRawConnection(connection)).catch(() => undefined);
		}
	}

	return {
		Client: LimitedPostgres,
		/**
		 * Called when the server stops or resumes responding. While it is silent, pending statements fail and new
		 * connections are refused. Existing connections are not used again, because their server may be gone.
		 */
		setSilent: (isSilent: boolean): void => connections.setSilent(isSilent),
	};
}

/** Destroys the connection if the work takes longer. */
async function destroyAfter<Result>(
	connection: PostgresConnection,
	ms: number,
	work: Promise<Result>,
): Promise<Result> {
	const timer = setTimeout(() => destroy(connection, `no response within ${ms / 1000} s`), ms);
	try {
		return await work;
	} finally {
		clearTimeout(timer);
	}
}

/** Throws the error, and marks the connection if it must not be used again after it. */
function fail(connection: PostgresConnection, error: unknown): never {
	// The next connection makes a new plan.
	if (isStalePlan(error) || isConnectionLost(error)) {
		connection.__knex__disposed ??= error;
	}
	throw error;
}

function destroy(connection: PostgresConnection, reason: string): void {
	connection.__knex__disposed ??= reason;
	(connection.connection.stream as Socket).destroy(new NoAnswerError(reason));
}

/** The server did not respond, so it is unknown whether it executed the statement. `code` is that of a TCP timeout. */
export class NoAnswerError extends Error {
	override readonly name = 'NoAnswerError';
	readonly code = 'ETIMEDOUT';
}

/**
 * PostgreSQL's time limits, in milliseconds. A responding server cancels statements by itself. The limit for statements
 * here is longer than the server's, and covers a connection that was lost on its own.
 */
export const postgresLimits = {connectMs: 10_000, statementMs: 60_000};

// A node that hangs within a transaction holds rows that others wait for (an Idempotency-Key, the figures of a month).
// The server ends its transaction before they give up.
const strictLimits = `set idle_in_transaction_session_timeout = '7s'; set lock_timeout = '8s'; set statement_timeout = '10s'`;
const patientLimits = `set idle_in_transaction_session_timeout = '7s'; set lock_timeout = '30s'`;

// Compiling a statement (JIT) or starting parallel workers for it takes longer than most of our statements run, and
// partitioned tables make PostgreSQL choose both.
const simplePlans = 'set jit = off; set max_parallel_workers_per_gather = 0';

// Written rows are looked up by key. PostgreSQL would otherwise scan a table of 20,000 rows to find 64 of them.
const preferIndexes = 'set random_page_cost = 1.1';

type Session = {query: (sql: string, done: (error: Error | null) => void) => void};

/** The purpose of a connection pool: reading with several connections, or maintenance or group writes with one. */
export type Use = 'reading' | 'maintenance' | 'writing';

export type PostgresOptions = {
	readonly client: unknown;
	readonly connections: number;
	readonly use: Use;
	/** Whether statements may take as long as they need. */
	readonly isPatient: boolean;
};

export function postgresConfig(url: string, {client, connections, use, isPatient}: PostgresOptions) {
	const session = [
		isPatient ? patientLimits : strictLimits,
		simplePlans,
		...(use === 'writing' ? [writesInTransactions, preferIndexes] : []),
	].join('; ');
	return {
		client: client as typeof Knex.Client,
		connection: {connectionString: url, application_name: 'mailctl', keepAlive: true},
		compileSqlOnError: false,
		log: quiet,
		acquireConnectionTimeout: 10_000,
		// Repeated statements are prepared, except those that read lists: their best plan depends on the values of the
		// filters.
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
