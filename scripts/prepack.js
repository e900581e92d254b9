// Prepares package.json for `npm pack`. The package includes what is installed beside the bundle in the tested
// versions, and requires nothing that the bundle contains, because npm ignores a package's lock file. In the repository
// itself, `bundleDependencies` would make installs hang. `postpack` restores package.json.
import {copyFileSync, readFileSync, renameSync, rmSync, writeFileSync} from 'node:fs';
import {beside} from './beside.js';

const [file, kept] = ['package.json', 'dist/package.json.kept'];
const read = () => JSON.parse(readFileSync(file, 'utf8'));
if (read().bundleDependencies) {
	renameSync(kept, file); // The last run of npm pack was interrupted.
}
copyFileSync(file, kept);
const {dependencies, overrides, ...manifest} = read();
const brought = Object.fromEntries(beside.map(name => [name, dependencies[name]]));
// npm resolves `$undici` among the dependencies, so the version is inserted here.
const packed = {
	...manifest,
	dependencies: brought,
	bundleDependencies: true,
	overrides: {...overrides, undici: dependencies.undici},
};
writeFileSync(file, JSON.stringify(packed, null, 2));

// If sqlite3 was compiled here, its object files are beside it, at five times its size.
for (const name of ['.deps', 'obj', 'obj.target', 'sqlite3.a']) {
	rmSync(`node_modules/sqlite3/build/Release/${name}`, {recursive: true, force: true});
}
