import {closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync} from 'node:fs';
import {type FileHandle, open} from 'node:fs/promises';
import process from 'node:process';

/** `refuse`: a path with a symbolic link as its last part is not read. Its folders may be links. */
export type Links = 'follow' | 'refuse';

/** A file that is not read, and why. */
export class RefusedFileError extends Error {
	override readonly name = 'RefusedFileError';
	readonly code = 'FILE_REFUSED';
	/** A clause about the file: `is a folder`. */
	readonly why: string;

	constructor(path: string, why: string) {
		super(`${path} ${why}`);
		this.why = why;
	}
}

/**
 * Opens a regular file for reading. Throws RefusedFileError for a link, a device, a FIFO or a folder, and otherwise
 * what the system says. Never waits for the other end of a FIFO.
 */
export async function openRegular(path: string, links: Links): Promise<{file: FileHandle; size: number}> {
	const file = await open(path, flags(links)).catch(error => {
		throw asRefused(error, path);
	});
	try {
		const stats = await file.stat();
		refuseOthers(stats, path);
		return {file, size: stats.size};
	} catch (error) {
		await file.close();
		throw error;
	}
}

/** The content of a regular file of at most `most` octets; refused beyond. */
export async function readRegular(path: string, most: number, links: Links): Promise<Buffer> {
	const {file, size} = await openRegular(path, links);
	try {
		refuseLarge(size, most, path);
		const chunks: Buffer[] = [];
		// It may grow while it is read.
		for await (const chunk of file.createReadStream({end: most, autoClose: false}) as AsyncIterable<Buffer>) {
			chunks.push(chunk);
		}
		const bytes = Buffer.concat(chunks);
		refuseLarge(bytes.length, most, path);
		return bytes;
	} finally {
		await file.close();
	}
}

/** What files of settings may be: certificates, keys, tables. Kubernetes hands them over as links. */
const maxSettingBytes = 4 * 1024 ** 2;

/** The content of a file that a setting names. */
export function readSettingFile(path: string): Buffer {
	return readGuarded(path, maxSettingBytes).content;
}

/**
 * What was read of a file, with the permissions and the owner of that very file: its name may lead elsewhere a moment
 * later.
 */
type Guarded = {readonly content: Buffer; readonly mode: number; readonly uid: number};

export function readGuarded(path: string, most = maxSettingBytes): Guarded {
	let file: number;
	try {
		file = openSync(path, flags('follow'));
	} catch (error) {
		const fault = (error as NodeJS.ErrnoException).code === 'EACCES' ? accessFault(path) : null;
		throw fault ? Object.assign(new Error(`${fault.why}: ${fault.fix}`), {code: 'EACCES'}) : asRefused(error, path);
	}
	try {
		const stats = fstatSync(file);
		refuseOthers(stats, path);
		refuseLarge(stats.size, most, path);
		return {content: readAtMost(file, most, path), mode: stats.mode & 0o777, uid: stats.uid};
	} finally {
		closeSync(file);
	}
}

/** `isOwn`: the file is this user's, only its mode is wrong. */
type AccessFault = {readonly why: string; readonly fix: string; readonly isOwn: boolean};

/**
 * Why this user may not use a file or folder that is there, and the command that repairs it; null: for another reason.
 */
export function accessFault(path: string, uid = process.getuid?.()): AccessFault | null {
	let found: Stats;
	try {
		found = statSync(path);
	} catch {
		return null; // A folder above it is closed.
	}
	if (uid === undefined) {
		return null;
	}
	if (found.uid !== uid) {
		const recursive = found.isDirectory() ? '-R ' : '';
		return {
			why: `${path} belongs to user ${found.uid} and this is user ${uid}`,
			fix: `run chown ${recursive}${uid} ${path}`,
			isOwn: false,
		};
	}
	const wanted = found.isDirectory() ? 0o700 : 0o600;
	return (found.mode & wanted) === wanted
		? null
		: {
				why: `${path} has mode ${(found.mode & 0o7777).toString(8)}`,
				fix: `run chmod u+rw${found.isDirectory() ? 'x' : ''} ${path}`,
				isOwn: true,
			};
}

/** Files of /proc and /sys report no size, and some have no end. */
function readAtMost(file: number, most: number, path: string): Buffer {
	const buffer = Buffer.alloc(most + 1);
	let length = 0;
	for (let read = -1; read !== 0 && length < buffer.length; length += read) {
		read = readSync(file, buffer, length, buffer.length - length, null);
	}
	refuseLarge(length, most, path);
	return Buffer.from(buffer.subarray(0, length));
}

function flags(links: Links): number {
	return constants.O_RDONLY | constants.O_NONBLOCK | (links === 'refuse' ? constants.O_NOFOLLOW : 0);
}

function asRefused(error: unknown, path: string): unknown {
	const {code} = error as NodeJS.ErrnoException;
	if (code === 'ELOOP') {
		return new RefusedFileError(path, 'is a symbolic link, not a regular file');
	}
	// ENXIO: a socket, or a device that is not there.
	return code === 'ENXIO' ? new RefusedFileError(path, 'is not a regular file') : error;
}

function refuseOthers(stats: Stats, path: string): void {
	if (!stats.isFile()) {
		throw new RefusedFileError(path, stats.isDirectory() ? 'is a folder' : 'is not a regular file');
	}
}

function refuseLarge(size: number, most: number, path: string): void {
	if (size > most) {
		throw new RefusedFileError(path, `is longer than ${most} octets`);
	}
}
