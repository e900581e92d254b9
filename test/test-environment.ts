import {access, chmod, constants, mkdir, mkdtemp, rm, statfs} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import path from 'node:path';
import process from 'node:process';
import {folderVariable} from './helpers/conforms.ts';
import {freePort} from './helpers/free-port.ts';
import {makeMigratedFile, makeMigratedTemplate, migratedFileVariable, templateVariable} from './migrated-template.ts';
import {postgresProgram} from './postgres-program.ts';

const minRoom = 8 * 1024 ** 3;

/** In memory where there is room: a database of 1,000 files costs 30 ms to copy there, and ten times that on a disk. */
async function roomiest(): Promise<string> {
	const memory = '/dev/shm';
	try {
		await access(memory, constants.W_OK);
		const {bavail, bsize} = await statfs(memory);
		return bavail * bsize >= minRoom ? memory : tmpdir();
	} catch {
		return tmpdir();
	}
}

/**
 * Runs `work` with the environment that tests need: one PostgreSQL server for all of them, migrated databases and a
 * folder to copy.
 */
export async function withTestEnvironment<Result>(work: (env: NodeJS.ProcessEnv) => Promise<Result>): Promise<Result> {
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
		// A database of each test: vacuuming them all would cost more than the tests do, and what is lost in a crash
		// nobody wants back.
		postgresFlags: [
			...['fsync=off', 'full_page_writes=off', 'autovacuum=off', 'max_connections=400'].flatMap(flag => [
				'-c',
				flag,
			]),
			...['-c', `unix_socket_directories=${folder}`],
		],
		onLog: () => undefined,
	});
	try {
		await postgres.initialise();
		await postgres.start();
		await mkdir(path.join(folder, 'tmp'));
		await chmod(path.join(folder, 'tmp'), 0o1777);
		const url = `postgres://mailctl:test@127.0.0.1:${port}/postgres`;
		return await work({
			...process.env,
			TMPDIR: path.join(folder, 'tmp'),
			TEST_DATABASE_URL: url,
			[templateVariable]: await makeMigratedTemplate(url),
			[migratedFileVariable]: await makeMigratedFile(folder),
			[folderVariable]: path.join(folder, 'conformance'),
		});
	} finally {
		await postgres.stop();
		await rm(folder, {recursive: true, force: true});
	}
}
