import {execFileSync} from 'node:child_process';
import {existsSync, mkdirSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync} from 'node:fs';
import {constants} from 'node:os';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {ConfigError} from '../../../src/config/config-error.ts';
import {loadSecrets} from '../../../src/config/secrets-file.ts';
import {loadSettings, type Settings} from '../../../src/config/settings.ts';
import {explainDiskError, isDiskFull, refuseLostStore} from '../../../src/store/data-folder/data-dir.ts';
import {openData} from '../../../src/store/data-folder/open.ts';
import {openStore} from '../../../src/store/store.ts';
import {temporaryFolder} from '../../helpers/databases.ts';
import {notRunHere} from '../../helpers/not-run-here.ts';

/** Creates a folder with these files. */
async function folderOf(t: ExecutionContext, files: Readonly<Record<string, string>>): Promise<string> {
	const dataDir = await temporaryFolder(t);
	for (const [name, content] of Object.entries(files)) {
		writeFileSync(join(dataDir, name), content, {mode: 0o600});
	}
	return dataDir;
}

const lost: ReadonlyArray<readonly [what: string, files: Readonly<Record<string, string>>, message: RegExp]> = [
	[
		'a missing store',
		{'secrets.json': '{}'},
		/mailctl\.db is missing although .*: restore it from a backup, or remove/,
	],
	['a store with only its log left', {'secrets.json': '{}', 'mailctl.db-wal': 'x'}, /mailctl\.db is missing/],
	['an empty store', {'secrets.json': '{}', 'mailctl.db': ''}, /mailctl\.db is empty: restore it/],
	['a rescued store', {'mailctl.db.rescued': 'x', 'mailctl.db': 'x'}, /run mv .*\.rescued .*mailctl\.db && rm -f/],
];

for (const [what, files, message] of lost) {
	test(`does not create a new store in place of ${what}`, async t => {
		const dataDir = await folderOf(t, files);
		const error = t.throws(() => refuseLostStore(dataDir), {instanceOf: ConfigError, message});
		t.is(error?.exitCode, 74);
	});
}

for (const files of [{}, {'mailctl.db': ''}, {'secrets.json': '{}', 'mailctl.db': 'x'}]) {
	test(`a folder with ${Object.keys(files).join(' and ') || 'nothing'} is not a lost store`, async t => {
		const dataDir = await folderOf(t, files);
		t.notThrows(() => refuseLostStore(dataDir));
	});
}

async function settingsOf(t: ExecutionContext): Promise<Settings> {
	const cwd = await temporaryFolder(t);
	const env = {MAILCTL_DATA_DIR: join(cwd, 'data')};
	const loaded = loadSettings({env, cwd, hostname: 'mail.example', cpus: 1});
	if (!loaded.ok) {
		throw new Error(loaded.problems.join('\n'));
	}
	return loaded.settings;
}

test('repeats a first start that died before its store was complete', async t => {
	const settings = await settingsOf(t);
	const {dataDir} = settings;
	mkdirSync(dataDir, {mode: 0o700});
	await (await openStore({file: join(dataDir, 'mailctl.db')})).close();
	loadSecrets({dataDir, isExpected: false});
	const held = await openData(settings, {asRoot: true});
	t.deepEqual(await held.store.reader('workspaces'), []);
	await held.release();
});

test('the daemon neither recreates a missing store nor touches its keys', async t => {
	const settings = await settingsOf(t);
	await (await openData(settings, {asRoot: true})).release();
	rmSync(join(settings.dataDir, 'mailctl.db'));
	const error = await t.throwsAsync(openData(settings, {asRoot: true}), {
		instanceOf: ConfigError,
		message: /missing/,
	});
	t.is(error?.exitCode, 74);
	t.false(existsSync(join(settings.dataDir, 'mailctl.db')));
	rmSync(join(settings.dataDir, 'secrets.json'));
	await (await openData(settings, {asRoot: true})).release();
});

const sqliteError = (code: string) => Object.assign(new Error(`${code}: what SQLite says`), {code});

test('distinguishes a failing disk from a full one, a used-up quota and other errors', async t => {
	const dataDir = await temporaryFolder(t);
	const fails = explainDiskError(sqliteError('SQLITE_IOERR'), dataDir) as ConfigError;
	t.is(fails.exitCode, 74);
	t.regex(fails.message, /the disk of the data folder .* is failing/);
	// Node has no name for this error.
	const unnamed = Object.assign(new Error('unknown error, write'), {code: 'UNKNOWN', errno: -constants.errno.EDQUOT});
	const quota = explainDiskError(unnamed, dataDir) as ConfigError;
	t.is(quota.exitCode, 74);
	t.regex(quota.message, /no space is left .*EDQUOT: the quota is used up/);
	for (const code of ['SQLITE_CORRUPT', 'SQLITE_CANTOPEN', 'ECONNREFUSED']) {
		const error = sqliteError(code);
		t.is(explainDiskError(error, dataDir), error);
	}
	t.deepEqual(readdirSync(dataDir), []);
});

test('reports a full disk at startup, whatever error SQLite returns', async t => {
	const settings = await settingsOf(t);
	const {dataDir} = settings;
	mkdirSync(dataDir, {mode: 0o700});
	try {
		execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m,mode=0700', 'mailctl-test', dataDir], {stdio: 'pipe'});
	} catch (error) {
		notRunHere(t, `no small disk can be mounted: ${error}`);
		return;
	}
	t.teardown(() => void execFileSync('umount', [dataDir]));
	await (await openData(settings, {asRoot: true})).release();
	// Full to the last page, and with a little space left: SQLite fails in different places.
	for (const room of [0, 4096, 24 * 1024]) {
		const ballast = join(dataDir, 'ballast');
		for (let size = 1024 * 1024; size >= 4096; size /= 2) {
			try {
				for (;;) {
					writeFileSync(ballast, Buffer.alloc(size), {flag: 'a'});
				}
			} catch {
				// No space for a piece of this size.
			}
		}
		const {size} = statSync(ballast);
		truncateSync(ballast, size - room);
		t.true(isDiskFull(dataDir));
		const error = await t.throwsAsync(openData(settings, {asRoot: true}), {instanceOf: ConfigError});
		t.is(error?.exitCode, 74);
		t.regex(error?.message ?? '', /no space is left .*ENOSPC/);
		rmSync(ballast);
		await (await openData(settings, {asRoot: true})).release();
	}
});
