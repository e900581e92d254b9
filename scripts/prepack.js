// For `npm pack`: the package brings what is installed beside the bundle, in the versions that were tested, and asks
// npm for nothing that the bundle holds. npm reads no lock file of a package, and in the repository
// `bundleDependencies` would be in npm's way: an install with it never ends. `postpack` restores package.json.
import {copyFileSync, readFileSync, renameSync, rmSync, writeFileSync} from 'node:fs';
import {beside} from './beside.js';

const [file, kept] = ['package.json', 'dist/package.json.kept'];
const read = () => JSON.parse(readFileSync(file, 'utf8'));
if (read().bundleDependencies) {
	renameSync(kept, file); // The last packing was interrupted.
}
copyFileSync(file, kept);
const {dependencies, overrides, ...manifest} = read();
const brought = Object.fromEntries(beside.map(name => [name, dependencies[name]]));
// npm looks for what `$undici` names among the dependencies.
const packed = {
	...manifest,
	dependencies: brought,
	bundleDependencies: true,
	overrides: {...overrides, undici: dependencies.undici},
};
writeFileSync(file, JSON.stringify(packed, null, 2));

// Where sqlite3 was compiled, its object files lie beside it, five times its size.
for (const name of ['.deps', 'obj', 'obj.target', 'sqlite3.a']) {
	rmSync(`node_modules/sqlite3/build/Release/${name}`, {recursive: true, force: true});
}
