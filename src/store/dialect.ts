import {statSync} from 'node:fs';
import type {Knex} from 'knex';
import {SqliteClient} from './sqlite-client.ts';

/** The few differences between the two engines; no other file knows which one is in use. */
export type Dialect = {
	readonly name: 'sqlite' | 'postgres';
	/** Rows that another node is claiming are passed over. SQLite has one writer: nothing to lock. */
	readonly lockDue: (query: Knex.QueryBuilder) => Knex.QueryBuilder;
	/** Whether the error says that the store cannot be written now, so that nothing is gained by trying item by item. */
	readonly isUnavailable: (error: unknown) => boolean;
	/** Whether the engine asks for the transaction to be repeated (deadlock, serialization failure). */
	readonly isConflict: (error: unknown) => boolean;
	/** Whether the error means damaged data or a failing disk: the process must not go on. */
	readonly isDamage: (error: unknown) => boolean;
};

const codeOf = (error: unknown): string =>
	typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : '';

const sqliteUnavailable = new Set([
	'SQLITE_FULL',
	'SQLITE_READONLY',
	'SQLITE_BUSY',
	'SQLITE_CANTOPEN',
	'SQLITE_LOCKED',
]);
const sqliteDamage = new Set(['SQLITE_CORRUPT', 'SQLITE_NOTADB', 'SQLITE_IOERR']);

export const sqliteDialect: Dialect = {
	name: 'sqlite',
	lockDue: query => query,
	isUnavailable: error => sqliteUnavailable.has(codeOf(error)),
	isConflict: () => false,
	isDamage: error => sqliteDamage.has(codeOf(error)),
};

// Class 08: connection, 53: resources, 57: operator intervention, 25P03 and 55P03: the two limits of `postgresLimits`; the
// words are Node's and the pool's.
const postgresUnavailable = /^(08|53|57|25P03|55P03)|^E(CONN|TIMEDOUT|PIPE|HOSTUNREACH|NETUNREACH|AI_AGAIN)/;

export const postgresDialect: Dialect = {
	name: 'postgres',
	lockDue: query => query.forUpdate().skipLocked(),
	isUnavailable: error =>
		postgresUnavailable.test(codeOf(error)) ||
		(error instanceof Error && /connection (terminated|ended|error)|acquiring a connection/i.test(error.message)),
	isConflict: error => codeOf(error) === '40P01' || codeOf(error) === '40001',
	isDamage: error => codeOf(error).startsWith('XX'),
};

// Any number, as long as it is always the same one.
const schemaLock = 0x6d61696c;

/** Holds off others that would change the schema, until the transaction ends. SQLite's transactions hold off all writers. */
export async function lockSchema(trx: Knex.Transaction): Promise<void> {
	if (trx.client.driverName === 'pg') {
		// However long another process migrates.
		await trx.raw('set local lock_timeout = 0');
		await trx.raw('select pg_advisory_xact_lock(?)', [schemaLock]);
	}
}

type SqliteConnection = {exec: (sql: string, done: (error: Error | null) => void) => void};

// FULL: a 202 survives power loss. The others bound files and distrust the schema.
const sqlitePragmas = `
	pragma busy_timeout = 5000;
	pragma journal_mode = wal;
	pragma synchronous = full;
	pragma foreign_keys = on;
	pragma trusted_schema = off;
	pragma cell_size_check = on;
	pragma wal_autocheckpoint = 1000;
	pragma journal_size_limit = 67108864;
`;

// What goes wrong is thrown; knex would print it as well.
const quiet = {warn: () => undefined, error: () => undefined, deprecate: () => undefined, debug: () => undefined};

// Precedes the first page, and only there: on a store that is there it would be a write.
const freshPragmas = 'pragma busy_timeout = 5000; pragma auto_vacuum = incremental;';

export function sqliteConfig(filename: string, connections: number): Knex.Config {
	return {
		client: SqliteClient as unknown as typeof Knex.Client,
		connection: {filename},
		useNullAsDefault: true,
		log: quiet,
		// Error texts would otherwise carry the bound values: secrets and addresses.
		compileSqlOnError: false,
		pool: {
			min: 1,
			max: connections,
			idleTimeoutMillis: 2 ** 31 - 1,
			afterCreate: (connection: SqliteConnection, done: (error: Error | null, connection: SqliteConnection) => void) =>
				connection.exec(statSync(filename).size === 0 ? freshPragmas + sqlitePragmas : sqlitePragmas, error =>
					done(error, connection),
				),
		},
	};
}

// A node that hangs within a transaction holds rows that others wait for (an Idempotency-Key, a month's figures): the server
// ends its transaction, and nobody waits longer than half a minute.
const postgresLimits = `set idle_in_transaction_session_timeout = '20s'; set lock_timeout = '30s'`;

type PostgresConnection = {query: (sql: string, done: (error: Error | null) => void) => void};

export function postgresConfig(url: string, connections: number): Knex.Config {
	return {
		client: 'pg',
		connection: {connectionString: url, application_name: 'mailctl', keepAlive: true},
		compileSqlOnError: false,
		log: quiet,
		acquireConnectionTimeout: 10_000,
		pool: {
			min: 0,
			max: connections,
			afterCreate: (
				connection: PostgresConnection,
				done: (error: Error | null, connection: PostgresConnection) => void,
			) => connection.query(postgresLimits, error => done(error, connection)),
		},
	};
}

type Value = string | number | Uint8Array | null;

/**
 * Many rows as the source of an insert, or (in brackets) of an update: a SELECT or VALUES of `width` columns, which both
 * engines name column1, column2 … SQLite gets them as one JSON text: binding thousands of single values costs the main
 * thread five times as much, and the statement stays short. Bytes have no place in JSON: such rows are bound one by one.
 */
export function rowSource(
	database: Knex,
	rows: ReadonlyArray<readonly Value[]>,
	width: number,
): {sql: string; bindings: Value[]} {
	const asJson =
		database.client.driverName === 'sqlite3' &&
		!rows.some(row => row.some(value => typeof value === 'object' && value !== null));
	if (asJson) {
		const columns = Array.from({length: width}, (_, index) => `value->>${index} as column${index + 1}`);
		// `where true`: SQLite would read `on conflict` as the beginning of a join's constraint.
		return {sql: `select ${columns.join(',')} from json_each(?) where true`, bindings: [JSON.stringify(rows)]};
	}
	// PostgreSQL's text holds no NUL, and what hosts say is stored.
	const bindable = (value: Value) => (typeof value === 'string' ? value.replaceAll('\0', '\ufffd') : value);
	const row = `(${new Array(width).fill('?').join(',')})`;
	return {sql: `values ${new Array(rows.length).fill(row).join(',')}`, bindings: rows.flat().map(bindable)};
}

/** An expression that makes the bytes (UTF-8) of a text: rows that travel as JSON can hold no bytes. */
export function textAsBytes(database: Knex, expression: string): string {
	return database.client.driverName === 'sqlite3' ? `cast(${expression} as blob)` : `convert_to(${expression}, 'UTF8')`;
}

/**
 * A condition: the bytes that are bound to it, their ASCII letters in lower case, stand in a column of bytes, in whatever
 * case. SQLite's functions see the bytes behind a NUL too.
 */
export function holdsBytes(database: Knex, column: string): string {
	return database.client.driverName === 'sqlite3'
		? `instr(lower(${column}), cast(? as text)) > 0`
		: `position(encode(?::bytea, 'escape') in lower(encode(${column}, 'escape') collate "C")) > 0`;
}
