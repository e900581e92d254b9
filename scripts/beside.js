// The packages installed beside the bundle: native code, libraries that read files of their own, and those that few
// starts load. The bundle holds all other dependencies (docs/internals/decisions/0013-bundle.md).
import {existsSync, readFileSync} from 'node:fs';

export const beside = ['@fastify/swagger-ui', 'imapflow', 'pg', 'smtp-server', 'sqlite3', 'tar'];

/** Returns the folders of these packages and their dependencies, according to the lock file, as far as installed. */
export function foldersBeside() {
	const {packages} = JSON.parse(readFileSync('package-lock.json', 'utf8'));
	const folders = new Set();
	/** Node.js looks for a library in the `node_modules` of the folder that needs it, then in those above. */
	const add = (name, from) => {
		const folder = `${from}node_modules/${name}`;
		if (!packages[folder]) {
			add(name, from.slice(0, from.lastIndexOf('node_modules/')));
		} else if (!folders.has(folder) && existsSync(folder)) {
			folders.add(folder);
			const {dependencies, optionalDependencies} = packages[folder];
			for (const needed of Object.keys({...dependencies, ...optionalDependencies})) {
				add(needed, `${folder}/`);
			}
		}
	};
	for (const name of beside) {
		add(name, '');
	}
	return [...folders];
}
