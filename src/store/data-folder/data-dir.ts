import {
	accessSync,
	closeSync,
	constants,
	existsSync,
	fsyncSync,
	lchownSync,
	mkdirSync,
	openSync,
	readdirSync,
	readFileSync,
	renameSync,
	rmdirSync,
	rmSync,
	statSync,
	writeFileSync,
} from 'node:fs';
import {statfs} from 'node:fs/promises';
import {dirname, join} from 'node:path';
import process from 'node:process';
import {ConfigError} from '../../config/config-error.ts';
import {syncFolder} from '../../config/secrets-file.ts';
import {accessProblem, readFileWithOwner} from '../../kit/regular-file.ts';
import {systemCode} from '../../kit/system-error.ts';

type DataDirInput = {
	readonly dataDir: string;
	/** `--as-root`: open a folder that belongs to another user. */
	readonly asRoot?: boolean;
	/** The current user; `undefined` if the system has no users. */
	readonly uid?: number | undefined;
};

/** The welcome text, including keys, of a first start without a terminal. */
export const firstKeysFile = 'first-keys.txt';
const privateFiles = /^(?:mailctl\.db|secrets\.json|daemon\.lock|first-keys\.txt)/;
/** The files that the daemon needs, and how it accesses them. Other files are only replaced as a whole. */
const neededFiles: ReadonlyArray<readonly [name: RegExp, kind: 'file' | 'folder', mode: number]> = [
	[/^(?:mailctl\.db|daemon\.lock)(?:-wal|-shm)?$/, 'file', constants.R_OK | constants.W_OK],
	[/^secrets\.json$/, 'file', constants.R_OK],
	[/^(?:captured|restore\.ready)$/, 'folder', constants.R_OK | constants.W_OK | constants.X_OK],
];
/** Errors of the disk or the system, not of the settings. */
const systemFailures = new Set(['EIO', 'ENOSPC', 'EDQUOT', 'ENFILE', 'EMFILE', 'ENOMEM']);

/**
 * Creates the data folder (mode 0700) or checks it. All files that this process creates from now on are private: SQLite
 * creates its -wal and -shm files by the umask. Throws ConfigError: 78 if the folder cannot or must not be used, 74 if
 * the disk fails.
 */
export function openDataDir({dataDir, asRoot = false, uid = process.getuid?.()}: DataDirInput): void {
	process.umask(0o077);
	try {
		makeFolder(dataDir);
	} catch (error) {
		throw toUnusableError(dataDir, error, uid);
	}

	const owner = statSync(dataDir).uid;
	if (uid !== undefined && uid !== owner && !asRoot) {
		throw new ConfigError([
			`the data folder ${dataDir} belongs to user ${owner}, but mailctl runs as user ${uid}: run as that user (or with --as-root), or run chown -R ${uid} ${dataDir}`,
		]);
	}
	try {
		accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
	} catch (error) {
		throw toUnusableError(dataDir, error, uid);
	}
	const problems = readdirSync(dataDir).flatMap(name => findProblems(dataDir, name, uid));
	if (problems.length > 0) {
		throw new ConfigError(problems);
	}

	const mode = statSync(dataDir).mode & 0o7777;
	if ((mode & 0o022) !== 0) {
		throw new ConfigError([
			`the data folder ${dataDir} is writable by others (mode ${mode.toString(8)}), who could replace the store and the keys: run chmod go-w ${dataDir}`,
		]);
	}

	const exposed = readdirSync(dataDir)
		.filter(name => privateFiles.test(name))
		.map(name => join(dataDir, name))
		.filter(file => ((statSync(file, {throwIfNoEntry: false})?.mode ?? 0) & 0o066) !== 0);
	if (exposed.length > 0) {
		throw new ConfigError(exposed.map(file => `${file} can be read or written by others: run chmod 600 ${file}`));
	}
}

/** Returns the file to which the daemon saves the content of a store that was removed or replaced while it ran. */
export function rescuedStore(dataDir: string): string {
	return join(dataDir, 'mailctl.db.rescued');
}

