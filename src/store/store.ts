import {writeFileSync} from 'node:fs';
import createKnex, {type Knex} from 'knex';
import {createSharedClock, type SharedClock} from '../kit/clock.ts';
import {identifyFiles, type OpenFile} from '../kit/open-files.ts';
import {channel, type Dialect, postgresDialect, sqliteDialect} from './engine/dialect.ts';
import {schemaName} from './engine/migrate.ts';
import {loadSqlite, refuseTruncated, sqliteConfig, type WriteAheadLog, writeAheadLog} from './engine/sqlite.ts';
import {createWriter, type Writer, writeBeside} from './engine/writer.ts';
import {NoAnswerError, postgresConfig, postgresLimits, type Use} from './postgres/postgres-client.ts';

/** An open store: connections to read with, and what writes. */
export type Store = {
	readonly dialect: Dialect;
	/** Several connections, for reading only. */
	readonly reader: Knex;
	readonly writer: Writer;
	/**
	 * For what nodes agree on: such a transaction may wait for a slow node, and outcomes must not wait behind it.
	 * SQLite: the writer.
	 */
	readonly agreeing: Writer;
	/** The writer's connections. */
	readonly writing: readonly Knex[];
	/** For migrations and maintenance while nothing else runs; on SQLite the writer's own connection. */
	readonly database: Knex;
	/** SQLite's; null: PostgreSQL looks after its own. */
	readonly wal: WriteAheadLog | null;
	/** What must stay where it is while a daemon runs: SQLite's files and what the daemon named besides. Else empty. */
	readonly files: readonly OpenFile[];
	/** Those of them that a commit goes to, which are checked after each one. */
	readonly committed: readonly OpenFile[];
	/** The time that all daemons of the store share: on PostgreSQL the server's, else the system's. */
	readonly clock: SharedClock;
	/** Milliseconds that this machine's own clock is ahead of the store's. */
	readonly skew: () => number;
	/** Shows other daemons that the one of this name lives, for as long as the server sees its connection. */
	readonly hold: (name: string) => Promise<void>;
	/** PostgreSQL: receives other nodes' notices. Null: some may have been missed. SQLite: never called. */
	readonly listen: (onNotice: (notice: string | null) => void) => Promise<void>;
	/** PostgreSQL: notifies all nodes, at most `maxNoticeLength` octets. What is lost is found later. */
	readonly tell: (notice: string) => Promise<void>;
	/** Resolves if the store answers soon. */
	readonly ping: () => Promise<void>;
	/** Waits for the writer, then closes every connection. */
	readonly close: () => Promise<void>;
};

export type StoreLocation = {readonly file: string} | {readonly url: string};

export type StoreOptions = {
	/**
	 * PostgreSQL: statements may take as long as they need while the server answers: migrations, verbs of an operator.
	 */
	readonly isPatient?: boolean;
	/**
	 * SQLite, for a daemon: what else must stay where it is. Its writer then refuses what went to a removed or replaced
	 * store.
	 */
	readonly beside?: readonly OpenFile[];
};

/** What differs by the engine before anything is asked of it. */
type Engine = Pick<Store, 'dialect' | 'wal' | 'files' | 'committed' | 'clock' | 'skew' | 'hold' | 'listen'> & {
	readonly connect: (connections: number, use: Use) => Knex;
	/** Throws if the store cannot be used. */
	readonly check: (connection: Knex) => Promise<void>;
	readonly stop: () => void;
};

/** PostgreSQL takes 8,000 at most. */
export const maxNoticeLength = 7900;

const readers = 4;
const pingMs = 1500;

/**
 * Opens (and for SQLite creates) the store; throws DriverError, or what the driver throws when it cannot be reached.
 */
export async function openStore(location: StoreLocation, options: StoreOptions = {}): Promise<Store> {
	const {connect, check, stop, ...engine} =
		'file' in location ? await openSqlite(location.file, options) : await openPostgres(location.url, options);
	const database = connect(1, 'maintenance');
	const reader = connect(readers, 'reading');
	// Where there is more than one writer, accepts wait for no locks of outcomes.
	const writing = engine.dialect.isShared ? [connect(1, 'writing'), connect(1, 'writing')] : [database];
	const [most, accepts] = writing.map(connection => createWriter(connection, engine.dialect, engine.committed)) as [
		Writer,
		Writer?,
	];
	const writer = accepts ? writeBeside(most, accepts) : most;
	const agreeing = accepts ? createWriter(database, engine.dialect, engine.committed) : writer;
	const store: Store = {
		...engine,
		reader,
		writer,
		agreeing,
		writing,
		database,
		// A transaction of its own that writes nothing: within that of the mail, NOTIFY would let commits wait for each
		// other.
		tell: async notice => void (await reader.raw('select pg_notify(?, ?)', [channel, notice])),
		ping: () => soon(reader.raw('select 1')),
		async close() {
			await writer.idle();
			await agreeing.idle();
			// One after the other: the last connection to close takes SQLite's log into the file.
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

/** A connection to write with, for a thread beside the one that opened the store: SQLite only. */
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

async function openSqlite(file: string, {beside}: StoreOptions): Promise<Engine> {
	await loadSqlite(); // knex would make prose of its fault.
	const connect = (connections: number) => createKnex(sqliteConfig(file, connections));
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
			if (beside) {
				// The connection has them open, and so nothing replaces the log before the last one closes.
				committed.push(...identifyFiles([file, `${file}-wal`]));
				files.push(...beside, ...committed, ...identifyFiles([`${file}-shm`]));
			}
		},
		stop: () => undefined,
	};
}

async function openPostgres(url: string, {isPatient = false}: StoreOptions): Promise<Engine> {
	// Loaded here: with SQLite, which is usual, every command would wait for PostgreSQL's driver.
	const [{createPostgresClient}, {startPulse}] = await Promise.all([
		import('./postgres/postgres-client.ts'),
		import('./postgres/pulse.ts'),
	]);
	const {connectMs, statementMs} = postgresLimits;
	const client = createPostgresClient({connectMs, statementMs: isPatient ? null : statementMs});
	const clock = createSharedClock();
	const pulse = await startPulse({url, clock, connectMs, onSilent: client.setSilent});
	return {
		...pulse,
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

async function soon(answer: Promise<unknown>): Promise<void> {
	let timer: NodeJS.Timeout | undefined;
	const late = new Promise<never>((_, reject) => {
		timer = setTimeout(
			() => reject(new NoAnswerError(`the store did not answer within ${pingMs / 1000} s`)),
			pingMs,
		);
	});
	await Promise.race([answer, late]).finally(() => clearTimeout(timer));
}

/**
 * Copies SQLite's store, as it is at this moment, into a new file, while others read and write on. The copy is whole:
 * its last migration. Throws what SQLite throws of a damaged file.
 */
export async function copyStore(reader: Knex, file: string): Promise<string> {
	writeFileSync(file, '', {mode: 0o600, flag: 'wx'});
	await reader.raw('vacuum into ?', [file]);
	return await checkCopy(file);
}

/** The last migration of a copied store. Throws what SQLite throws of a damaged file. */
export async function checkCopy(file: string): Promise<string> {
	const copy = await openStore({file});
	try {
		const [found] = await copy.reader.raw('pragma quick_check(1)');
		if (found.quick_check !== 'ok') {
			throw Object.assign(new Error(found.quick_check), {code: 'SQLITE_CORRUPT'});
		}
		return (await schemaName(copy.reader)) ?? '';
	} finally {
		await copy.close();
	}
}
