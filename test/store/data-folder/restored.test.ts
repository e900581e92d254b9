import {existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {commitRestore, finishRestore, isRestored, stagingFolder} from '../../../src/store/data-folder/data-dir.ts';
import {temporaryFolder} from '../../helpers/databases.ts';

/** Creates a data folder with a store, its log and its keys, and staged replacements. */
async function prepare(t: ExecutionContext) {
	const dataDir = await temporaryFolder(t);
	const staging = stagingFolder(dataDir);
	mkdirSync(staging);
	const fill = (folder: string, content: string, ...names: readonly string[]) => {
		for (const name of names) {
			writeFileSync(join(folder, name), content, {mode: 0o600});
		}
	};
	fill(dataDir, 'old', 'mailctl.db', 'mailctl.db-wal', 'mailctl.db-shm', 'secrets.json', 'first-keys.txt');
	fill(staging, 'new', 'mailctl.db', 'secrets.json', 'daemon.lock');
	return {
		dataDir,
		ready: join(dataDir, 'restore.ready'),
		fill,
		content: () =>
			Object.fromEntries(readdirSync(dataDir).map(name => [name, readFileSync(join(dataDir, name), 'utf8')])),
	};
}

const restored = {'first-keys.txt': 'old', 'mailctl.db': 'new', 'secrets.json': 'new'};

test('a restored store replaces the previous one, without its log', async t => {
	const {dataDir, content} = await prepare(t);
	commitRestore(dataDir);
	t.deepEqual(content(), restored);
	t.false(isRestored(dataDir));
	finishRestore(dataDir);
	t.deepEqual(content(), restored);
});

test('does not touch the target of a symlink in the folder', async t => {
	const {dataDir} = await prepare(t);
	// Changing its owner would fail, because the target does not exist.
	const link = join(dataDir, 'daemon.lock-link');
	symlinkSync(join(dataDir, 'nowhere'), link);
	commitRestore(dataDir);
	t.true(lstatSync(link).isSymbolicLink());
	t.false(isRestored(dataDir));
});

test('an uncommitted restore changes nothing', async t => {
	const {dataDir} = await prepare(t);
	finishRestore(dataDir);
	t.false(isRestored(dataDir));
	t.is(readFileSync(join(dataDir, 'mailctl.db'), 'utf8'), 'old');
	t.true(existsSync(join(dataDir, 'mailctl.db-wal')));
});

for (const [when, moved] of [
	['no file was moved', []],
	['only the store was moved', ['mailctl.db']],
	['both files were moved', ['mailctl.db', 'secrets.json']],
] as const) {
	test(`the next start completes a restore that died when ${when}`, async t => {
		const {dataDir, ready, content, fill} = await prepare(t);
		mkdirSync(ready);
		const names = ['mailctl.db', 'secrets.json'].filter(name => !(moved as readonly string[]).includes(name));
		fill(ready, 'new', ...names, 'daemon.lock');
		fill(dataDir, 'new', ...moved);
		rmSync(stagingFolder(dataDir), {recursive: true});
		if (moved.length > 0) {
			rmSync(join(dataDir, 'mailctl.db-wal'));
			rmSync(join(dataDir, 'mailctl.db-shm'));
		}
		t.true(isRestored(dataDir));
		finishRestore(dataDir);
		t.deepEqual(content(), restored);
		t.false(isRestored(dataDir));
	});
}
