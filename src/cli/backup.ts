import {copyFileSync, existsSync, statSync, symlinkSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {setTimeout as sleep} from 'node:timers/promises';
import {secretsFile, secretsText} from '../config/secrets-file.ts';
import {RefusedFileError} from '../kit/regular-file.ts';
import {storeTime} from '../kit/time.ts';
import type {Manifest} from '../store/data-folder/backup.ts';
import {noteBackup} from '../store/data-folder/backup-note.ts';
import {noteMissing} from '../store/data-folder/data-dir.ts';
import {
	copiedBytes,
	liveCopyFile,
	readCopyEnd,
	removeCopy,
	requestCopy,
	touchRequest,
} from '../store/data-folder/live-copy.ts';
import {lockData, storeFile} from '../store/data-folder/open.ts';
import {isFolderLocked} from '../store/engine/sqlite.ts';
import type {Store} from '../store/store.ts';
import {CliError} from './fault.ts';
import {inputProblem} from './files.ts';
import {type CliCommand, version} from './program.ts';
import {readDaemons, type Session} from './session.ts';
import {grouped, shortTime} from './terminal-text.ts';

export function backupCommand(command: CliCommand): void {
	command
		.sample('mailctl backup /var/backups/mailctl.tar')
		.argument('<file>', 'the tar file to write; an older backup is replaced')
		.does<object, [string]>(backup);
}

type RestoreOptions = {yes?: boolean; hold?: boolean};

export function restoreCommand(command: CliCommand): void {
	command
		.sample('mailctl restore /var/backups/mailctl.tar --hold')
		.yesOption()
		.argument('<file>', 'a file written by mailctl backup')
		.option('--hold', 'hold all waiting messages until you release them')
		.does<RestoreOptions, [string]>(restore);
}

async function backup(session: Session, _options: object, file: string): Promise<void> {
	const {makeBackup} = await import('../store/data-folder/backup.ts');
	const isSqlite = session.settings().databaseUrl === null;
	const {gather, total, release} = isSqlite ? sqliteSource(session) : postgresSource(session);
	const count = createByteCount(session, total);
	const engine = isSqlite ? 'sqlite' : 'postgres';
	const facts = {version: version(), engine, time: storeTime(session.tools.clock.now())} as const;
	try {
		const result = await makeBackup({file, facts, gather: folder => gather(folder, count.add), onBytes: count.add});
		count.end();
		noteBackup(session.settings().dataDir, Date.parse(facts.time));
		const {bytes, schema, time, files} = result;
		session.show({file, bytes, version: facts.version, schema, time, files}, () => [
			`${file}: ${grouped(bytes)} bytes, as of ${shortTime(time)} UTC, verified.`,
			'It contains the keys that decrypt all secrets: store it where nobody else can read it.',
			...(isSqlite
				? []
				: ['The database is not in it. Run: pg_dump -Fc -f mailctl.dump "$MAILCTL_DATABASE_URL"']),
		]);
	} catch (error) {
		throw toCliError(error, 'name another file');
	} finally {
		release();
		count.end();
	}
}

type Source = {
	/** Puts the files of the backup into a folder and returns the schema. */
	readonly gather: (folder: string, onBytes: (bytes: number) => void) => Promise<string>;
	/** The number of bytes to process, for the progress line. */
	readonly total: number;
	/** Removes temporary files outside of that folder. */
	readonly release: () => void;
};

function sqliteSource(session: Session): Source {
	const settings = session.storeSettings();
	const {dataDir} = settings;
	let daemonCopy: DaemonCopy | null = null;
	return {
		// Every byte is copied, packed, and read again to verify it.
		total: 3 * (statSync(storeFile(dataDir), {throwIfNoEntry: false})?.size ?? 0),
		async gather(folder, onBytes) {
			const [{openStoreFor}, {readSecrets}] = await Promise.all([
				import('./open-store.ts'),
				import('../store/data-folder/open.ts'),
			]);
			const store = await openStoreFor(settings, {allowOld: true});
			try {
				daemonCopy = await requestDaemonCopy(session);
				const isCopied = await daemonCopy?.wait(onBytes);
				const schema = isCopied
					? await linkCopy(liveCopyFile(dataDir), folder)
					: await copyHere(store, folder, onBytes);
				// The keys are copied after the store: a key is in the file before anything is encrypted with it.
				const secrets = secretsFile(dataDir);
				if (!existsSync(secrets)) {
					await readSecrets(store, settings); // Creates them, unless they were lost.
				}
				copyFileSync(secrets, join(folder, 'secrets.json'));
				return schema;
			} finally {
				await store.close();
			}
		},
		release: () => daemonCopy?.release(),
	};
}

async function linkCopy(file: string, folder: string): Promise<string> {
	const {checkCopy} = await import('../store/store.ts');
	symlinkSync(file, join(folder, 'mailctl.db'));
	return await checkCopy(file);
}

type OnBytes = (bytes: number) => void;

/** Copies a snapshot of the store. While it is read, the write-ahead log of a running daemon grows. */
async function copyHere({reader}: Store, folder: string, onBytes: OnBytes): Promise<string> {
	const {copyStore} = await import('../store/store.ts');
	const copyFile = join(folder, 'mailctl.db');
	const timer = setInterval(watchGrowth(copyFile, onBytes), 100);
	try {
		return await copyStore(reader, copyFile);
	} finally {
		clearInterval(timer);
	}
}

/** How long the daemon may take to notice the request, in milliseconds. */
const noticeLimitMs = 5000;

/** A copy of the store that the daemon makes in its data folder. */
type DaemonCopy = {
	/** Waits for the copy and reports whether it succeeded; if not, this process must copy the store. */
	readonly wait: (onBytes: OnBytes) => Promise<boolean>;
	/** Removes the copy. */
	readonly release: () => void;
};

/** Requests a copy. Returns `null` if no daemon is running, or it is making a copy for another command. */
async function requestDaemonCopy(session: Session): Promise<DaemonCopy | null> {
	const {dataDir} = session.storeSettings();
	if (!(await readDaemons(session)).isRunning || !requestCopy(dataDir)) {
		return null;
	}
	const touchTimer = setInterval(() => touchRequest(dataDir), 1000);
	const {monotonic} = session.tools.clock;
	const requestedAt = monotonic();
	return {
		async wait(onBytes) {
			const reportGrowth = watchGrowth(liveCopyFile(dataDir), onBytes);
			for (;;) {
				await sleep(200);
				reportGrowth();
				const end = readCopyEnd(dataDir);
				const isIgnored = copiedBytes(dataDir) === null && monotonic() - requestedAt > noticeLimitMs;
				if (end || isIgnored || !(await isFolderLocked(join(dataDir, 'daemon.lock')))) {
					return end?.ok === true;
				}
			}
		},
		release() {
			clearInterval(touchTimer);
			removeCopy(dataDir);
		},
	};
}

/** With PostgreSQL, the backup contains only the keys of the settings; PostgreSQL's own tools copy the rest. */
function postgresSource(session: Session): Source {
	return {
		total: 1,
		release: () => undefined,
		async gather(folder) {
			const {schemaName} = await import('../store/engine/migrate.ts');
			const text = secretsText(await session.secrets(), session.tools.clock.now());
			writeFileSync(join(folder, 'secrets.json'), text, {mode: 0o600});
			return (await schemaName(await session.reader())) ?? '';
		},
	};
}

async function restore(session: Session, options: RestoreOptions, file: string): Promise<void> {
	const {readManifest} = await import('../store/data-folder/backup.ts');
	try {
		const manifest = await readManifest(file).catch(error => {
			throw inputProblem(error, file, 'restore another backup');
		});
		await refuseUnusable(session, file, manifest);
		await replaceStore(session, options, file, manifest);
	} catch (error) {
		throw toCliError(error, 'restore another backup');
	}
}

/** Throws CliError for a backup that this version, or a store with these settings, cannot use. */
async function refuseUnusable(session: Session, file: string, {engine, version, schema}: Manifest): Promise<void> {
	if (engine === 'postgres') {
		const problem = `${file} contains only the keys of a store in PostgreSQL`;
		const fix = 'run pg_restore and set MAILCTL_SECRET_KEY to the keys in its secrets.json, the current one first';
		throw new CliError('data', problem, fix);
	}
	const {judgeSchema} = await import('../store/engine/migrate.ts');
	switch (judgeSchema(schema)) {
		case 'tooOld': {
			const problem = `${file} contains a store from a version that is too old`;
			throw new CliError('config', problem, 'restore it with mailctl of commit 2a0e3213 and back it up again');
		}
		case 'newer': {
			const problem = `${file} was created by mailctl ${version}, which is newer`;
			throw new CliError('config', problem, 'install that version');
		}
	}
	if (session.settings().databaseUrl !== null) {
		const fix = 'remove MAILCTL_DATABASE_URL from the settings';
		throw new CliError('config', `${file} contains a store in SQLite`, fix);
	}
}

async function replaceStore(
	session: Session,
	{yes, hold = false}: RestoreOptions,
	file: string,
	{version, schema, time}: Manifest,
): Promise<void> {
	const {restoreBackup} = await import('../store/data-folder/backup.ts');
	const {dataDir} = session.settings();
	const removeCreated = noteMissing(dataDir);
	const settings = session.replacingSettings();
	const unlock = await lockData(dataDir);
	const count = createByteCount(session, statSync(file).size);
	try {
		const hasStore = existsSync(storeFile(dataDir));
		if (hasStore) {
			await session.confirm(`Replace the store in ${dataDir} with that of ${shortTime(time)} UTC?`, yes);
		}
		const queue = await restoreBackup({file, settings, acting: session.tools, hold, onBytes: count.add});
		count.end();
		const waiting = queue.ready + queue.deferred;
		session.show(
			{file, version, schema, time, data_dir: dataDir, replaced: hasStore, waiting, held: queue.held},
			() => [`${dataDir} now has the store of ${shortTime(time)} UTC.`, ...queueLines(waiting, queue.held)],
		);
	} catch (error) {
		removeCreated();
		throw error;
	} finally {
		count.end();
		await unlock();
	}
}

function queueLines(waiting: number, held: number): string[] {
	return [
		...(waiting > 0
			? [
					`Waiting recipients: ${grouped(waiting)}. The next start delivers to them, again if they were`,
					'delivered since the backup. To check first: mailctl queue hold --older-than 0s',
				]
			: []),
		...(held > 0 ? [`Held recipients: ${grouped(held)}. See mailctl queue list, then release or drop them.`] : []),
	];
}

/** Shows the number of processed bytes on a terminal. */
function createByteCount(session: Session, total: number) {
	const progress = session.progress('MB');
	let done = 0;
	return {
		add(bytes: number): void {
			done += bytes;
			progress.show(Math.round(done / 1e6), done / total);
		},
		end: () => progress.end(),
	};
}

/** Returns a function that reports by how many bytes a file has grown since its last call. */
function watchGrowth(file: string, onBytes: (bytes: number) => void): () => void {
	let lastSize = 0;
	return () => {
		const size = statSync(file, {throwIfNoEntry: false})?.size ?? 0;
		onBytes(size - lastSize);
		lastSize = size;
	};
}

/** Adds a fix to the error of a refused file. */
function toCliError(error: unknown, fix: string): unknown {
	return error instanceof RefusedFileError ? new CliError('data', error.message, fix) : error;
}
