import {readdir, stat} from 'node:fs/promises';
import path from 'node:path';

export async function isFolder(name: string): Promise<boolean> {
	return (await stat(name).catch(() => null))?.isDirectory() ?? false;
}

/**
 * Files as they were named, whether they are there or not; in place of a folder every file in it and in its folders, by name,
 * none that is hidden or in a hidden folder.
 */
export async function* filesOf(names: readonly string[]): AsyncGenerator<string> {
	for (const name of names) {
		if (await isFolder(name)) {
			yield* filesIn(name);
		} else {
			yield name;
		}
	}
}

async function* filesIn(folder: string): AsyncGenerator<string> {
	const entries = await readdir(folder, {withFileTypes: true});
	for (const entry of entries.toSorted((one, other) => (one.name < other.name ? -1 : 1))) {
		const name = path.join(folder, entry.name);
		if (entry.name.startsWith('.')) {
			continue;
		}
		if (entry.isDirectory()) {
			yield* filesIn(name);
		} else if (entry.isFile()) {
			yield name;
		}
	}
}
