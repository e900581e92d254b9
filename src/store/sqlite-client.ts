import SqliteTransaction from 'knex/lib/dialects/sqlite3/execution/sqlite-transaction.js';
import SqliteDialect from 'knex/lib/dialects/sqlite3/index.js';

type Connection = {__knex__disposed?: unknown};

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

/** knex's client for the `sqlite3` driver; to change the driver, extend another dialect here. */
export class SqliteClient extends SqliteDialect {
	override transaction(...options: unknown[]): unknown {
		return new ImmediateTransaction(this, ...options);
	}
}
