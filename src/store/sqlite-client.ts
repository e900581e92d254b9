import SqliteTransaction from 'knex/lib/dialects/sqlite3/execution/sqlite-transaction.js';
import SqliteDialect from 'knex/lib/dialects/sqlite3/index.js';

class ImmediateTransaction extends SqliteTransaction {
	// A deferred transaction that reads, then writes fails with SQLITE_BUSY at once when the CLI wrote in between, whatever
	// busy_timeout says: the write lock is taken at the beginning instead.
	override begin(connection: unknown): Promise<unknown> {
		return this.query(connection, 'BEGIN IMMEDIATE;');
	}
}

/** knex's client for the `sqlite3` driver; to change the driver, extend another dialect here. */
export class SqliteClient extends SqliteDialect {
	override transaction(...options: unknown[]): unknown {
		return new ImmediateTransaction(this, ...options);
	}
}
