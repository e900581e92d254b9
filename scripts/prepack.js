// For `npm pack`: the package brings what is installed beside the bundle, in the versions that were tested. npm reads no lock file of
// a package, and in the repository the entry would be in npm's way: an install with it never ends. `postpack` removes it.
import {execFileSync} from 'node:child_process';
import {rmSync} from 'node:fs';

execFileSync('npm', ['pkg', 'set', 'bundleDependencies=true', '--json']);

// Where sqlite3 was compiled, its object files lie beside it, five times its size.
for (const name of ['.deps', 'obj', 'obj.target', 'sqlite3.a']) {
	rmSync(`node_modules/sqlite3/build/Release/${name}`, {recursive: true, force: true});
}
