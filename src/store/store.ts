import {writeFileSync} from 'node:fs';
import createKnex, {type Knex} from 'knex';
import {createSharedClock, type SharedClock} from '../kit/clock.ts';
import {identifyFiles, type OpenFile} from '../kit/open-files.ts';
import {channel, type Dialect, postgresDialect, sqliteDialect} from './engine/dialect.ts';
import {schemaName} from './engine/migrate.ts';
import {loadSqlite, refuseTruncated, sqliteConfig, type WriteAheadLog, writeAheadLog} from './engine/sqlite.ts';
import {createWriter, type Writer, writeBeside} from './engine/writer.ts';
import {NoAnswerError, postgresConfig, postgresLimits, type Use} from './postgres/postgres-client.ts';

/*
 * The store is everything that mailctl stores in its database, SQLite or PostgreSQL. The files of this folder hold the
 * queries, roughly one file for each kind of data; `engine/` and `postgres/` hide the differences between the two
 * engines. Queries rely on knex and on the types and rules of `src/mail`. They take a connection or transaction as
 * their first argument, and all writes go through a `Writer`. The store never sends mail, never decides an outcome, and
 * knows nothing of HTTP or SMTP.
 */

/** An open store: connections for reading, and the writers. */
export type Store = {
	readonly dialect: Dialect;
	/** Several connections, for reading only. */
	readonly reader: Knex;
	readonly writer: Writer;
	/**
	 * For agreements between nodes. Such a transaction may wait for a slow node, and outcomes must not wait behind it.
	 * On SQLite this is the same writer.
	 */
	readonly agreeing: Writer;
	/** The writer's connections. */
	readonly writing: readonly Knex[];
	/** For migrations and maintenance while nothing else runs. On SQLite this is the writer's own connection. */
	readonly database: Knex;
	/** SQLite's write-ahead log; `null` with PostgreSQL, which manages its own. */
	readonly wal: WriteAheadLog | null;
	/**
	 * Files that must not be moved or replaced while a daemon runs: SQLite's own, and those in `guardedFiles`.
	 * Otherwise empty.
	 */
	readonly files: readonly OpenFile[];
	/** Those of `files` that commits are written to. They are checked after each commit. */
	readonly committed: readonly OpenFile[];
	/** The time that all daemons of the store share: the server's with PostgreSQL, otherwise the system's. */
	readonly clock: SharedClock;
	/** Milliseconds that this machine's own clock is ahead of the store's. */
	readonly skew: () => number;
	/** Shows other daemons that the one with this name is alive, for as long as the server sees its connection. */
	readonly hold: (name: string) => Promise<void>;
	/** Receives other nodes' notices, with PostgreSQL only. The notice is `null` if some may have been missed. */
	readonly listen: (onNotice: (notice: string | null) => void) => Promise<void>;
	/** Notifies all nodes, with PostgreSQL only: at most `maxNoticeLength` octets. Lost notices only cause a delay. */
	readonly notifyNodes: (notice: string) => Promise<void>;
	/** Resolves if the store responds soon. */
	readonly ping: () => Promise<void>;
	/** Waits for the writer, then closes every connection. */
	readonly close: () => Promise<void>;
};

export type StoreLocation = {readonly file: string} | {readonly url: string};

export type StoreOptions = {
	/**
	 * With PostgreSQL, statements may take as long as they need while the server responds. For migrations and commands
	 * of an operator.
	 */
	readonly isPatient?: boolean;
	/**
	 * With SQLite, for a daemon: other files that must not be moved. The writer then rejects commits that went to a
	 * removed or replaced store.
	 */
	readonly guardedFiles?: readonly OpenFile[];
};

/** What depends on the engine, before any connection is used. */
type Engine = Pick<Store, 'dialect' | 'wal' | 'files' | 'committed' | 'clock' | 'skew' | 'hold' | 'listen'> & {
	readonly connect: (connections: number, use: Use) => Knex;
	/** Throws if the store cannot be used. */
	readonly check: (connection: Knex) => Promise<void>;
	readonly stop: () => void;
};

/** PostgreSQL's limit is 8,000. */
export const maxNoticeLength = 7900;

const readers = 4;
const pingMs = 1500;

/**
 * Opens the store, and creates it if it is a missing SQLite file. Throws `DriverError`, or what the driver throws if
 * the store cannot be reached.
 */
