import createKnex, {type Knex} from 'knex';
import {type Dialect, postgresConfig, postgresDialect, sqliteConfig, sqliteDialect} from './dialect.ts';
import {loadSqlite} from './sqlite-driver.ts';
import {refuseTruncated} from './whole-file.ts';
import {createWriter, type Writer} from './writer.ts';

/** An open store: connections to read with, and the one writer. */
export type Store = {
	readonly dialect: Dialect;
	/** Several connections, for reading only. */
	readonly reader: Knex;
	readonly writer: Writer;
	/** The writer's own connection, for migrations and maintenance while nothing else runs. */
	readonly database: Knex;
	/** Resolves if the store answers. */
	readonly ping: () => Promise<void>;
	/** Waits for the writer, then closes every connection. */
	readonly close: () => Promise<void>;
};

export type StoreLocation = {readonly file: string} | {readonly url: string};

const readers = 4;

/** Opens (and for SQLite creates) the store; throws DriverError, or what the driver throws when it cannot be reached. */
export async function openStore(location: StoreLocation): Promise<Store> {
	const sqlite = 'file' in location;
	if (sqlite) {
		await loadSqlite(); // knex would make prose of its fault.
		refuseTruncated(location.file);
	}
	const dialect = sqlite ? sqliteDialect : postgresDialect;
	const database = createKnex(sqlite ? sqliteConfig(location.file, 1) : postgresConfig(location.url, 1));
	const reader = createKnex(sqlite ? sqliteConfig(location.file, readers) : postgresConfig(location.url, readers));
	const writer = createWriter(database, dialect);
	const store: Store = {
		dialect,
		reader,
		writer,
		database,
		async ping() {
			await reader.raw('select 1');
		},
		async close() {
			await writer.idle();
			// One after the other: the last connection to close takes SQLite's log into the file.
			await reader.destroy();
			await database.destroy();
		},
	};
	try {
		await database.raw('select 1');
		return store;
	} catch (error) {
		await store.close();
		throw error;
	}
}
