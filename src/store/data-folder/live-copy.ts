import {
	mkdirSync,
	readdirSync,
	readFileSync,
	renameSync,
	rmSync,
	statSync,
	truncateSync,
	utimesSync,
	writeFileSync,
} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';

/*
 * How a command requests a copy of the store from the daemon of its data folder. The command creates `backup.partial`
 * with a `request` in it, and touches the request for as long as it needs the copy. The daemon accepts the request by
 * creating the file of the copy, and writes `end.json` when the copy is complete or has failed. A folder whose request
 * is no longer touched is removed by whichever of them finds it.
 */

/** The result of a copy. After a failure the command makes its own copy. */
export type CopyEnd = {readonly ok: true} | {readonly ok: false; readonly error: string};

const folderOf = (dataDir: string) => join(dataDir, 'backup.partial');
const requestOf = (dataDir: string) => join(folderOf(dataDir), 'request');
const endOf = (dataDir: string) => join(folderOf(dataDir), 'end.json');

/** Where the daemon writes the copy. */
export const liveCopyFile = (dataDir: string): string => join(folderOf(dataDir), 'mailctl.db');

/** A command that has not touched its request for this long (milliseconds) was killed. */
export const requestTimeoutMs = 30_000;

/** Requests a copy. Returns `false` if another command has one. */
export function requestCopy(dataDir: string): boolean {
	removeAbandoned(dataDir);
	try {
		mkdirSync(folderOf(dataDir), {mode: 0o700});
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
			return false;
		}
		throw error;
	}
	writeFileSync(requestOf(dataDir), '', {mode: 0o600});
	return true;
}

/** Shows the daemon that the copy is still needed. */
export function touchRequest(dataDir: string): void {
	const now = new Date();
	try {
		utimesSync(requestOf(dataDir), now, now);
	} catch {
		// The daemon has removed the request: no copy will be made.
	}
}

/** Whether a command needs a copy now. */
export function isWanted(dataDir: string): boolean {
	const request = statSync(requestOf(dataDir), {throwIfNoEntry: false});
	return request !== undefined && Date.now() - request.mtimeMs < requestTimeoutMs;
}

/**
 * Accepts a request by creating the file of the copy. Returns `false` if there is no request, or it was accepted
 * before.
 */
export function takeRequest(dataDir: string): boolean {
	try {
		writeFileSync(liveCopyFile(dataDir), '', {mode: 0o600, flag: 'wx'});
		return true;
	} catch (error) {
		const {code} = error as NodeJS.ErrnoException;
		if (code === 'ENOENT' || code === 'EEXIST') {
			return false;
		}
		throw error;
	}
}

/** Reports the result of a copy. A failed one is emptied: the command needs the space for its own copy. */
export function endCopy(dataDir: string, end: CopyEnd): void {
	if (!end.ok) {
		truncateSync(liveCopyFile(dataDir));
	}
	const draft = `${endOf(dataDir)}.new`;
	writeFileSync(draft, JSON.stringify(end), {mode: 0o600});
	renameSync(draft, endOf(dataDir));
}

/** Returns `null` while the copy is not complete and has not failed. */
export function readCopyEnd(dataDir: string): CopyEnd | null {
	try {
		return JSON.parse(readFileSync(endOf(dataDir), 'utf8'));
	} catch {
		return null;
	}
}

/** The size of the copy so far, or `null` if the daemon has not accepted the request. */
export function copiedBytes(dataDir: string): number | null {
	return statSync(liveCopyFile(dataDir), {throwIfNoEntry: false})?.size ?? null;
}

/** Renames the folder first, so that a request that is only partly removed cannot be accepted again. */
export function removeCopy(dataDir: string): void {
	try {
		renameSync(folderOf(dataDir), `${folderOf(dataDir)}${removedInfix}${process.pid}`);
	} catch {
		// Another process has removed it.
	}
	removeRenamed(dataDir);
}

const removedInfix = '.removed-';

function removeRenamed(dataDir: string): void {
	for (const name of readdirSync(dataDir)) {
		if (name.startsWith(`backup.partial${removedInfix}`)) {
			rmSync(join(dataDir, name), {recursive: true, force: true});
		}
	}
}

/** Removes what a killed command left behind. */
export function removeAbandoned(dataDir: string): void {
	const folder = statSync(folderOf(dataDir), {throwIfNoEntry: false});
	if (folder && Date.now() - folder.mtimeMs >= requestTimeoutMs && !isWanted(dataDir)) {
		removeCopy(dataDir);
	}
	removeRenamed(dataDir);
}