/**
 * Refuses a data folder that has lost its store: SQLite would create an empty one, and nobody would notice that all
 * messages are lost. The first start creates the store before `secrets.json`, so keys without a store mean that there
 * was one. Throws ConfigError (74).
 */
export function refuseLostStore(dataDir: string): void {
	if (isRestored(dataDir)) {
		return;
	}
	const [file, secrets] = [join(dataDir, 'mailctl.db'), join(dataDir, 'secrets.json')];
	const rescued = rescuedStore(dataDir);
	if (existsSync(rescued)) {
		const logs = `${file}-wal ${file}-shm`;
		throw new ConfigError(
			[
				`${file} was removed or replaced while the daemon was running. Its content was saved in ${rescued}: to use that, ` +
					`run mv ${rescued} ${file} && rm -f ${logs}; otherwise remove ${rescued}`,
			],
			74,
		);
	}
	const size = statSync(file, {throwIfNoEntry: false})?.size ?? null;
	if (existsSync(secrets) && (size === null || size === 0)) {
		const [state, removable] =
			size === null ? [`missing although ${secrets} exists`, secrets] : ['empty', `it and ${secrets}`];
		throw new ConfigError(
			[`${file} is ${state}: restore it from a backup, or remove ${removable} to start with an empty store`],
			74,
		);
	}
}

/** Returns the error for a data folder that cannot be created or used, with how to fix it. */
function toUnusableError(dataDir: string, error: unknown, uid: number | undefined): ConfigError {
	const [code, {message}] = [systemCode(error), error as Error];
	const {existing, isReached} = findNearest(dataDir);
	const denied = code === 'EACCES' ? accessProblem(existing, uid) : null;
	const parentFix = isReached ? `run install -d -o ${uid} -m 700 ${dataDir}` : `run chmod o+x ${existing}`;
	let [why, fix] = [message, 'make it writable'];
	if (isReached && !isFolder(existing)) {
		[why, fix] = [`${existing} is not a folder`, 'move it away'];
	} else if (code === 'EROFS') {
		[why, fix] = [readOnly, `run mount -o remount,rw ${mountPoint(existing)}`];
	} else if (denied) {
		[why, fix] = [denied.why, denied.isOwn || existing === dataDir ? denied.fix : parentFix];
	}
	return new ConfigError(
		[`the data folder ${dataDir} cannot be written (${why}): ${fix} or set MAILCTL_DATA_DIR`],
		systemFailures.has(code) ? 74 : 78,
	);
}

const readOnly = 'EROFS: the file system is mounted read-only';

/**
 * Returns the folder itself or its nearest existing ancestor. `isReached` is false if a folder below it cannot be
 * searched.
 */
function findNearest(path: string): {readonly existing: string; readonly isReached: boolean} {
	let isReached = true;
	for (let existing = path; ; existing = dirname(existing)) {
		try {
			if (statSync(existing, {throwIfNoEntry: false}) || existing === dirname(existing)) {
				return {existing, isReached};
			}
		} catch {
			isReached = false;
		}
	}
}

/** Returns the mount point of a path, as far as the system reveals it. */
function mountPoint(path: string): string {
	let mounts = '';
	try {
		mounts = readFileSync('/proc/self/mounts', 'utf8');
	} catch {
		return path; // Not Linux.
	}
	const points = mounts.split('\n').map(line => (line.split(' ')[1] ?? '').replaceAll('\\040', ' '));
	const above = points.filter(point => path === point || path.startsWith(point.endsWith('/') ? point : `${point}/`));
	return above.sort((a, b) => b.length - a.length).find(point => point !== '') ?? path;
}

