import {statSync} from 'node:fs';

/**
 * A file or folder that this process has open, and the identity that its path had when it was opened. It is plain data,
 * so that it can be sent to threads.
 */
export type OpenFile = {
	readonly path: string;
	/** `null` if the file may be replaced but must not be missing. */
	readonly identity: {readonly dev: bigint; readonly ino: bigint} | null;
};

/** A path that no longer refers to the open file, because the file was removed or replaced. */
export type DisplacedFile = {readonly path: string; readonly how: 'removed' | 'replaced'};

/**
 * Returns the identities of the existing paths. Call this while the files are open: until they are closed, no
 * other file can get their inode numbers.
 */
export function identifyFiles(paths: readonly string[]): OpenFile[] {
	return paths.flatMap(path => {
		const stats = statSync(path, {bigint: true, throwIfNoEntry: false});
		return stats === undefined ? [] : [{path, identity: {dev: stats.dev, ino: stats.ino}}];
	});
}

/**
 * Returns the files whose paths now refer to something else, in the given order. Links, mounts and other file systems
 * do not matter, because the inode and device numbers of an open file stay the same. Errors that say nothing about
 * the file (EIO, EACCES) are ignored.
 */
export function findDisplaced(files: readonly OpenFile[]): DisplacedFile[] {
	return files.flatMap(({path, identity}) => {
		const how = compare(path, identity);
		return how === null ? [] : [{path, how}];
	});
}

function compare(path: string, identity: OpenFile['identity']): DisplacedFile['how'] | null {
	try {
		const stats = statSync(path, {bigint: true, throwIfNoEntry: false});
		if (stats === undefined) {
			return 'removed';
		}
		const isSame = identity === null || (stats.dev === identity.dev && stats.ino === identity.ino);
		return isSame ? null : 'replaced';
	} catch {
		return null;
	}
}

/** Data was written to a file that its path no longer refers to. */
export class DisplacedFileError extends Error {
	override readonly name = 'DisplacedFileError';
	readonly code = 'FILE_DISPLACED';

	constructor({path, how}: DisplacedFile) {
		super(`${path} was ${how} while it was in use`);
	}
}
