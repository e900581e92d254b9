import path from 'node:path';

/** The folders of `node_modules` that a package of the program has beside its bundle. */
export async function foldersBeside(): Promise<string[]> {
	const {foldersBeside} = await import(path.resolve('scripts/beside.js'));
	return foldersBeside();
}