/** Returns the problems of a file or folder in the data folder that the daemon needs. */
function findProblems(dataDir: string, name: string, uid: number | undefined): string[] {
	const [, kind, mode] = neededFiles.find(([pattern]) => pattern.test(name)) ?? [];
	const path = join(dataDir, name);
	if (kind === undefined) {
		return [];
	}
	try {
		const stats = statSync(path);
		if (kind === 'folder' ? !stats.isDirectory() : !stats.isFile()) {
			return [`${path} is not a ${kind}: move it away`];
		}
		accessSync(path, mode);
		return [];
	} catch (error) {
		const {code = '', message} = error as NodeJS.ErrnoException;
		if (code === 'ENOENT') {
			return []; // Another process has just removed it.
		}
		if (code === 'EROFS') {
			return [`${path} cannot be written (${readOnly}): run mount -o remount,rw ${mountPoint(path)}`];
		}
		const {why, fix} = accessProblem(path, uid) ?? {
			why: `${path} cannot be used (${message})`,
			fix: 'make it writable for this user',
		};
		return [`${why}: ${fix}`];
	}
}

/**
 * Records which parts of a data folder and its lock do not exist yet. Returns a function that removes the ones created
 * since, if nothing else is in them. The holder of the lock must call it right before releasing the lock.
 */
