import {closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync} from 'node:fs';
import {type FileHandle, open} from 'node:fs/promises';
import process from 'node:process';

/** `refuse` rejects a path whose last component is a symbolic link. Folders in the path may be links. */
export type Links = 'follow' | 'refuse';

/** A file that must not be read, and why. */
export class RefusedFileError extends Error {
	override readonly name = 'RefusedFileError';
	readonly code = 'FILE_REFUSED';
	/** A clause about the file, such as `is a folder`. */
	readonly why: string;

	constructor(path: string, why: string) {
		super(`${path} ${why}`);
		this.why = why;
	}
}

/**
 * Opens a regular file for reading. Throws RefusedFileError for a link, device, FIFO or folder, and otherwise the
 * system's error. Never blocks on a FIFO.
 */
export async function openRegular(path: string, links: Links): Promise<{file: FileHandle; size: number}> {
	const file = await open(path, openFlags(links)).catch(error => {
		throw toRefusedError(error, path);
	});
	try {
		const stats = await file.stat();
		requireRegular(stats, path);
		return {file, size: stats.size};
	} catch (error) {
		await file.close();
		throw error;
	}
}

/** Returns the content of a regular file. Throws RefusedFileError if it has more than `max` octets. */
export async function readRegular(path: string, max: number, links: Links): Promise<Buffer> {
	const {file, size} = await openRegular(path, links);
	try {
		requireMaxLength(size, max, path);
		const chunks: Buffer[] = [];
		// The file may grow while it is being read.
		for await (const chunk of file.createReadStream({end: max, autoClose: false}) as AsyncIterable<Buffer>) {
			chunks.push(chunk);
		}
		const bytes = Buffer.concat(chunks);
		requireMaxLength(bytes.length, max, path);
		return bytes;
	} finally {
		await file.close();
	}
}

/** The limit for files named by settings, such as certificates, keys and tables. Kubernetes provides them as links. */
const maxSettingBytes = 4 * 1024 ** 2;

/** Returns the content of a file named by a setting. */
export function readSettingFile(path: string): Buffer {
	return readFileWithOwner(path, maxSettingBytes).content;
}

/**
 * A file's content, permissions and owner, all read through one descriptor: the path may refer to another file a moment
 * later.
 */
type FileWithOwner = {readonly content: Buffer; readonly mode: number; readonly uid: number};

export function readFileWithOwner(path: string, max = maxSettingBytes): FileWithOwner {
	let file: number;
	try {
		file = openSync(path, openFlags('follow'));
	} catch (error) {
		const problem = (error as NodeJS.ErrnoException).code === 'EACCES' ? accessProblem(path) : null;
		throw problem
			? Object.assign(new Error(`${problem.why}: ${problem.fix}`), {code: 'EACCES'})
			: toRefusedError(error, path);
	}
	try {
		const stats = fstatSync(file);
		requireRegular(stats, path);
		requireMaxLength(stats.size, max, path);
		return {content: readAtMost(file, max, path), mode: stats.mode & 0o777, uid: stats.uid};
	} finally {
		closeSync(file);
	}
}

/** Why a file cannot be accessed. `isOwn`: it belongs to this user, and only its mode is wrong. */
type AccessProblem = {readonly why: string; readonly fix: string; readonly isOwn: boolean};

/**
 * Returns why this user may not access an existing file or folder, with the command that fixes it, or `null` if neither
 * its owner nor its mode is the reason.
 */
export function accessProblem(path: string, uid = process.getuid?.()): AccessProblem | null {
	let stats: Stats;
	try {
		stats = statSync(path);
	} catch {
		return null; // A parent folder is not accessible.
	}
	if (uid === undefined) {
		return null;
	}
	if (stats.uid !== uid) {
		const recursive = stats.isDirectory() ? '-R ' : '';
		return {
			why: `${path} belongs to user ${stats.uid}, but mailctl runs as user ${uid}`,
			fix: `run chown ${recursive}${uid} ${path}`,
			isOwn: false,
		};
	}
	const requiredMode = stats.isDirectory() ? 0o700 : 0o600;
	return (stats.mode & requiredMode) === requiredMode
		? null
		: {
				why: `${path} has mode ${(stats.mode & 0o7777).toString(8)}`,
				fix: `run chmod u+rw${stats.isDirectory() ? 'x' : ''} ${path}`,
				isOwn: true,
			};
}

/** Reads without relying on the size: files in /proc and /sys report 0, and some are endless. */
function readAtMost(file: number, max: number, path: string): Buffer {
	const buffer = Buffer.alloc(max + 1);
	let length = 0;
	for (let read = -1; read !== 0 && length < buffer.length; length += read) {
		read = readSync(file, buffer, length, buffer.length - length, null);
	}
	requireMaxLength(length, max, path);
	return Buffer.from(buffer.subarray(0, length));
}

function openFlags(links: Links): number {
	return constants.O_RDONLY | constants.O_NONBLOCK | (links === 'refuse' ? constants.O_NOFOLLOW : 0);
}

function toRefusedError(error: unknown, path: string): unknown {
	const {code} = error as NodeJS.ErrnoException;
	if (code === 'ELOOP') {
		return new RefusedFileError(path, 'is a symbolic link, not a regular file');
	}
	// ENXIO: a socket, or a device that does not exist.
	return code === 'ENXIO' ? new RefusedFileError(path, 'is not a regular file') : error;
}

function requireRegular(stats: Stats, path: string): void {
	if (!stats.isFile()) {
		throw new RefusedFileError(path, stats.isDirectory() ? 'is a folder' : 'is not a regular file');
	}
}

function requireMaxLength(size: number, max: number, path: string): void {
	if (size > max) {
		throw new RefusedFileError(path, `is longer than ${max} octets`);
	}
}
