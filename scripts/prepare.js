// Builds the program for `npm ci` and `npm start`. If the build tools were left out (`npm ci --omit=dev`), the existing
// bundle is used.
import {execFileSync} from 'node:child_process';
import {existsSync, statSync} from 'node:fs';

const bundle = 'dist/bundle/cli/main.js';
if (existsSync('node_modules/typescript')) {
	execFileSync('npm', ['run', 'build'], {stdio: 'inherit'});
} else if (existsSync(bundle)) {
	const built = statSync(bundle).mtime.toISOString().slice(0, 16);
	console.log(`mailctl: the development packages are missing, so nothing is built; using ${bundle} of ${built}`);
} else {
	console.log(
		'mailctl: the program cannot be built without the development packages: run npm ci, or install the file created by npm pack',
	);
}
