import {statSync} from 'node:fs';
import type {Knex} from 'knex';
import SqliteTransaction from 'knex/lib/dialects/sqlite3/execution/sqlite-transaction.js';
import SqliteDialect, {
	type SqliteConnection as Connection,
	type SqliteQuery,
	type SqliteStatement,
} from 'knex/lib/dialects/sqlite3/index.js';
import {LRUCache} from 'lru-cache';
import {walBytes} from './sqlite-wal.ts';

class ImmediateTransaction extends SqliteTransaction {
	// A deferred transaction that reads, then writes fails with SQLITE_BUSY at once when the CLI wrote in between, whatever
	// busy_timeout says: the write lock is taken at the beginning instead.
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
			await this.#undo(connection);
			this._rejecter(error);
		}
	}

	override async rollback(connection: Connection, error: unknown): Promise<void> {
		if (this.isCompleted()) {
			return;
		}
		this._completed = true;
		await this.#undo(connection);
		if (error === undefined) {
			this._resolver(undefined); // Nothing went wrong: its owner wants it undone.
		} else {
			this._rejecter(error);
		}
	}

	/**
	 * SQLite ends a transaction by itself after SQLITE_FULL, SQLITE_IOERR, SQLITE_NOMEM and at times SQLITE_BUSY. A ROLLBACK
	 * fails then, and knex would report that failure instead of its cause. A connection whose transaction cannot be ended
	 * is closed: the next BEGIN on it would fail.
	 */
	async #undo(connection: Connection): Promise<void> {
		try {
			await this.client.query(connection, 'ROLLBACK');
		} catch (error) {
			if (!/no transaction is active/.test((error as Error).message)) {
				connection.__knex__disposed = error;
			}
		}
	}
}

const mostPrepared = 100;
/** A statement keeps what was bound to it last: one with more, characters or octets, is not kept. */
const mostBound = 256 * 1024;

/**
 * knex's client for the `sqlite3` driver; to change the driver, extend another dialect here. Statements are prepared once for
 * each connection: preparing takes a way to the driver's threads and back of its own, and the time of a small insert.
 */
export class SqliteClient extends SqliteDialect {
	override transaction(...options: unknown[]): unknown {
		return new ImmediateTransaction(this, ...options);
	}

	override _query(connection: Connection, query: SqliteQuery): Promise<unknown> {
		if (isLeftOpen(query)) {
			return super._query(connection, query);
		}
		const {sql, bindings} = query;
		const statements = statementsOf(connection);
		return new Promise((resolve, reject) => {
			const known = statements.get(sql);
			let isKept = known !== undefined;
			const statement = known ?? new this.driver.Statement(connection, sql, onPrepared);

			// After a failure nothing else is called.
			function onPrepared(error: Error | null): void {
				if (error) {
					reject(error);
				} else if (!statements.has(sql)) {
					statements.set(sql, statement);
					isKept = true;
				}
			}

			statement.all(bindings, function (this: unknown, error, response) {
				if (!isKept) {
					statement.finalize();
				} else if ((error || sizeOf(bindings) > mostBound) && statements.peek(sql) === statement) {
					statements.delete(sql);
				}
				if (error) {
					reject(error);
				} else {
					resolve(Object.assign(query, {response, context: this}));
				}
			});
		});
	}

	override async destroyRawConnection(connection: Connection): Promise<void> {
		// A connection with statements cannot be closed.
		statementsOf(connection).clear();
		await super.destroyRawConnection(connection);
	}
}

// Not a field: knex makes the clients of transactions without the constructor.
const prepared = new WeakMap<Connection, LRUCache<string, SqliteStatement>>();

function statementsOf(connection: Connection): LRUCache<string, SqliteStatement> {
	const statements =
		prepared.get(connection) ?? new LRUCache({max: mostPrepared, dispose: statement => void statement.finalize()});
	prepared.set(connection, statements);
	return statements;
}

/**
 * Whether SQLite may take it for unfinished until it is finalized: what knex asks no rows of is stepped once only, and an
 * EXPLAIN is never done. Such a statement is not kept.
 */
function isLeftOpen({sql, method = '', returning}: SqliteQuery): boolean {
	const isStepped = method === 'del' || method === 'counter' || (/^(insert|update)$/.test(method) && !returning);
	return isStepped || /^explain/i.test(sql);
}

function sizeOf(bindings: SqliteQuery['bindings']): number {
	let size = 0;
	for (const value of bindings ?? []) {
		size += typeof value === 'string' || value instanceof Uint8Array ? value.length : 0;
	}
	return size;
}

/** The native part of the sqlite3 package is missing or was built for another system. */
class DriverError extends Error {
	override readonly name = 'DriverError';
	readonly code = 'SQLITE_DRIVER';
}

/** The driver: native code, which may be there and yet not load. Throws DriverError with the loader's reason. */
export async function loadSqlite() {
	try {
		const {default: sqlite3} = await import('sqlite3');
		return sqlite3;
	} catch (error) {
		// The first line says what is wrong; the others list where it was looked for.
		const [reason = ''] = (error as Error).message.split('\n');
		throw new DriverError(reason.replace(/\.? Tried:$/, ''), {cause: error});
	}
}

/**
 * Throws what SQLite would where a database file ends before its header says so: a part of a page that is lost shows only when SQLite
 * needs it. What the write-ahead log holds may not be in the file yet: then nothing is said. It asks a connection: closing a file
 * that SQLite has open in this process ends its locks (POSIX).
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
