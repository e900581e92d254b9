import {execFileSync, spawnSync} from 'node:child_process';
import {chmod, mkdir, readdir, readFile, stat, writeFile} from 'node:fs/promises';
import {delimiter, dirname, join, resolve} from 'node:path';
import process from 'node:process';
import test from 'ava';
import {mailctl} from '../../src/cli/commands.ts';
import {refused, storelessCli, verbsOf} from '../helpers/cli.ts';
import {startCliShell} from '../helpers/cli-shell.ts';
import {engines, newLocation, temporaryFolder} from '../helpers/databases.ts';
import {fillFormer, former, makeTooOld} from '../helpers/former-store.ts';
import {waitFor} from '../helpers/wait.ts';

test('config show masks secrets and prints the source of each setting; config check exits with 0 or 78', async t => {
	const cli = await storelessCli(t, {MAILCTL_RELAY_URL: 'smtp://user:hunter2@relay.example'});
	const shown = await cli.json<Array<{name: string; value: string | null; source: string}>>('config', 'show');
	const of = (name: string) => shown.find(setting => setting.name === name);
	t.like(of('MAILCTL_RELAY_URL'), {value: 'smtp://user:***@relay.example', source: 'environment'});
	t.like(of('MAILCTL_DELIVERY'), {value: 'capture', source: 'default'});
	const text = await cli.text('config', 'show');
	t.regex(text, /^SETTING +VALUE +FROM\nMAILCTL_DATA_DIR /);
	t.deepEqual(
		text.split('\n').filter(line => line.length > 80),
		[],
	);
	t.false(text.includes('hunter2'));
	t.deepEqual(await cli.json('config', 'check'), {ok: true});
	t.is(await cli.text('config', 'check'), 'The settings are valid.\n');
	const relay = {MAILCTL_DELIVERY: 'relay', MAILCTL_RELAY_URL: 'smtp://127.0.0.1:9', MAILCTL_HOSTNAME: 'vm'};
	const bare = await storelessCli(t, relay);
	t.regex(
		(await bare.json<{warnings: string[]}>('config', 'check')).warnings[0] ?? '',
		/^MAILCTL_HOSTNAME is vm, which/,
	);
	t.regex(await bare.text('config', 'check'), /^Warning: MAILCTL_HOSTNAME is vm[\s\S]*The settings are usable\.\n$/);
	t.deepEqual(await (await storelessCli(t, {...relay, MAILCTL_HOSTNAME: 'vm.example'})).json('config', 'check'), {
		ok: true,
	});

	await writeFile(join(cli.folder, 'bad.env'), 'MAILCTL_DELIVERY=pigeon\nMAILCTL_COLOUR=red\n');
	for (const args of [['config', 'check'], ['config', 'show'], ['key', 'list'], ['serve']]) {
		const stderr = /MAILCTL_DELIVERY="pigeon"[^\n]*use capture, mx or relay\n[\s\S]*MAILCTL_COLOUR/;
		refused(t, await cli.run(...args, '--env-file', 'bad.env'), 78, stderr);
	}
});

test('mailctl, not Node.js, reads --env-file, and rejects a FIFO instead of waiting for it', async t => {
	const {folder} = await storelessCli(t);
	execFileSync('mkfifo', ['fifo'], {cwd: folder});
	for (const [name, stderr] of [
		['fifo', /^mailctl: fifo cannot be read: .*fifo is not a regular file$/m],
		['nix', /^mailctl: nix does not exist: name an existing --env-file$/m],
	] as const) {
		const {status, stderr: told} = spawnSync(resolve('bin/mailctl.js'), ['config', 'check', '--env-file', name], {
			...{cwd: folder, timeout: 180_000, encoding: 'utf8'},
			env: {PATH: [dirname(process.execPath), process.env.PATH].join(delimiter)},
		});
		t.is(status, 78);
		t.regex(told, stderr);
	}
});

