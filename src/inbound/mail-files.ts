import {readdir, rename, stat} from 'node:fs/promises';
import {join} from 'node:path';
import {type Links, openRegular} from '../kit/regular-file.ts';
import {type FoundMail, foundMail, longestMail} from './found-mail.ts';

/** A file with one mail or, where it is an mbox, with many. */
export type MailFile = {
	readonly path: string;
	/** In octets. */
	readonly size: number;
	/** A file of a Maildir holds one mail, even if its first line looks like that of an mbox. */
	readonly inMaildir: boolean;
	/** Only a file that was named may be a link. */
	readonly links: Links;
};

/**
 * The files that may hold mail: the file itself, or all in a folder and those below it, in the order of their names. Of a
 * Maildir they are those of `new` and `cur`. Hidden files and links are left out. A folder that cannot be listed is named
 * in place of its files: opening it fails with the reason. Throws if `path` does not exist.
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

/** A mail that lies in a file of its own. */
type FoundInFile = {readonly found: FoundMail; readonly path: string};

/** Whether a folder is a Maildir. */
export async function isMaildir(folder: string): Promise<boolean> {
	const [cur, fresh] = await Promise.all([isFolder(join(folder, 'cur')), isFolder(join(folder, 'new'))]);
	return cur && fresh;
}

async function isFolder(path: string): Promise<boolean> {
	return await stat(path).then(
		found => found.isDirectory(),
		() => false,
	);
}

/** The names of the mails in a part of a Maildir, oldest first: a name begins with the time. What lies in `tmp` is not complete. */
export async function namesIn(folder: string, part: 'new' | 'cur'): Promise<string[]> {
	const entries = await readdir(join(folder, part), {withFileTypes: true});
	return entries
		.filter(entry => entry.isFile() && !entry.name.startsWith('.'))
		.map(entry => entry.name)
		.sort();
}

/** The one mail of a file, at most its beginning where it is too large. Throws what the system says. */
export async function readMailFile(path: string, source: FoundMail['source'], links: Links): Promise<FoundMail> {
	const {file, size} = await openRegular(path, links);
	try {
		const buffer = Buffer.alloc(Math.min(size, longestMail));
		let length = 0;
		for (;;) {
			const {bytesRead} = await file.read({buffer, offset: length, position: length});
			if (bytesRead === 0) {
				break;
			}
			length += bytesRead;
		}
		return foundMail(source, buffer.subarray(0, length), size);
	} finally {
		await file.close();
	}
}

/**
 * The mails of `new`. Passes over one that another reader took; reports one that cannot be read, which stays where it is.
 */
export async function* newMails(
	folder: string,
	signal: AbortSignal,
	observer: {readonly mailUnreadable: (path: string, error: unknown) => void},
): AsyncGenerator<FoundInFile & {readonly name: string}> {
	for (const name of await namesIn(folder, 'new')) {
		if (signal.aborted) {
			return;
		}
		const path = join(folder, 'new', name);
		const found = await readMailFile(path, 'maildir', 'refuse').catch((error: NodeJS.ErrnoException) => {
			if (error.code !== 'ENOENT') {
				observer.mailUnreadable(path, error);
			}
			return null;
		});
		if (found) {
			yield {found, path, name};
		}
	}
}

/** Puts a mail that is taken in aside: from `new` to `cur`, marked as seen. */
export async function putAside(folder: string, name: string): Promise<void> {
	const base = name.split(':2,')[0] as string;
	await rename(join(folder, 'new', name), join(folder, 'cur', `${base}:2,S`)).catch(error => {
		// Another reader was faster.
		if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
			throw error;
		}
	});
}
