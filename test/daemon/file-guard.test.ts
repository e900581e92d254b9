import {copyFileSync, existsSync, readFileSync, renameSync, rmSync, statSync} from 'node:fs';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {FileGuard} from '../../src/daemon/file-guard.ts';
import {identifyFiles} from '../../src/kit/open-files.ts';
import {openDataDir} from '../../src/store/data-folder/data-dir.ts';
import {ensureSecrets, lockData, storeFile} from '../../src/store/data-folder/open.ts';
import {migrate} from '../../src/store/engine/migrate.ts';
import {copyStore, openStore, openWriter} from '../../src/store/store.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {insertWorkspace} from '../helpers/messages.ts';

type Reported = {readonly file: string; readonly how: string};

/** A store in a data folder, with a guard that does not exit. */
async function prepare(t: ExecutionContext) {
	const dataDir = join(await temporaryFolder(t), 'data');
	openDataDir({dataDir});
	const unlock = await lockData(dataDir);
	const [file, lock, secrets] = ['mailctl.db', 'daemon.lock', 'secrets.json'].map(name => join(dataDir, name)) as [
		string,
		string,
		string,
	];
	const beside = [...identifyFiles([dataDir, lock, `${lock}-shm`]), {path: secrets, identity: null}];
	const store = await openStore({file}, {guardedFiles: beside});
	t.teardown(async () => {
		await store.close();
		await unlock();
	});
	await migrate(store.database);
	const settings = {dataDir, databaseUrl: null, secretKey: null, secretKeyFile: null};
	const keys = await store.database.transaction(trx => ensureSecrets(trx, settings));
	const {workspaceId} = await insertWorkspace(store);
	const reported: Reported[] = [];
	let exits = 0;
	const guard = new FileGuard({
		store,
		dataDir,
		keys,
		logger: {fatal: ({file, how}: Reported) => void reported.push({file, how}), error: t.log} as never,
		exit() {
			exits++;
		},
	});
	t.teardown(() => guard.stop());
	const write = () => store.writer.transaction(trx => trx('workspaces').update({locale: 'de'}));
	return {dataDir, file, lock, secrets, store, workspaceId, reported, guard, write, exits: () => exits};
}

/** The workspaces of a store, opened like at the next start. */
async function workspacesIn(file: string): Promise<string[]> {
	const store = await openStore({file});
	const ids: string[] = await store.reader('workspaces').pluck('id');
	await store.close();
	return ids;
}

for (const [what, displace] of [
	['removed', (file: string) => rmSync(file)],
	['replaced', (file: string) => renameSync(`${file}.copy`, file)],
] as const) {
	test(`if the store is ${what}, no commit succeeds, the process exits and the data is saved`, async t => {
		const {dataDir, file, reported, guard, write, workspaceId, exits} = await prepare(t);
		copyFileSync(file, `${file}.copy`);
		const {size} = statSync(`${file}-wal`);
		displace(file);
		await t.throwsAsync(write(), {code: 'FILE_DISPLACED'});
		await guard.check();
		t.true(guard.isDisplaced());
		t.deepEqual(reported, [{file, how: what}]);
		t.is(exits(), 1);
		t.is(existsSync(file), what === 'replaced');
		t.true(statSync(`${file}-wal`).size >= size, 'the log stays');
		t.deepEqual(await workspacesIn(join(dataDir, 'mailctl.db.rescued')), [workspaceId]);
	});
}

test('writes a removed log back into the store and moves aside one that replaced it', async t => {
	const {file, reported, guard, write, workspaceId, exits} = await prepare(t);
	copyFileSync(`${file}-wal`, `${file}-copy`);
	renameSync(`${file}-copy`, `${file}-wal`);
	await t.throwsAsync(write(), {code: 'FILE_DISPLACED'});
	await guard.check();
	t.deepEqual(reported, [{file: `${file}-wal`, how: 'replaced'}]);
	t.is(exits(), 1);
	t.false(existsSync(`${file}-wal`));
	// Without its log: all has to be in the file.
	copyFileSync(file, `${file}-alone`);
	t.deepEqual(await workspacesIn(`${file}-alone`), [workspaceId]);
});

test('writes nothing in place of a moved folder', async t => {
	const {dataDir, file, reported, guard, write, workspaceId, exits} = await prepare(t);
	renameSync(dataDir, `${dataDir}.moved`);
	await t.throwsAsync(write(), {code: 'FILE_DISPLACED'});
	await guard.check();
	t.deepEqual(reported, [{file: dataDir, how: 'removed'}]);
	t.is(exits(), 1);
	t.false(existsSync(dataDir));
	renameSync(`${dataDir}.moved`, dataDir);
	t.deepEqual(await workspacesIn(file), [workspaceId]);
});

for (const end of ['', '-shm']) {
	test(`exits if daemon.lock${end} is removed, since a second daemon may have started`, async t => {
		const {lock, reported, guard, exits} = await prepare(t);
		rmSync(`${lock}${end}`);
		await guard.check();
		t.deepEqual(reported, [{file: `${lock}${end}`, how: 'removed'}]);
		t.is(exits(), 1);
	});
}

test('restores a removed secrets.json', async t => {
	const {secrets, reported, guard, exits} = await prepare(t);
	const {keys} = JSON.parse(readFileSync(secrets, 'utf8'));
	rmSync(secrets);
	await guard.check();
	t.deepEqual(reported, [{file: secrets, how: 'removed'}]);
	t.is(exits(), 1);
	t.deepEqual(JSON.parse(readFileSync(secrets, 'utf8')).keys, keys);
	t.is(statSync(secrets).mode & 0o777, 0o600);
});

test('does not exit because of what SQLite and other commands do with the files', async t => {
	const {dataDir, file, store, reported, guard, write} = await prepare(t);
	await write();
	await store.wal?.checkpoint();
	await store.database.raw('vacuum');
	await copyStore(store.reader, join(dataDir, 'copy.db'));
	// Another process of the CLI, and the thread that writes.
	const other = await openStore({file: storeFile(dataDir)});
	await other.writer.transaction(trx => trx('workspaces').update({locale: 'en'}));
	await other.close();
	const thread = await openWriter(file, store.committed);
	await thread.writer.transaction(trx => trx('workspaces').update({locale: 'fr'}));
	await thread.close();
	await write();
	await guard.check();
	t.deepEqual(reported, []);
	t.true(store.files.some(({path}) => path === `${file}-wal`));
});

test('does not report files that were closed after the last check', async t => {
	const {store, reported, guard, exits} = await prepare(t);
	await guard.stop();
	await store.close();
	await guard.check();
	t.false(guard.isDisplaced());
	t.deepEqual([reported, exits()], [[], 0]);
});