export function noteMissing(dataDir: string): () => void {
	const isMissing = (path: string) => !existsSync(path);
	const locks = ['', '-wal', '-shm'].map(suffix => join(dataDir, `daemon.lock${suffix}`)).filter(isMissing);
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

/** Whether there is certainly no SQLite store. An unreadable folder may have one, and so may an interrupted restore. */
export function lacksStore(dataDir: string): boolean {
	try {
		statSync(join(dataDir, 'mailctl.db'));
		return false;
	} catch (error) {
		return (error as NodeJS.ErrnoException).code === 'ENOENT' && !isRestored(dataDir);
	}
}

/** Returns the free space that this user may use in a folder's file system. */
export async function freeBytes(folder: string): Promise<number> {
	const {bavail, bsize} = await statfs(folder);
	return bavail * bsize;
}

/** More than SQLite writes at once. Its own errors often do not reveal that the disk is full. */
const probeBytes = 1024 * 1024;

/** Tries to write to a folder. Returns the system's error code, or `null` if it can be written. */
function probeFolder(folder: string): string | null {
	const probe = join(folder, `.probe.${process.pid}`);
	try {
		writeFileSync(probe, Buffer.alloc(probeBytes), {mode: 0o600, flush: true});
		return null;
	} catch (error) {
		return systemCode(error);
	} finally {
		tryRemove(probe);
	}
}

function tryRemove(file: string): void {
	try {
		rmSync(file, {force: true});
	} catch {
		// The file stays if the file system fails or has become read-only.
	}
}

const isNoSpace = (code: string | null): boolean => code === 'ENOSPC' || code === 'EDQUOT';

/** Whether a folder has no space for us, because the disk is full or our quota is used up. */
export function isDiskFull(folder: string): boolean {
	return isNoSpace(probeFolder(folder));
}

/**
 * Explains an error of SQLite or the file system by writing to the data folder: SQLite reports a full disk and a
 * failing one alike. Other errors are returned unchanged.
 */
export function explainDiskError(error: unknown, dataDir: string): unknown {
	const code = systemCode(error);
	const {message} = Object(error) as Error;
	if (!diskErrors.test(code)) {
		return error;
	}
	const probed = probeFolder(dataDir);
	if (isNoSpace(probed) || isNoSpace(code)) {
		const why = [probed, code].includes('EDQUOT') ? 'EDQUOT: the quota is used up' : 'ENOSPC: the disk is full';
		return new ConfigError(
			[`no space is left for the data folder ${dataDir} (${why}): free some, then start again`],
			74,
		);
	}
	if (probed === 'EROFS') {
		return new ConfigError([
			`the data folder ${dataDir} cannot be written (${readOnly}): run mount -o remount,rw ${mountPoint(dataDir)}`,
		]);
	}
	if (probed === 'EIO' || /IOERR|^EIO$/.test(code)) {
		return new ConfigError(
			[`the disk of the data folder ${dataDir} is failing (${message}): check it, see dmesg`],
			74,
		);
	}
	return error;
}

const diskErrors = /^(SQLITE_(IOERR|FULL|CANTOPEN|READONLY)|ENOSPC|EDQUOT|EROFS|EIO)$/;

/**
 * Creates a folder and its parents. It does not use `recursive`, with which Node 20 retries forever if an existing
 * folder rejects children, as below /proc.
 */
function makeFolder(path: string): void {
	if (isFolder(path)) {
		return;
	}
	makeFolder(dirname(path));
	try {
		mkdirSync(path, {mode: 0o700});
	} catch (error) {
		// Another command may have created it in the meantime.
		if (!isFolder(path)) {
			throw error;
		}
	}
}

function isFolder(path: string): boolean {
	return statSync(path, {throwIfNoEntry: false})?.isDirectory() ?? false;
}

/** Returns the folder in which a restore assembles a store. */
export function stagingFolder(dataDir: string): string {
	return join(dataDir, 'restore.partial');
}

/**
 * Returns the name of that folder once it is complete. From then on its store is the current one, even if the process
 * dies.
 */
function completeFolder(dataDir: string): string {
	return join(dataDir, 'restore.ready');
}

/** Whether a restore was interrupted in its last step. */
export function isRestored(dataDir: string): boolean {
	return existsSync(completeFolder(dataDir));
}

/** Replaces the current store with the staged one. The caller must hold the folder's lock. */
export function commitRestore(dataDir: string): void {
	const [staging, {uid, gid}] = [stagingFolder(dataDir), statSync(dataDir)];
	// Root may restore the store of a daemon that runs as another user and will need the lock too. That user may have
	// put links into the folder, so the owner of their targets must not change.
	for (const name of readdirSync(dataDir).filter(name => name.startsWith('daemon.lock'))) {
		lchownSync(join(dataDir, name), uid, gid);
	}
	for (const file of [...readdirSync(staging).map(name => join(staging, name)), staging]) {
		lchownSync(file, uid, gid);
		const handle = openSync(file, 'r');
		fsyncSync(handle);
		closeSync(handle);
	}
	renameSync(staging, completeFolder(dataDir));
	syncFolder(dataDir);
	finishRestore(dataDir);
}

/** Resumes a committed restore from where it stopped, if there is one. The caller must hold the folder's lock. */
export function finishRestore(dataDir: string): void {
	const complete = completeFolder(dataDir);
	if (!existsSync(complete)) {
		return;
	}
	const store = 'mailctl.db';
	if (existsSync(join(complete, store))) {
		// SQLite would apply the log of the old store to the new one.
		rmSync(join(dataDir, `${store}-wal`), {force: true});
		rmSync(join(dataDir, `${store}-shm`), {force: true});
	}
	for (const name of [store, 'secrets.json'].filter(name => existsSync(join(complete, name)))) {
		renameSync(join(complete, name), join(dataDir, name));
	}
	syncFolder(dataDir);
	rmSync(complete, {recursive: true, force: true});
}

const maxBytes = 16 * 1024;

/** Returns the file in which `mailctl workspace use` saves the selection: `{"workspace":"ws_…"}`. */
export function usedWorkspaceFile(dataDir: string): string {
	return join(dataDir, 'cli.json');
}

/** Returns the selected id or name, which may no longer exist, or `null` if there is no valid selection. */
export function readUsedWorkspace(dataDir: string): string | null {
	try {
		const {workspace} = JSON.parse(readFileWithOwner(usedWorkspaceFile(dataDir), maxBytes).content.toString());
		return typeof workspace === 'string' ? workspace : null;
	} catch {
		return null;
	}
}

/** Replaces the file atomically. */
export function writeUsedWorkspace(dataDir: string, workspace: string): void {
	const draft = `${usedWorkspaceFile(dataDir)}.${process.pid}`;
	writeFileSync(draft, `${JSON.stringify({workspace})}\n`, {mode: 0o600});
	renameSync(draft, usedWorkspaceFile(dataDir));
}
