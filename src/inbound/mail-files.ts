import {readdir, stat} from 'node:fs/promises';
import {join} from 'node:path';
import type {Links} from '../kit/regular-file.ts';
import {isMaildir, namesIn} from './maildir.ts';

/** A file with one mail or, where it is an mbox, with many. */
export type MailFile = {
	readonly path: string;
	/** In octets. */
	readonly size: number;
	/** A file of a Maildir holds one mail, whatever its first line looks like. */
	readonly inMaildir: boolean;
	/** Only a file that was named may be a link. */
	readonly links: Links;
};

/**
 * The files that may hold mail: the file itself, or all in a folder and those below it, in the order of their names. Of a
 * Maildir they are those of `new` and `cur`. Hidden files and links are left out. A folder that cannot be listed is named
 * in place of its files: whoever opens it hears why. Throws where `path` leads nowhere.
 */
export async function* mailFiles(path: string): AsyncGenerator<MailFile> {
	const found = await stat(path);
	if (found.isDirectory()) {
		yield* filesIn(path);
	} else {
		yield {path, size: found.size, inMaildir: false, links: 'follow'};
	}
}

async function* filesIn(folder: string): AsyncGenerator<MailFile> {
	const entries = await list(folder).catch(() => null);
	if (entries === null) {
		yield {path: folder, size: 0, inMaildir: false, links: 'refuse'};
		return;
	}
	for (const {path, isFolder, inMaildir} of entries) {
		yield* isFolder ? filesIn(path) : sized(path, inMaildir);
	}
}

type Entry = {readonly path: string; readonly isFolder: boolean; readonly inMaildir: boolean};

async function list(folder: string): Promise<Entry[]> {
	if (await isMaildir(folder)) {
		// In this order: a reader beside moves mails from the one to the other, and none is to be missed.
		const fresh = await namesIn(folder, 'new');
		const seen = await namesIn(folder, 'cur');
		const paths = [...fresh.map(name => join('new', name)), ...seen.map(name => join('cur', name))];
		return paths.map(path => ({path: join(folder, path), isFolder: false, inMaildir: true}));
	}
	const entries = await readdir(folder, {withFileTypes: true});
	return entries
		.filter(entry => !entry.name.startsWith('.') && (entry.isDirectory() || entry.isFile()))
		.sort((a, b) => (a.name < b.name ? -1 : 1))
		.map(entry => ({path: join(folder, entry.name), isFolder: entry.isDirectory(), inMaildir: false}));
}

/** None where the file is gone by now. */
async function* sized(path: string, inMaildir: boolean): AsyncGenerator<MailFile> {
	const found = await stat(path).catch(() => null);
	if (found) {
		yield {path, size: found.size, inMaildir, links: 'refuse'};
	}
}
