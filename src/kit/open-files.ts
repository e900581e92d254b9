import {statSync} from 'node:fs';

/**
 * A file or folder that this process has open, and what its path led to when it was opened. Plain data: threads get
 * copies.
 */
export type OpenFile = {
	readonly path: string;
	/** `null`: the file may be replaced, but not be missing. */
	readonly identity: {readonly dev: bigint; readonly ino: bigint} | null;
};

/** A path that no longer leads to the open file: the file was removed, or something else has taken its place. */
export type DisplacedFile = {readonly path: string; readonly how: 'removed' | 'replaced'};

/**
 * Those of the paths that exist. To be called while they are open: until then a new file may get the number of a
 * removed one.
 */
export function identifyFiles(paths: readonly string[]): OpenFile[] {
	return paths.flatMap(path => {
		const found = statSync(path, {bigint: true, throwIfNoEntry: false});
		return found === undefined ? [] : [{path, identity: {dev: found.dev, ino: found.ino}}];
	});
}

/**
 * The files whose paths lead elsewhere, in the order given. Links, mounts and other file systems do not matter: the
 * kernel keeps the numbers of what is open. An error that says nothing about the file (EIO, EACCES) is not reported
 * here.
 */
export function findDisplaced(files: readonly OpenFile[]): DisplacedFile[] {
	return files.flatMap(({path, identity}) => {
		const how = compare(path, identity);
		return how === null ? [] : [{path, how}];
	});
}

function compare(path: string, identity: OpenFile['identity']): DisplacedFile['how'] | null {
	try {
		const found = statSync(path, {bigint: true, throwIfNoEntry: false});
		if (found === undefined) {
			return 'removed';
		}
		const isSame = identity === null || (found.dev === identity.dev && found.ino === identity.ino);
		return isSame ? null : 'replaced';
	} catch {
		return null;
	}
}

/** What was written went to a file that its path no longer leads to. */
export class DisplacedFileError extends Error {
	override readonly name = 'DisplacedFileError';
	readonly code = 'FILE_DISPLACED';

	constructor({path, how}: DisplacedFile) {
		super(`${path} was ${how} while it was in use`);
	}
}
