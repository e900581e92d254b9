import {readdir, stat} from 'node:fs/promises';
import {join} from 'node:path';
import {isMaildir, namesIn} from './maildir.ts';

/** A file with one mail or, where it is an mbox, with many. */
export type MailFile = {
	readonly path: string;
	/** In octets. */
	readonly size: number;
	/** A file of a Maildir holds one mail, whatever its first line looks like. */
	readonly inMaildir: boolean;
};

/**
 * The files that may hold mail: the file itself, or all in a folder and those below it, in the order of their names. Of a
 * Maildir they are those of `new` and `cur`. Hidden files and links are left out. Throws what the system says of `path`.
 */
export async function* mailFiles(path: string): AsyncGenerator<MailFile> {
	const found = await stat(path);
	if (!found.isDirectory()) {
		yield {path, size: found.size, inMaildir: false};
	} else if (await isMaildir(path)) {
		for (const part of ['new', 'cur'] as const) {
			for (const name of await namesIn(path, part)) {
				yield* sized(join(path, part, name), true);
			}
		}
	} else {
		const entries = await readdir(path, {withFileTypes: true});
		for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
			if (entry.name.startsWith('.')) {
				continue;
			}
			const inside = join(path, entry.name);
			if (entry.isDirectory()) {
				yield* mailFiles(inside);
			} else if (entry.isFile()) {
				yield* sized(inside, false);
			}
		}
	}
}

/** None where the file is gone by now. */
async function* sized(path: string, inMaildir: boolean): AsyncGenerator<MailFile> {
	const found = await stat(path).catch(() => null);
	if (found) {
		yield {path, size: found.size, inMaildir};
	}
}
