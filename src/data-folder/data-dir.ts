import {accessSync, constants, existsSync, mkdirSync, readdirSync, rmdirSync, rmSync, statSync} from 'node:fs';
import {statfs} from 'node:fs/promises';
import {dirname, join} from 'node:path';
import process from 'node:process';
import {ConfigError} from '../config/config-error.ts';
import {isRestored} from './restored.ts';

export type DataDirInput = {
	readonly dataDir: string;
	/** `--as-root`: open a folder that belongs to another user. */
	readonly asRoot?: boolean;
	/** The store in it is going to be replaced. */
	readonly replaces?: boolean;
	/** The user we are; undefined where the system knows none. */
	readonly uid?: number | undefined;
};

const guarded = /^(?:mailctl\.db|secrets\.json|daemon\.lock|first-keys\.txt)/;

/**
 * Makes the data folder (mode 0700) or checks it, and lets all that this process makes from now on be its user's alone:
 * SQLite makes its -wal and -shm files by the umask. Throws ConfigError: 74 for a folder that cannot be used or whose
 * store was emptied (SQLite would take it for a new one), 78 for one that should not be used.
 */
export function openDataDir({dataDir, asRoot = false, replaces = false, uid = process.getuid?.()}: DataDirInput): void {
	process.umask(0o077);
	try {
		makeFolder(dataDir);
		accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
	} catch (error) {
		const reason = (error as Error).message;
		throw new ConfigError(
			[`the data folder ${dataDir} cannot be written (${reason}): make it writable or set MAILCTL_DATA_DIR`],
			74,
		);
	}

	const owner = statSync(dataDir).uid;
	if (uid !== undefined && uid !== owner && !asRoot) {
		throw new ConfigError([
			`the data folder ${dataDir} belongs to user ${owner} and this is user ${uid}: run as that user (or with --as-root), or run chown ${uid} ${dataDir}`,
		]);
	}

	const mode = statSync(dataDir).mode & 0o7777;
	if ((mode & 0o022) !== 0) {
		throw new ConfigError([
			`the data folder ${dataDir} may be written by others (mode ${mode.toString(8)}), who could put their own store and keys there: run chmod go-w ${dataDir}`,
		]);
	}

	const [file, secrets] = [join(dataDir, 'mailctl.db'), join(dataDir, 'secrets.json')];
	const isReplaced = replaces || isRestored(dataDir);
	if (!isReplaced && existsSync(secrets) && statSync(file, {throwIfNoEntry: false})?.size === 0) {
		throw new ConfigError(
			[`${file} is empty: restore it from a backup, or remove it and ${secrets} to start over`],
			74,
		);
	}

	const exposed = readdirSync(dataDir)
		.filter(name => guarded.test(name))
		.map(name => join(dataDir, name))
		.filter(file => ((statSync(file, {throwIfNoEntry: false})?.mode ?? 0) & 0o066) !== 0);
	if (exposed.length > 0) {
		throw new ConfigError(exposed.map(file => `${file} can be read or written by others: run chmod 600 ${file}`));
	}
}

/**
 * Notes what is not there yet of a data folder and its lock. The answer removes what has been made of it since, as far as
 * nothing else is in there: for whoever holds the lock, as the last thing before letting go of it.
 */
export function noteMissing(dataDir: string): () => void {
	const isMissing = (path: string) => !existsSync(path);
	const locks = ['', '-wal', '-shm'].map(end => join(dataDir, `daemon.lock${end}`)).filter(isMissing);
	const folders: string[] = [];
	for (let path = dataDir; isMissing(path); path = dirname(path)) {
		folders.push(path);
	}
	return () => {
		for (const file of locks) {
			rmSync(file, {force: true});
		}
		for (const folder of folders) {
			if (existsSync(folder) && readdirSync(folder).length === 0) {
				rmdirSync(folder);
			}
		}
	};
}

/** Whether there is surely no store of SQLite: a folder that cannot be read may have one, and so may a restore that died. */
export function lacksStore(dataDir: string): boolean {
	try {
		statSync(join(dataDir, 'mailctl.db'));
		return false;
	} catch (error) {
		return (error as NodeJS.ErrnoException).code === 'ENOENT' && !isRestored(dataDir);
	}
}

/** What the file system of a folder has left for us. */
export async function freeBytes(folder: string): Promise<number> {
	const {bavail, bsize} = await statfs(folder);
	return bavail * bsize;
}

/** With those above it. Not `recursive`: where a folder that is there takes none, as below /proc, Node 20 tries for ever. */
function makeFolder(path: string): void {
	if (isFolder(path)) {
		return;
	}
	makeFolder(dirname(path));
	try {
		mkdirSync(path, {mode: 0o700});
	} catch (error) {
		// Another command may have made it meanwhile.
		if (!isFolder(path)) {
			throw error;
		}
	}
}

function isFolder(path: string): boolean {
	return statSync(path, {throwIfNoEntry: false})?.isDirectory() ?? false;
}
