// What `npm ci` and `npm start` run: the build. Where its tools were left out (`npm ci --omit=dev`) the bundle that is
// there is used.
import {execFileSync} from 'node:child_process';
import {existsSync, statSync} from 'node:fs';

const bundle = 'dist/bundle/cli/main.js';
if (existsSync('node_modules/typescript')) {
	execFileSync('npm', ['run', 'build'], {stdio: 'inherit'});
} else if (existsSync(bundle)) {
	const built = statSync(bundle).mtime.toISOString().slice(0, 16);
	console.log(`mailctl: nothing is built without the development packages, ${bundle} of ${built} is used as it is`);
} else {
	console.log(
		'mailctl: the program cannot be built without the development packages, run npm ci, or install the file that npm pack makes',
	);
}
