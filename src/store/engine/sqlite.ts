import {closeSync, existsSync, openSync, statSync} from 'node:fs';
import {promisify} from 'node:util';
import type {Knex} from 'knex';
import SqliteTransaction from 'knex/lib/dialects/sqlite3/execution/sqlite-transaction.js';
import SqliteDialect, {
	type SqliteConnection as Connection,
	type SqliteDriver,
	type SqliteQuery,
} from 'knex/lib/dialects/sqlite3/index.js';
import {findDisplaced, type OpenFile} from '../../kit/open-files.ts';
import type {Use} from '../postgres/postgres-client.ts';
import {quiet} from './dialect.ts';
import {SqliteStatements} from './sqlite-statements.ts';

/** SQLite's write-ahead log. It grows while a reader holds an old snapshot. */
export type WriteAheadLog = {
	readonly file: string;
	/** Returns its size on disk in octets. */
	readonly bytes: () => number;
	/**
	 * Moves its content into the database file and empties it. Returns `false` if a reader needs it, or it is held.
	 * Writers wait only briefly.
	 */
	readonly checkpoint: () => Promise<boolean>;
	/**
	 * Holds or releases the log. While it is held, only the writer's connection may empty it; otherwise a copy of the
	 * store would start again.
	 */
	readonly hold: (isHeld: boolean) => void;
};

/** SQLite truncates the log to this size when it starts again at its beginning, in octets. */
export const walSizeLimit = 64 * 1024 * 1024;

const waitLimitMs = 100;

/** `connect` opens a connection of its own, because copying may take seconds. */
export function writeAheadLog(file: string, files: readonly OpenFile[], connect: () => Knex): WriteAheadLog {
	let isHeld = false;
	return {
		file: `${file}-wal`,
		bytes: () => walBytes(file),
		hold(shouldHold) {
			isHeld = shouldHold;
		},
		async checkpoint() {
			// A new connection would move the log of a displaced file into another file.
			if (isHeld || findDisplaced(files).length > 0) {
				return false;
			}
			const connection = connect();
			const checkpoint = async (mode: string) => (await connection.raw(`pragma wal_checkpoint(${mode})`))[0];
			try {
				await connection.raw(`pragma busy_timeout = ${waitLimitMs}`);
				// Others keep writing while this copies. Only the remainder needs the write lock.
				const {busy, log, checkpointed} = await checkpoint('passive');
				return busy === 0 && checkpointed === log && (await checkpoint('truncate')).busy === 0;
			} finally {
				await connection.destroy();
			}
		},
	};
}

/**
 * Moves the whole log into the database file over a connection that has both open, even if they were moved.
 * Returns `false` if a reader prevented it.
 */
export async function checkpointLog(connection: Knex): Promise<boolean> {
	const [{busy, log, checkpointed}] = await connection.raw('pragma wal_checkpoint(full)');
	return busy === 0 && checkpointed === log;
}

function walBytes(file: string): number {
	return statSync(`${file}-wal`, {throwIfNoEntry: false})?.size ?? 0;
}

class ImmediateTransaction extends SqliteTransaction {
	// A deferred transaction that reads and then writes fails with SQLITE_BUSY at once if the CLI wrote in between,
	// regardless of `busy_timeout`. So the write lock is taken at the beginning instead.
	override begin(connection: unknown): Promise<unknown> {
		return this.query(connection, 'BEGIN IMMEDIATE;');
	}

	override async commit(connection: Connection, value: unknown): Promise<void> {
		if (this.isCompleted()) {
			return;
		}
		this._completed = true;
		try {
			await this.client.query(connection, 'COMMIT;');
			this._resolver(value);
		} catch (error) {
			await this.#rollBack(connection);
			this._rejecter(error);
		}
	}

	override async rollback(connection: Connection, error: unknown): Promise<void> {
		if (this.isCompleted()) {
			return;
		}
		this._completed = true;
		await this.#rollBack(connection);
		if (error === undefined) {
			this._resolver(undefined); // There was no error: the caller requested the rollback.
		} else {
			this._rejecter(error);
		}
	}

	/**
	 * After SQLITE_FULL, SQLITE_IOERR, SQLITE_NOMEM and sometimes SQLITE_BUSY, SQLite rolls back by itself. A ROLLBACK
	 * then fails, and knex would report that failure instead of its cause. A connection whose transaction cannot be
	 * ended is closed, because the next BEGIN on it would fail.
	 */
	async #rollBack(connection: Connection): Promise<void> {
		try {
			await this.client.query(connection, 'ROLLBACK');
		} catch (error) {
			if (!/no transaction is active/.test((error as Error).message)) {
				connection.__knex__disposed = error;
			}
		}
	}
}

