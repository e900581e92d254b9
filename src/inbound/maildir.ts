import {readdir, rename, stat} from 'node:fs/promises';
import {join} from 'node:path';
import {type Links, openRegular} from '../kit/regular-file.ts';
import {type FoundMail, foundMail, longestMail} from './found-mail.ts';

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

/** The names of the mails in a part of a Maildir, oldest first: a name begins with the time. What lies in `tmp` is none yet. */
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
 * The mails of `new`; one that another reader was faster with is passed over, one that cannot be read is told and left
 * where it is.
 */
export async function* newMails(
	folder: string,
	signal: AbortSignal,
	onUnreadable: (path: string, error: unknown) => void,
): AsyncGenerator<FoundInFile & {readonly name: string}> {
	for (const name of await namesIn(folder, 'new')) {
		if (signal.aborted) {
			return;
		}
		const path = join(folder, 'new', name);
		const found = await readMailFile(path, 'maildir', 'refuse').catch((error: NodeJS.ErrnoException) => {
			if (error.code !== 'ENOENT') {
				onUnreadable(path, error);
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