test('the curl command of init points to this machine, not to a wildcard address', async t => {
	const cli = await storelessCli(t, {MAILCTL_HTTP_LISTEN: '0.0.0.0:8125'});
	await cli.text('init');
	t.regex(await readFile(join(cli.folder, 'data/first-keys.txt'), 'utf8'), /^curl -sS http:\/\/127\.0\.0\.1:8125\//m);
});

const making = ['serve', 'init', 'migrate', 'bench', 'workspace create', 'apply', 'restore'];
const storeless = [
	'completion',
	'doctor',
	'config show',
	'config pace',
	'config check',
	'bounce explain',
	'bounce ingest',
	'smarthost test',
];

test('only commands that prepare a store create one; all others fail and leave the folder unchanged', async t => {
	const folder = await temporaryFolder(t);
	const {run} = startCliShell({cwd: folder, env: {PATH: process.env.PATH}});
	for (const [path, command] of verbsOf(await mailctl())) {
		if (making.includes(path) || storeless.includes(path)) {
			continue;
		}
		const words =
			/^.*?(?= --watch| [>|]|$)/s
				.exec(command.example?.replace('06f…', '0'.repeat(26)) ?? '')?.[0]
				.match(/'[^']*'|"[^"]*"|[^\s\\]+/g) ?? [];
		const {code, stderr} = await run(...words.slice(1).map(word => word.replace(/^(['"])(.*)\1$/, '$2')));
		t.is(code, 69, `${path}: ${stderr}`);
		t.regex(stderr, /^mailctl: no store at \.\/data, set MAILCTL_DATA_DIR or run in /, path);
		t.deepEqual(await readdir(folder), [], path);
	}
	await mkdir(join(folder, 'data'), {mode: 0o755});
	t.regex((await run('key', 'list')).stderr, /^mailctl: no store at \.\/data, /);
	await mkdir(join(folder, 'below'));
	const below = startCliShell({cwd: join(folder, 'below'), env: {MAILCTL_DATA_DIR: '../other'}});
	t.regex((await below.run('key', 'list')).stderr, new RegExp(`^mailctl: no store at ${join(folder, 'other')}, `));
	t.deepEqual(await readdir(join(folder, 'data')), []);
});

test('the first command creates the tables in an empty data folder, even several at once', async t => {
	const cli = await storelessCli(t);
	const names = ['a', 'b', 'c', 'd'];
	await Promise.all(
		names.map(name =>
			waitFor(`workspace ${name}`, async () => {
				const {code, stderr} = await cli.run('workspace', 'create', '--name', name);
				// Where the tables take longer than a command waits for the store, it says that it may be tried again.
				t.true(code === 0 || code === 75, stderr);
				return code === 0;
			}),
		),
	);
	const made = await cli.json<Array<{name: string}>>('workspace', 'list');
	t.deepEqual(made.map(({name}) => name).toSorted(), names);
	t.is((await stat(join(cli.folder, 'data'))).mode & 0o777, 0o700);
	t.is((await stat(join(cli.folder, 'data/mailctl.db'))).mode & 0o077, 0);
});

test('init fills an empty store once', async t => {
	const cli = await storelessCli(t);
	const made = await cli.json<{fresh: boolean; keys: {live: string; test: string}; template: string}>('init');
	t.like(made, {fresh: true, sender: 'hello@example.com'});
	t.regex(made.keys.live, /^key_live_/);
	t.regex(made.keys.test, /^key_test_/);
	t.deepEqual(
		(await cli.json<Array<{id: string; name: string}>>('template', 'list')).map(({id, name}) => [id, name]),
		[[made.template, 'sample']],
	);
	const again = await cli.json('init');
	t.like(again, {fresh: false});
	t.false(JSON.stringify(again).includes('key_'));
	t.is(await cli.text('init'), 'The store already has a workspace: nothing was changed.\n');
});

test('migrate brings the schema up to date and exits with 78 on a newer one', async t => {
	const cli = await storelessCli(t);
	const {applied} = await cli.json<{applied: string[]}>('migrate');
	t.is(applied[0], '029_schema');
	t.deepEqual(await cli.json('migrate'), {applied: []});
	t.is(await cli.text('migrate'), 'The store is up to date.\n');

	const store = await cli.store();
	const last = await store.database('migrations').orderBy('name', 'desc').first();
	await store.database('migrations').where({name: last.name}).delete();
	refused(
		t,
		await cli.run('key', 'list'),
		78,
		/the store was created by an older version, stop the daemon and run mailctl migrate/,
	);
	await store.database('migrations').insert([last, {name: '999_future', applied_at: last.applied_at}]);
	for (const args of [['key', 'list'], ['migrate'], ['serve']]) {
		const {code, stderr} = await cli.run(...args);
		t.is(code, 78);
		t.regex(stderr, /^mailctl: .* newer version/);
	}
});

test('every command refuses a store from before commit 2a0e3213 with 78 and changes nothing', async t => {
	const cli = await storelessCli(t);
	const data = join(cli.folder, 'data');
	await mkdir(data, {mode: 0o700});
	await writeFile(join(data, 'mailctl.db'), '', {mode: 0o600});
	await writeFile(join(data, 'secrets.json'), JSON.stringify(former.sqlite.secrets), {mode: 0o600});
	const store = await fillFormer({file: join(data, 'mailctl.db')});
	await makeTooOld(store);
	await store.close();
	const look = async () => {
		// The lock stays, as after each start.
		const names = (await readdir(data)).filter(name => !name.startsWith('daemon.lock'));
		return await Promise.all(
			names.map(async name => [name, (await readFile(join(data, name))).toString('base64')]),
		);
	};
	const before = await look();
	for (const args of [
		['key', 'list'],
		['migrate'],
		['serve'],
		['init'],
		['workspace', 'create', '--name', 'a'],
		['backup', 'b.tar'],
	]) {
		const {code, stderr} = await cli.run(...args);
		t.is(code, 78, args[0]);
		t.regex(
			stderr,
			/^mailctl: \S.* was created by a version that is too old[:,] upgrade it with mailctl at commit 2a0e3213 first\n$/,
			args[0],
		);
		t.deepEqual(await look(), before, args[0]);
	}
	t.regex((await cli.run('doctor')).stdout, /was created by a\s+version that is too old/);
	t.deepEqual(await look(), before);
	t.deepEqual(await readdir(cli.folder), ['data']);
});

test('exits with 78 for an unusable data folder and with 74 for a damaged store', async t => {
	const cli = await storelessCli(t);
	await writeFile(join(cli.folder, 'data'), 'a file');
	refused(t, await cli.run('key', 'list'), 78, /the data folder .* cannot be written .*MAILCTL_DATA_DIR/);

	// A folder that takes none, whoever asks.
	const nowhere = await storelessCli(t, {MAILCTL_DATA_DIR: '/proc/mailctl/data'});
	refused(
		t,
		await nowhere.run('workspace', 'create', '--name', 'a'),
		78,
		/the data folder .* cannot be written .*MAILCTL_DATA_DIR/,
	);

	const other = await storelessCli(t);
	await mkdir(join(other.folder, 'data'), {mode: 0o700});
	await writeFile(join(other.folder, 'data/mailctl.db'), 'x'.repeat(10_000), {mode: 0o600});
	refused(t, await other.run('key', 'list'), 74, /the store is damaged .*restore the last backup/);
});

test('refuses data files that others can read with 78, and creates them readable by the owner only', async t => {
	const cli = await storelessCli(t);
	await cli.json('init');
	const data = join(cli.folder, 'data');
	for (const name of await readdir(data)) {
		t.is((await stat(join(data, name))).mode & 0o077, 0, name);
	}
	await chmod(join(data, 'secrets.json'), 0o644);
	refused(t, await cli.run('key', 'list'), 78, /secrets\.json can be read .*chmod 600/);
});

test('PostgreSQL: exits with 75 without a server and with 78 without a secret key', async t => {
	const secret = {MAILCTL_SECRET_KEY: Buffer.alloc(32, 7).toString('base64')};
	const of = async (host: string, settings: Readonly<Record<string, string>>) => {
		const cli = await storelessCli(t, {MAILCTL_DATABASE_URL: `postgres://user:hunter2@${host}/x`, ...settings});
		return await cli.run('key', 'list');
	};
	refused(t, await of('127.0.0.1:1', secret), 75, /the database cannot be reached/);
	refused(t, await of('127.0.0.1:1', {}), 78, /needs MAILCTL_SECRET_KEY/);
});

if (engines.includes('postgres')) {
	test('every command refuses a PostgreSQL store from before commit 2a0e3213 with 78', async t => {
		const location = await newLocation(t, 'postgres');
		const store = await fillFormer(location);
		t.teardown(() => store.close());
		await makeTooOld(store);
		const cli = await storelessCli(t, {
			MAILCTL_DATABASE_URL: 'url' in location ? location.url : '',
			MAILCTL_SECRET_KEY: former.postgres.secretKey,
		});
		for (const args of [['key', 'list'], ['migrate'], ['serve'], ['backup', 'b.tar']]) {
			refused(
				t,
				await cli.run(...args),
				78,
				/was created by a version that is too old[:,] upgrade it with mailctl/,
			);
		}
		t.is((await store.reader('migrations').max({name: 'name'}))[0]?.name, '013_webhook_secrets');
		t.false(await store.reader.schema.hasColumn('workspaces', 'paused_by'));
	});

	test('commands work on PostgreSQL as on SQLite', async t => {
		const location = await newLocation(t, 'postgres');
		const cli = await storelessCli(t, {
			MAILCTL_DATABASE_URL: 'url' in location ? location.url : '',
			MAILCTL_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
		});
		refused(t, await cli.run('key', 'list'), 69, /no store in the PostgreSQL database of MAILCTL_DATABASE_URL, /);
		t.like(await cli.json('init'), {fresh: true});
		t.like(await cli.json('domain', 'add', 'shop.example'), {name: 'shop.example'});
		t.is((await cli.json<object[]>('key', 'list')).length, 2);
		t.deepEqual(await cli.json('queue', 'summary'), []);
		t.deepEqual(await cli.json('message', 'list', '--status', 'queued'), []);
		await t.throwsAsync(stat(join(cli.folder, 'data/mailctl.db')), {code: 'ENOENT'});
	});
}