/**
 * The knex client for the `sqlite3` driver. To change the driver, extend another dialect here. Statements are prepared
 * once for each connection, and those that nobody awaits are run together (`sqlite-statements.ts`).
 */
class SqliteClient extends SqliteDialect {
	override transaction(...options: unknown[]): unknown {
		return new ImmediateTransaction(this, ...options);
	}

	override async _query(connection: Connection, query: SqliteQuery): Promise<unknown> {
		const statements = statementsOf(connection, this.driver);
		return isLeftOpen(query)
			? await statements.after(query, () => super._query(connection, query))
			: await statements.run(query);
	}

	override async destroyRawConnection(connection: Connection): Promise<void> {
		// A connection with open statements cannot be closed.
		statementsOf(connection, this.driver).finalize();
		await super.destroyRawConnection(connection);
	}
}

// Not a field, because knex creates the clients of transactions without the constructor.
const prepared = new WeakMap<Connection, SqliteStatements>();

function statementsOf(connection: Connection, driver: SqliteDriver): SqliteStatements {
	const statements = prepared.get(connection) ?? new SqliteStatements(connection, driver);
	prepared.set(connection, statements);
	return statements;
}

/**
 * Whether SQLite may consider the statement unfinished until it is finalized. If knex requests no rows, the statement
 * is stepped only once, and an EXPLAIN never finishes. Such statements are not cached.
 */
function isLeftOpen({sql, method = '', returning}: SqliteQuery): boolean {
	const isStepped = method === 'del' || method === 'counter' || (/^(insert|update)$/.test(method) && !returning);
	return isStepped || /^explain/i.test(sql);
}

/** The native part of the `sqlite3` package is missing or was built for another system. */
class DriverError extends Error {
	override readonly name = 'DriverError';
	readonly code = 'SQLITE_DRIVER';
}

/** Loads the driver: native code, which may be present and still not load. Throws `DriverError` with the reason. */
export async function loadSqlite() {
	try {
		const {default: sqlite3} = await import('sqlite3');
		return sqlite3;
	} catch (error) {
		// The first line contains the reason; the others list where the loader searched.
		const [reason = ''] = (error as Error).message.split('\n');
		throw new DriverError(reason.replace(/\.? Tried:$/, ''), {cause: error});
	}
}

/**
 * Throws SQLite's error if a database file is shorter than its header states: SQLite itself notices a missing part only
 * when it reads that page. If the write-ahead log has content, the file may be shorter, so it is not checked. The size
 * comes from a connection, because closing a file that SQLite has open in this process would release its locks (POSIX).
 */
export async function refuseTruncated(connection: Knex, file: string): Promise<void> {
	await connection.raw('begin');
	const [{bytes}] = await connection.raw(
		'select page_count * page_size as bytes from pragma_page_count, pragma_page_size',
	);
	const isCut = walBytes(file) === 0 && (statSync(file, {throwIfNoEntry: false})?.size ?? 0) < bytes;
	await connection.raw('commit');
	if (isCut) {
		const error = new Error('SQLITE_CORRUPT: database disk image is malformed');
		throw Object.assign(error, {code: 'SQLITE_CORRUPT'});
	}
}

type RawConnection = {exec: (sql: string, done: (error: Error | null) => void) => void};

// FULL: a 202 survives a power loss. The others limit the sizes of files and do not trust the schema.
const sqlitePragmas = `
	pragma busy_timeout = 5000;
	pragma journal_mode = wal;
	pragma synchronous = full;
	pragma foreign_keys = on;
	pragma trusted_schema = off;
	pragma cell_size_check = on;
	pragma wal_autocheckpoint = 1000;
	pragma journal_size_limit = ${walSizeLimit};
`;

// What is needed to undo a single statement of a transaction stays in memory, instead of a new file for each one. Not
// for other connections: large sorts need files.
const writerPragmas = 'pragma temp_store = memory;';

// Must precede the first page. On an existing store it would be a write.
const freshPragmas = 'pragma busy_timeout = 5000; pragma auto_vacuum = incremental;';

