import {execFileSync} from 'node:child_process';
import {chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync} from 'node:fs';
import {hostname} from 'node:os';
import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {makeBackup} from '../../src/store/data-folder/backup.ts';
import {lockData} from '../../src/store/data-folder/open.ts';
import {openStore} from '../../src/store/store.ts';
import {type Cli, newCli, refused, storelessCli} from '../helpers/cli.ts';
import {engines, newLocation} from '../helpers/databases.ts';
import {fillFormer, former, formerSchema} from '../helpers/former-store.ts';
import {insertMessages} from '../helpers/messages.ts';
import {changeRecipients} from '../helpers/recipient-rows.ts';

type Made = {readonly file: string; readonly bytes: number; readonly time: string; readonly schema: string};

/** A store with a workspace, and its backup. */
async function prepare(t: ExecutionContext): Promise<{cli: Cli; file: string; made: Made}> {
	const cli = await newCli(t);
	await cli.json('workspace', 'create', '--name', 'acme');
	const file = path.join(cli.folder, 'backup.tar');
	return {cli, file, made: await cli.json<Made>('backup', file)};
}

const namesOf = async (cli: Cli) =>
	(await cli.json<Array<{name: string}>>('workspace', 'list')).map(({name}) => name).toSorted();

test('backup writes a private tar file of the store and its keys, and reports its contents', async t => {
	const {cli, file, made} = await prepare(t);
	const {version} = JSON.parse(readFileSync('package.json', 'utf8'));
	const unpacked = (name: string) => execFileSync('tar', ['xOf', file, name]);
	const manifest = JSON.parse(unpacked('manifest.json').toString());
	t.deepEqual(made as object, {
		...{file, bytes: statSync(file).size, version, time: made.time},
		...{schema: manifest.schema, files: manifest.files},
	});
	t.deepEqual(unpacked('secrets.json'), readFileSync(path.join(cli.folder, 'data/secrets.json')));
	t.is(unpacked('mailctl.db').length, manifest.files['mailctl.db'].bytes);
	t.is(statSync(file).mode & 0o777, 0o600);
	const text = await cli.text('backup', file);
	t.regex(text, /backup\.tar: [\d,]+ bytes, as of [\d-]+ [\d:]+ UTC, verified\.\nIt contains the keys/);
});