export async function openStore(location: StoreLocation, options: StoreOptions = {}): Promise<Store> {
	const {connect, check, stop, ...engine} =
		'file' in location ? await openSqlite(location.file, options) : await openPostgres(location.url, options);
	const database = connect(1, 'maintenance');
	const reader = connect(readers, 'reading');
	// With several writers, accepting messages does not wait for the locks that outcomes hold.
	const writing = engine.dialect.isShared ? [connect(1, 'writing'), connect(1, 'writing')] : [database];
	const [main, accepting] = writing.map(connection => createWriter(connection, engine.dialect, engine.committed)) as [
		Writer,
		Writer?,
	];
	const writer = accepting ? writeBeside(main, accepting) : main;
	const agreeing = accepting ? createWriter(database, engine.dialect, engine.committed) : writer;
	const store: Store = {
		...engine,
		reader,
		writer,
		agreeing,
		writing,
		database,
		// In a transaction of its own that writes nothing: NOTIFY takes a lock until the commit, so within the
		// transaction of the message it would make commits wait for each other.
		notifyNodes: async notice => void (await reader.raw('select pg_notify(?, ?)', [channel, notice])),
		ping: () => withinPingLimit(reader.raw('select 1')),
		async close() {
			await writer.idle();
			await agreeing.idle();
			// In this order: the last connection to close moves SQLite's log into the database file.
			for (const connection of new Set([reader, ...writing, database])) {
				await connection.destroy();
			}
			stop();
		},
	};
	try {
		await check(database);
		return store;
	} catch (error) {
		await store.close();
		throw error;
	}
}

/**
 * Returns a writer with a connection of its own, for a thread other than the one that opened the store. SQLite only.
 */
export async function openWriter(
	file: string,
	committed: readonly OpenFile[] = [],
): Promise<{
	readonly dialect: Dialect;
	readonly writer: Writer;
	/** Waits for the writer. */
	readonly close: () => Promise<void>;
}> {
	const {dialect, connect} = await openSqlite(file, {});
	const database = connect(1, 'writing');
	const writer = createWriter(database, dialect, committed);
	await database.raw('select 1');
	return {
		dialect,
		writer,
		async close() {
			await writer.idle();
			await database.destroy();
		},
	};
}

async function openSqlite(file: string, {guardedFiles}: StoreOptions): Promise<Engine> {
	// Loaded first, because knex would reduce the error to a message.
	await loadSqlite();
	const connect = (connections: number, use?: Use) => createKnex(sqliteConfig(file, connections, use));
	const files: OpenFile[] = [];
	const committed: OpenFile[] = [];
	return {
		dialect: sqliteDialect,
		files,
		committed,
		wal: writeAheadLog(file, files, () => connect(1)),
		clock: createSharedClock(),
		skew: () => 0,
		hold: async () => undefined,
		listen: async () => undefined,
		connect,
		async check(connection) {
			await refuseTruncated(connection, file);
			if (guardedFiles) {
				// The connection holds them open, so nothing replaces the log before the last connection closes.
				committed.push(...identifyFiles([file, `${file}-wal`]));
				files.push(...guardedFiles, ...committed, ...identifyFiles([`${file}-shm`]));
			}
		},
		stop: () => undefined,
	};
}

async function openPostgres(url: string, {isPatient = false}: StoreOptions): Promise<Engine> {
	// Loaded here, so that commands with SQLite, the default, do not wait for PostgreSQL's driver.
	const [{createPostgresClient}, {Pulse}] = await Promise.all([
		import('./postgres/postgres-client.ts'),
		import('./postgres/pulse.ts'),
	]);
	const {connectMs, statementMs} = postgresLimits;
	const client = createPostgresClient({connectMs, statementMs: isPatient ? null : statementMs});
	const clock = createSharedClock();
	const pulse = new Pulse({url, clock, connectMs, onSilent: client.setSilent});
	await pulse.start();
	return {
		skew: () => pulse.skew(),
		hold: name => pulse.hold(name),
		listen: onNotice => pulse.listen(onNotice),
		stop: () => pulse.stop(),
		dialect: postgresDialect,
		files: [],
		committed: [],
		wal: null,
		clock,
		check: async connection => void (await connection.raw('select 1')),
		connect: (connections, use) =>
			createKnex(postgresConfig(url, {client: client.Client, connections, use, isPatient})),
	};
}

async function withinPingLimit(response: Promise<unknown>): Promise<void> {
	let timer: NodeJS.Timeout | undefined;
	const timeout = new Promise<never>((_, reject) => {
		timer = setTimeout(
			() => reject(new NoAnswerError(`the store did not respond within ${pingMs / 1000} s`)),
			pingMs,
		);
	});
	await Promise.race([response, timeout]).finally(() => clearTimeout(timer));
}

/**
 * Copies SQLite's store, as it is at this moment, into a new file while others keep reading and writing. Returns the
 * last migration of the copy. Throws SQLite's error if the file is damaged.
 */
export async function copyStore(reader: Knex, file: string): Promise<string> {
	writeFileSync(file, '', {mode: 0o600, flag: 'wx'});
	await reader.raw('vacuum into ?', [file]);
	return await checkCopy(file);
}

/** Checks a copied store and returns its last migration. Throws SQLite's error if the file is damaged. */
export async function checkCopy(file: string): Promise<string> {
	const copy = await openStore({file});
	try {
		const [row] = await copy.reader.raw('pragma quick_check(1)');
		if (row.quick_check !== 'ok') {
			throw Object.assign(new Error(row.quick_check), {code: 'SQLITE_CORRUPT'});
		}
		return (await schemaName(copy.reader)) ?? '';
	} finally {
		await copy.close();
	}
}