export function sqliteConfig(filename: string, connections: number, use?: Use): Knex.Config {
	const pragmas = use === 'writing' ? sqlitePragmas + writerPragmas : sqlitePragmas;
	return {
		client: SqliteClient as unknown as typeof Knex.Client,
		connection: {filename},
		useNullAsDefault: true,
		log: quiet,
		// Otherwise the texts of errors would contain the bound values: secrets and addresses.
		compileSqlOnError: false,
		pool: {
			min: 1,
			max: connections,
			idleTimeoutMillis: 2 ** 31 - 1,
			afterCreate: (connection: RawConnection, done: (error: Error | null, connection: RawConnection) => void) =>
				connection.exec(statSync(filename).size === 0 ? freshPragmas + pragmas : pragmas, error =>
					done(error, connection),
				),
		},
	};
}

/** The process that holds a lock, for the error message of the second process. */
type LockHolder = {readonly pid: number; readonly host: string; readonly startedAt: string};
type FolderLock =
	| {readonly ok: true; readonly release: () => Promise<void>}
	/** `holder` is `null` if it could not be read. */
	| {readonly ok: false; readonly holder: LockHolder | null};

const lockWaitMs = 1000;

/**
 * Holds the write lock of a tiny database for as long as the process lives. The kernel releases it when the process
 * dies, however it dies, and containers that share the folder see it. Nothing else may open this file: closing any
 * descriptor of it would release the lock (POSIX). Keep a reference to the result as long as the lock is needed. Throws
 * if the file cannot be written or is not a database.
 */
export async function lockFolder(file: string, self: LockHolder): Promise<FolderLock> {
	createPrivate(file);
	const database = await open(file);
	try {
		// In WAL mode, others can read who holds the lock while it is held.
		await database.exec(`PRAGMA busy_timeout = ${lockWaitMs}; PRAGMA journal_mode = WAL`);
		await database.exec('CREATE TABLE IF NOT EXISTS holder (id INTEGER PRIMARY KEY, self TEXT NOT NULL)');
		await database.exec(
			`INSERT OR REPLACE INTO holder VALUES (1, '${JSON.stringify(self).replaceAll("'", "''")}')`,
		);
		// The statement above must be committed so that others can read it. A process that gets the lock in between
		// wins.
		await database.exec('BEGIN EXCLUSIVE');
		return {ok: true, release: database.close};
	} catch (error) {
		const holder = isBusy(error) ? await readHolder(database) : undefined;
		await database.close();
		if (holder === undefined) {
			throw error;
		}

		return {ok: false, holder};
	}
}

/** Creates the file readable only by its owner, regardless of the umask. SQLite's other files get the same mode. */
function createPrivate(file: string): void {
	if (!existsSync(file)) {
		closeSync(openSync(file, 'a', 0o600));
	}
}

/** Returns whether a process holds the lock; `false` if the file does not exist. Others may still take it. */
export async function isFolderLocked(file: string): Promise<boolean> {
	if (!existsSync(file)) {
		return false;
	}
	const database = await open(file);
	try {
		await database.exec('PRAGMA busy_timeout = 0; BEGIN IMMEDIATE; ROLLBACK');
		return false;
	} catch (error) {
		if (isBusy(error)) {
			return true;
		}
		throw error;
	} finally {
		await database.close();
	}
}

type Database = {
	readonly exec: (sql: string) => Promise<void>;
	readonly get: (sql: string) => Promise<unknown>;
	readonly close: () => Promise<void>;
};

async function open(file: string): Promise<Database> {
	const sqlite3 = await loadSqlite();
	return await new Promise((resolve, reject) => {
		const database = new sqlite3.Database(file, error => {
			if (error) {
				reject(error);
				return;
			}

			resolve({
				exec: promisify((sql: string, done: (error: Error | null) => void) => database.exec(sql, done)),
				get: promisify((sql: string, done: (error: Error | null, row: unknown) => void) =>
					database.get(sql, done),
				),
				close: promisify((done: (error: Error | null) => void) => database.close(done)),
			});
		});
	});
}

function isBusy(error: unknown): boolean {
	return error instanceof Error && 'code' in error && error.code === 'SQLITE_BUSY';
}

async function readHolder(database: Database): Promise<LockHolder | null> {
	try {
		const row = (await database.get('SELECT self FROM holder')) as {self: string} | undefined;
		return row ? (JSON.parse(row.self) as LockHolder) : null;
	} catch {
		return null;
	}
}