test('backup refuses to overwrite other files, and fails without a store', async t => {
	const {cli} = await prepare(t);
	refused(t, await cli.run('backup'), 64, /missing required argument 'file'/);
	refused(
		t,
		await cli.run('backup', 'data/mailctl.db'),
		65,
		/data\/mailctl\.db is not a backup of mailctl, name another/,
	);
	refused(t, await cli.run('backup', 'data'), 65, /data is a folder, name another file/);
	refused(t, await cli.run('backup', 'nowhere/b.tar'), 74, /cannot be read or written \(ENOENT/);
	t.deepEqual(readdirSync(cli.folder).toSorted(), ['backup.tar', 'data']);
	const empty = await storelessCli(t);
	refused(t, await empty.run('backup', 'b.tar'), 69, /no store at .*data, set MAILCTL_DATA_DIR/);
	t.deepEqual(readdirSync(empty.folder), []);
	const store = await cli.store();
	await store.database('migrations').insert({name: '999_future', applied_at: ''});
	refused(t, await cli.run('backup', 'b.tar'), 78, /the store was created by a newer version/);
	await store.database('migrations').where({name: '999_future'}).delete();
	rmSync(path.join(cli.folder, 'data/secrets.json'));
	refused(t, await cli.run('backup', 'b.tar'), 78, /secrets\.json is missing, .* restore it from a backup/);
});

test('backup beside a running daemon leaves no partial files behind', async t => {
	const {cli} = await prepare(t);
	const data = path.join(cli.folder, 'data');
	const abandoned = path.join(cli.folder, `live.tar.partial-${hostname()}-4194304-abcdef`);
	mkdirSync(abandoned);
	const {stop} = await cli.serve();
	const made = await cli.json<Made>('backup', 'live.tar');
	const log = (await cli.run('log', '--json')).stdout;
	t.is(existsSync(path.join(data, 'backup.partial')), false, log);
	t.is(existsSync(abandoned), false, 'what a killed backup left');
	t.false(readdirSync(data).some(name => name.startsWith('backup.partial')));
	await stop();
	t.is((await cli.run('restore', 'live.tar', '--yes')).code, 0);
	t.deepEqual(await namesOf(cli), ['acme']);
	t.is(statSync(path.join(cli.folder, 'live.tar')).size, made.bytes);
});

test('backs up a store of an older version, and restore migrates it', async t => {
	const cli = await storelessCli(t);
	const data = path.join(cli.folder, 'data');
	mkdirSync(data, {mode: 0o700});
	writeFileSync(path.join(data, 'mailctl.db'), '', {mode: 0o600});
	writeFileSync(path.join(data, 'secrets.json'), JSON.stringify(former.sqlite.secrets), {mode: 0o600});
	await (await fillFormer({file: path.join(data, 'mailctl.db')})).close();
	refused(t, await cli.run('workspace', 'list'), 78, /older version, stop the daemon and run mailctl migrate/);
	const {code, stdout, stderr} = await cli.run('backup', 'old.tar', '--json');
	t.is(code, 0, stderr);
	t.is(JSON.parse(stdout).schema, formerSchema);
	t.is((await cli.run('restore', 'old.tar', '--yes')).code, 0);
	t.deepEqual(await namesOf(cli), ['acme']);
});

test('restore fills a missing or empty folder without asking, and overwrites a store only with --yes', async t => {
	const {cli, file, made} = await prepare(t);
	for (const empty of [false, true]) {
		const other = await storelessCli(t);
		const data = path.join(other.folder, 'data');
		if (empty) {
			mkdirSync(data, {mode: 0o700});
		}
		t.deepEqual(await other.json('restore', file), {
			...{file, version: JSON.parse(readFileSync('package.json', 'utf8')).version, schema: made.schema},
			...{time: made.time, data_dir: data, replaced: false, waiting: 0, held: 0},
		});
		t.deepEqual(await namesOf(other), ['acme']);
		t.deepEqual(readdirSync(data).toSorted(), ['daemon.lock', 'mailctl.db', 'secrets.json']);
		t.is(statSync(data).mode & 0o777, 0o700);
	}
	await cli.json('workspace', 'create', '--name', 'later');
	refused(t, await cli.run('restore', file), 64, /destroys data, .* add --yes/);
	t.deepEqual(await namesOf(cli), ['acme', 'later']);
	t.like(await cli.json('restore', file, '--yes'), {replaced: true});
	t.deepEqual(await namesOf(cli), ['acme']);
	t.like((await cli.json<unknown[]>('audit', 'list'))[0] as object, {
		...{action: 'store.restored', workspace: null, target: null},
	});
});

test('restore refuses damaged or unusable backups and changes nothing', async t => {
	const {cli, file} = await prepare(t);
	const bytes = readFileSync(file);
	const write = (name: string, content: Uint8Array) => writeFileSync(path.join(cli.folder, name), content);
	write('cut.tar', bytes.subarray(0, bytes.length - 4096));
	const flipped = Buffer.from(bytes);
	flipped[bytes.length - 20_000] = (bytes.at(-20_000) as number) ^ 1;
	write('flipped.tar', flipped);
	write('text', Buffer.from('no tar'));
	refused(t, await cli.run('restore', 'cut.tar', '--yes'), 65, /cut\.tar is damaged \(.*\), restore another backup/);
	refused(t, await cli.run('restore', 'flipped.tar', '--yes'), 65, /is damaged \(mailctl\.db has changed\)/);
	refused(
		t,
		await cli.run('restore', 'text', '--yes'),
		65,
		/text is not a backup of mailctl, restore another backup/,
	);
	refused(t, await cli.run('restore', 'nix.tar', '--yes'), 65, /nix\.tar does not exist, name an existing file/);
	refused(t, await cli.run('restore', 'data', '--yes'), 65, /data is a folder/);

	const facts = {version: '9.0.0', engine: 'sqlite', time: '2026-11-23T10:00:00.000Z'} as const;
	const makeOf = async (schema: string) => {
		const made = path.join(cli.folder, `${schema}.tar`);
		await makeBackup({
			...{file: made, facts, onBytes: () => undefined},
			async gather(folder) {
				for (const name of ['secrets.json', 'mailctl.db']) {
					writeFileSync(path.join(folder, name), execFileSync('tar', ['xOf', file, name]));
				}
				return schema;
			},
		});
		return made;
	};
	const newer = await makeOf('999_future');
	refused(
		t,
		await cli.run('restore', newer, '--yes'),
		78,
		/created by mailctl 9\.0\.0, which is newer, install that/,
	);
	const old = await makeOf('013_webhook_secrets');
	refused(
		t,
		await cli.run('restore', old, '--yes'),
		78,
		/contains a store from a version that is too old, restore it with/,
	);

	const unlock = await lockData(path.join(cli.folder, 'data'));
	refused(t, await cli.run('restore', file, '--yes'), 75, /another daemon is running .*: stop it first/);
	await unlock();
	t.deepEqual(await namesOf(cli), ['acme']);
	t.false(readdirSync(path.join(cli.folder, 'data')).some(name => name.startsWith('restore')));
});

test('a failed restore leaves no new files behind', async t => {
	const {file} = await prepare(t);
	const bytes = readFileSync(file);
	const cli = await storelessCli(t, {MAILCTL_DATA_DIR: 'new/data'});
	writeFileSync(path.join(cli.folder, 'cut.tar'), bytes.subarray(0, bytes.length - 4096));
	refused(t, await cli.run('restore', 'cut.tar'), 65, /cut\.tar is damaged/);
	t.deepEqual(readdirSync(cli.folder), ['cut.tar']);
	mkdirSync(path.join(cli.folder, 'new'), {mode: 0o700});
	writeFileSync(path.join(cli.folder, 'new/theirs'), '');
	refused(t, await cli.run('restore', 'cut.tar'), 65, /cut\.tar is damaged/);
	t.deepEqual(readdirSync(path.join(cli.folder, 'new')), ['theirs']);
	mkdirSync(path.join(cli.folder, 'new/data'), {mode: 0o700});
	refused(t, await cli.run('restore', 'cut.tar'), 65, /cut\.tar is damaged/);
	t.deepEqual(readdirSync(path.join(cli.folder, 'new/data')), []);
	await cli.json('restore', file);
	refused(t, await cli.run('restore', 'cut.tar', '--yes'), 65, /cut\.tar is damaged/);
	t.true(existsSync(path.join(cli.folder, 'new/data/daemon.lock')), 'the lock that was there stays');
});

test('restore replaces a store that is damaged, empty or has lost its keys', async t => {
	const {cli, file} = await prepare(t);
	const data = path.join(cli.folder, 'data');
	for (const [name, content] of [
		['mailctl.db', 'x'.repeat(5000)],
		['mailctl.db', ''],
		['secrets.json', 'lost'],
	] as const) {
		writeFileSync(path.join(data, name), content, {mode: 0o600});
		t.is((await cli.run('restore', file, '--yes')).code, 0);
		t.is((await cli.run('doctor', '--json')).stderr, '');
		t.deepEqual(await namesOf(cli), ['acme']);
	}
	chmodSync(data, 0o777);
	refused(t, await cli.run('restore', file, '--yes'), 78, /is writable by others/);
});

test('restore --hold holds all waiting recipients, and queue why says so', async t => {
	const {cli} = await prepare(t);
	const [acme] = await cli.json<Array<{id: string}>>('workspace', 'list');
	const store = await cli.store();
	await insertMessages(store, acme?.id ?? '', ['a@x.test', 'b@x.test']);
	await changeRecipients(store.database, all => all.where({address: 'a@x.test'}), {claimed_by: 'req_dead'});
	await cli.json('backup', 'waiting.tar');
	t.like(await cli.json('restore', 'waiting.tar', '--yes'), {waiting: 2, held: 0});
	const told = await cli.text('restore', 'waiting.tar', '--yes');
	t.regex(told, /^Waiting recipients: 2\. .*\n.*mailctl queue hold --older-than 0s$/m);
	t.like(await cli.json('restore', 'waiting.tar', '--yes', '--hold'), {waiting: 0, held: 2});
	const [recipient] = await cli.json<Array<{id: string}>>('queue', 'list');
	t.regex(await cli.text('queue', 'why', recipient?.id ?? ''), /Held since .* by .*: restored from a backup/);
	t.like(await cli.json('queue', 'release', '--older-than', '0s'), {released: 2});
});

if (engines.includes('postgres')) {
	test('PostgreSQL: a backup has only the keys, says how to dump the database, and cannot be restored', async t => {
		const location = await newLocation(t, 'postgres');
		const url = 'url' in location ? location.url : '';
		const key = Buffer.alloc(32, 7).toString('base64');
		const former = Buffer.alloc(32, 8).toString('base64');
		const cli = await storelessCli(t, {MAILCTL_DATABASE_URL: url, MAILCTL_SECRET_KEY: `${key},${former}`});
		await cli.json('workspace', 'create', '--name', 'acme');
		t.regex(await cli.text('backup', 'keys.tar'), /The database is not in it\. Run: pg_dump /);
		const file = path.join(cli.folder, 'keys.tar');
		const {current, keys} = JSON.parse(execFileSync('tar', ['xOf', file, 'secrets.json']).toString());
		t.is(keys[current], key);
		t.deepEqual(Object.values(keys).toSorted(), [key, former].toSorted());
		t.is(JSON.parse(execFileSync('tar', ['xOf', file, 'manifest.json']).toString()).engine, 'postgres');
		refused(t, await cli.run('restore', 'keys.tar'), 65, /only the keys of a store in PostgreSQL, run pg_restore/);

		const {file: sqlite} = await prepare(t);
		refused(
			t,
			await cli.run('restore', sqlite),
			78,
			/contains a store in SQLite, remove MAILCTL_DATABASE_URL from/,
		);
		t.false(existsSync(path.join(cli.folder, 'data')));
		const store = await openStore({url});
		t.is((await store.reader('workspaces')).length, 1);
		await store.close();
	});
}
