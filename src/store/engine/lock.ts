import {closeSync, existsSync, openSync} from 'node:fs';
import {promisify} from 'node:util';
import {loadSqlite} from './sqlite-client.ts';

/** Who holds a lock, for the message of whoever comes second. */
export type LockHolder = {readonly pid: number; readonly host: string; readonly startedAt: string};
export type FolderLock =
	| {readonly ok: true; readonly release: () => Promise<void>}
	/** `holder` is null if it could not be read. */
	| {readonly ok: false; readonly holder: LockHolder | null};

const patience = 1000;

/**
 * Holds the write lock of a tiny database for life: the kernel lets go of it when the process dies, however it dies, and
 * containers that share the folder see it. Nothing else may open this file: closing any descriptor of it would end the lock
 * (POSIX). Keep the result as long as the lock is wanted. Throws if the file cannot be written or is no database.
 */
export async function lockFolder(file: string, self: LockHolder): Promise<FolderLock> {
	makeOwn(file);
	const database = await open(file);
	try {
		// In WAL mode others can read who holds the lock while it is held.
		await database.exec(`PRAGMA busy_timeout = ${patience}; PRAGMA journal_mode = WAL`);
		await database.exec('CREATE TABLE IF NOT EXISTS holder (id INTEGER PRIMARY KEY, self TEXT NOT NULL)');
		await database.exec(`INSERT OR REPLACE INTO holder VALUES (1, '${JSON.stringify(self).replaceAll("'", "''")}')`);
		// The line above must be committed to be read by others; who gets in between now wins, and we are second.
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

/** Its owner's alone whatever the umask, as SQLite makes the files beside it with the same mode. */
function makeOwn(file: string): void {
	if (!existsSync(file)) {
		closeSync(openSync(file, 'a', 0o600));
	}
}

/** Whether a process holds the lock; a file that is not there is held by nobody. Whoever wants the lock now is not kept from it. */
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
				get: promisify((sql: string, done: (error: Error | null, row: unknown) => void) => database.get(sql, done)),
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
