import {execFileSync, spawnSync} from 'node:child_process';
import {
	chmodSync,
	chownSync,
	cpSync,
	existsSync,
	mkdirSync,
	mkdtempSync,
	readFileSync,
	rmSync,
	statSync,
	truncateSync,
	writeFileSync,
} from 'node:fs';
import {createServer} from 'node:net';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import process from 'node:process';
import test, {type ExecutionContext} from 'ava';
import {openStore} from '../../src/store/store.ts';
import {type Cli, refused, storelessCli} from '../helpers/cli.ts';
import {eventsOf, prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {oncePerFile} from '../helpers/once-per-file.ts';
import {call} from '../helpers/shop.ts';
import {startOnTerminal} from '../helpers/terminal.ts';
import {waitFor} from '../helpers/wait.ts';

/** The data folder after the first start of a daemon. */
const leftFolder = oncePerFile(test, async scope => {
	const program = await prepareProgram(scope, {});
	await program.cliBytes('init');
	return join(program.folder, 'data');
});

/** A copy of it to run commands on. */
async function usedFolder(t: ExecutionContext): Promise<Cli & {readonly data: string}> {
	const cli = await storelessCli(t);
	const data = join(cli.folder, 'data');
	cpSync(leftFolder(), data, {recursive: true});
	return {...cli, data};
}

test.serial('the first start writes working keys to a private file; the second creates nothing', async t => {
	const program = await prepareProgram(t, {});
	const [file, keysFile] = ['daemon.json', 'first-keys.txt'].map(name => join(program.folder, 'data', name)) as [
		string,
		string,
	];
	const first = await program.serve();
	t.deepEqual(JSON.parse(readFileSync(file, 'utf8')), {
		pid: first.pid,
		http: first.url,
		admin: first.url,
		https: null,
		redirect: null,
		inbound: null,
		submission: null,
		version: JSON.parse(readFileSync('package.json', 'utf8')).version,
		roles: ['api', 'deliver', 'webhook', 'inbound'],
	});
	t.like((await eventsOf(program, 'first_keys'))[0], {file: keysFile});
	t.notRegex(await program.log(), /key_(live|test)_/, 'off a terminal no key is printed or logged');
	t.is(statSync(keysFile).mode & 0o777, 0o600);
	const text = readFileSync(keysFile, 'utf8');
	t.regex(text, /key_live_\w{38}[\s\S]*key_test_\w{38}[\s\S]*curl -sS/);
	const curl = /^curl [\s\S]*?'$(?=\n\n)/m.exec(text)?.[0] ?? '';
	t.regex(execFileSync('sh', ['-c', curl], {encoding: 'utf8'}), /"id":"msg_/, 'its curl sends a first mail');
	const keys = await program.cli<unknown[]>('key', 'list');
	t.is(keys.length, 2);
	const {key, from, templateId} = await welcomeOf(program);
	t.is(await first.stop(), 0);
	t.false(existsSync(file));
	const said = (await program.log()).length;
	rmSync(keysFile);

	const second = await program.serve();
	t.false(existsSync(keysFile));
	t.notRegex((await program.log()).slice(said), /key_(live|test)_|fresh/);
	t.deepEqual((await program.cli<unknown[]>('key', 'list')).length, keys.length);
	const sent = await call(`${second.url}/v1/messages`, key, {from, to: 'you@example.org', templateId});
	t.is(sent.status, 202, 'the key of the first start still holds');
	t.is(await second.stop(), 0);
});

test.serial('keeps an existing file of first keys, and tells a second daemon which one is running', async t => {
	const program = await prepareProgram(t, {});
	mkdirSync(join(program.folder, 'data'));
	const file = join(program.folder, 'data/first-keys.txt');
	writeFileSync(file, 'kept', {mode: 0o600});
	const daemon = await program.serve();
	const message = new RegExp(
		`another daemon is running on the data folder .* \\(process ${daemon.pid} on .*, since 20`,
	);
	refused(t, await program.run('serve'), 75, message);
	program.environment.env.MAILCTL_HTTP_LISTEN = new URL(daemon.url).host;
	refused(t, await program.run('serve'), 75, message);
	t.is((await fetch(`${daemon.url}/readyz`)).status, 200, 'the first one is not disturbed');
	t.is(JSON.parse(readFileSync(join(program.folder, 'data/daemon.json'), 'utf8')).pid, daemon.pid);

	t.is(await daemon.stop(), 0);
	t.is(readFileSync(file, 'utf8'), 'kept');
	t.like((await eventsOf(program, 'first_keys'))[0], {file: null});
	t.notRegex(await program.log(), /key_(live|test)_/);
});

for (const settings of [
	{MAILCTL_DELIVERY: 'relay', MAILCTL_RELAY_URL: 'smtp://127.0.0.1:9'},
	{MAILCTL_DELIVERY: 'mx', MAILCTL_HOSTNAME: 'mail.shop.example', MAILCTL_PUBLIC_URL: 'https://mail.shop.example'},
]) {
	test.serial(`${settings.MAILCTL_DELIVERY}: init creates no sender and writes keys only to a file`, async t => {
		const cli = await storelessCli(t, settings);
		const file = join(cli.folder, 'data/first-keys.txt');
		const {code, stdout, stderr} = await cli.run('init');
		t.is(code, 0);
		t.true(`${stdout}${stderr}`.includes(file));
		t.notRegex(`${stdout}${stderr}`, /key_(live|test)_/);
		t.is(statSync(file).mode & 0o777, 0o600);
		const text = readFileSync(file, 'utf8');
		t.notRegex(text, /hello@example|curl/);
		t.regex(text, /mailctl.* domain add YOUR-DOMAIN/);
		t.deepEqual(await cli.json('sender', 'list'), []);
		t.deepEqual(await cli.json('domain', 'list'), []);
	});
}

test.serial('on a terminal prints the keys once and the dashboard at each start, and creates no file', async t => {
	const program = await prepareProgram(t, {MAILCTL_LOG_FORMAT: 'json'});
	const command = [process.execPath, resolve('bin/mailctl.js'), 'serve'];
	const keys = /key_live_\w{38}/g;
	const dashboard = /Dashboard: http:\/\/127\.0\.0\.1:\d+\/\s+Get a link to sign in: \S.*user link admin@localhost/;
	for (const times of [2, 0]) {
		const terminal = startOnTerminal(t, program, command, {owner: true});
		await waitFor(
			'it listens',
			() => /"listening"/.test(terminal.shown()) && existsSync(join(program.folder, 'data/daemon.json')),
		);
		await waitFor('it is told', () => times === 0 || (terminal.shown().match(keys)?.length ?? 0) >= times);
		const link = times === 0 ? dashboard : /http:\/\/127\.0\.0\.1:\d+\/login\/[\s\S]*user link admin@localhost/;
		await waitFor('the dashboard is named', () => link.test(terminal.shown()));
		terminal.close();
		t.is(await terminal.ended, 0);
		// In the list and in the command.
		t.is(terminal.shown().match(keys)?.length ?? 0, times);
	}
	t.false(existsSync(join(program.folder, 'data/first-keys.txt')));
});

test.serial('serve and commands refuse a data folder writable by others and print the chmod', async t => {
	const program = await usedFolder(t);
	chmodSync(program.data, 0o777);
	for (const command of [['serve'], ['workspace', 'list']]) {
		refused(
			t,
			await program.run(...command),
			78,
			/data folder .* is writable by others .*: run chmod go-w \S+data$/m,
		);
	}
	chmodSync(program.data, 0o700);
	t.is((await program.run('workspace', 'list')).code, 0);
});

test.serial('names a port in use and how to fix it, and creates nothing', async t => {
	const server = createServer();
	await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
	t.teardown(() => server.close());
	const address = server.address() as {port: number};
	const program = await prepareProgram(t, {MAILCTL_HTTP_LISTEN: `127.0.0.1:${address.port}`});
	const message = new RegExp(
		`127\\.0\\.0\\.1:${address.port} is in use by another program: stop it or set MAILCTL_HTTP_LISTEN`,
	);
	refused(t, await program.run('serve'), 69, message);
	t.false(existsSync(join(program.folder, 'data')), 'the next start is the first one');
	const listeners = [
		'MAILCTL_ADMIN_LISTEN',
		'MAILCTL_HTTPS_LISTEN',
		'MAILCTL_HTTP_REDIRECT_LISTEN',
		'MAILCTL_INBOUND_LISTEN',
		'MAILCTL_SUBMISSION_LISTEN',
	];
	for (const listener of listeners) {
		const other = await storelessCli(t, {
			MAILCTL_ACME: 'true',
			MAILCTL_HOSTNAME: 'mail.lab.test',
			MAILCTL_PUBLIC_URL: 'https://mail.lab.test',
			[listener]: `127.0.0.1:${address.port}`,
		});
		refused(
			t,
			await other.run('serve'),
			69,
			new RegExp(`:${address.port} is in use .* set ${listener} to another port`),
		);
		t.false(existsSync(join(other.folder, 'data')), listener);
	}
});

test.serial('the next start completes a first start that failed before it showed its keys', async t => {
	const program = await prepareProgram(t, {});
	const [file, obstacle] = ['first-keys.txt', 'daemon.json'].map(name => join(program.folder, 'data', name));
	// The last thing that a start writes cannot be written.
	mkdirSync(obstacle as string, {recursive: true, mode: 0o700});
	t.is((await program.run('serve')).code, 74);
	t.false(existsSync(file as string));
	rmSync(obstacle as string, {recursive: true});
	const second = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	t.is((await program.cli<unknown[]>('key', 'list')).length, 2, 'keys that nobody knows are gone');
	const sent = await call(`${second.url}/v1/messages`, key, {from, to: 'you@example.org', templateId});
	t.is(sent.status, 202);
	t.is(await second.stop(), 0);
});

test.serial('exits with 75 if PostgreSQL is unreachable, and creates nothing', async t => {
	const cli = await storelessCli(t, {
		MAILCTL_DATABASE_URL: 'postgres://mailctl:hunter2@127.0.0.1:1/mailctl',
		MAILCTL_SECRET_KEY: Buffer.alloc(32, 1).toString('base64'),
	});
	const data = join(cli.folder, 'data');
	const ended = await cli.run('serve');
	refused(t, ended, 75, /the database cannot be reached \(.*ECONNREFUSED/);
	t.notRegex(ended.stderr, /hunter2/);
	t.false(existsSync(data));
	mkdirSync(data);
	refused(t, await cli.run('serve'), 75, /the database cannot be reached/);
});

test.serial('refuses a data folder that is a file, or below one, and says how to fix it', async t => {
	for (const folder of ['file', 'file/below']) {
		const cli = await storelessCli(t, {MAILCTL_DATA_DIR: `./${folder}`});
		writeFileSync(join(cli.folder, 'file'), '');
		refused(t, await cli.run('serve'), 78, /data folder .*file.* cannot be written .*set MAILCTL_DATA_DIR/);
	}
});

test.serial('refuses a data folder on a read-only file system and says how to fix it', async t => {
	const program = await usedFolder(t);
	try {
		execFileSync('mount', ['--bind', program.data, program.data], {stdio: 'pipe'});
		t.teardown(() => void execFileSync('umount', [program.data]));
		execFileSync('mount', ['-o', 'remount,bind,ro', program.data], {stdio: 'pipe'});
	} catch (error) {
		return void notRunHere(t, `a file system cannot be mounted (${(error as Error).message.trim()})`);
	}
	const fix = `: run mount -o remount,rw ${program.data} or set MAILCTL_DATA_DIR`;
	refused(t, await program.run('serve'), 78, new RegExp(`data folder .* cannot be written \\(EROFS.*${fix}`));
});

/** A user who owns no files. */
const nobody = 65_534;

/** The built program in a folder open to all users: the checkout may lie below a private one. */
function programForAll(t: ExecutionContext): string {
	const folder = mkdtempSync(join(tmpdir(), 'mailctl-program-'));
	t.teardown(() => rmSync(folder, {recursive: true, force: true}));
	chmodSync(folder, 0o755);
	const parts = ['package.json', 'bin', 'dist', 'config', 'node_modules'].map(part => resolve(part));
	// Hard links where it is the same disk.
	if (spawnSync('cp', ['-al', ...parts, folder]).status !== 0) {
		execFileSync('cp', ['-a', ...parts, folder]);
	}
	return join(folder, 'bin/mailctl.js');
}

test.serial('refuses files of another user, naming both users and the command that fixes it', async t => {
	if (process.getuid?.() !== 0) {
		return void notRunHere(t, 'only root can give files to others');
	}
	const program = await usedFolder(t);
	const mailctl = programForAll(t);
	const serve = (settings: Readonly<Record<string, string>> = {}) => {
		const env = {PATH: process.env.PATH, MAILCTL_HTTP_LISTEN: '127.0.0.1:0', ...settings};
		const options = {cwd: program.folder, env, uid: nobody, gid: nobody, encoding: 'utf8'} as const;
		const {status: code, stdout, stderr} = spawnSync(process.execPath, [mailctl, 'serve'], options);
		return {code, stdout, stderr};
	};
	const asRoot = ` belongs to user 0, but mailctl runs as user ${nobody}: `;
	// The folder above is root's alone, and nobody else may enter it.
	refused(t, serve(), 78, new RegExp(`data folder ${program.data} .*${program.folder}${`.* run chmod o\\+x`}`));
	chmodSync(program.folder, 0o755);
	refused(t, serve(), 78, new RegExp(`${program.data}${asRoot}.*run chown -R ${nobody} ${program.data}\n`));
	execFileSync('chown', ['-R', String(nobody), program.data]);

	const names = ['mailctl.db', 'mailctl.db-wal', 'mailctl.db-shm', 'secrets.json', 'daemon.lock', 'captured'];
	const files = names.map(name => join(program.data, name));
	const added = files.filter(file => !existsSync(file));
	for (const file of added) {
		if (file.endsWith('captured')) {
			mkdirSync(file, {mode: 0o700});
		} else {
			writeFileSync(file, '', {mode: 0o600});
		}
	}
	for (const file of files) {
		chownSync(file, 0, 0);
	}
	const ended = serve();
	t.is(ended.stderr.split('\n').length, files.length + 1);
	for (const file of files) {
		const recursive = file.endsWith('captured') ? '-R ' : '';
		refused(t, ended, 78, new RegExp(`^mailctl: ${file}${asRoot}run chown ${recursive}${nobody} ${file}$`, 'm'));
		chownSync(file, nobody, nobody);
	}
	for (const file of added) {
		rmSync(file, {recursive: true});
	}

	const settings = join(program.folder, '.env');
	writeFileSync(settings, '', {mode: 0o600});
	refused(
		t,
		serve(),
		78,
		new RegExp(`\\.env cannot be read: ${settings}${asRoot}run chown ${nobody} ${settings}\n$`),
	);
	chownSync(settings, nobody, nobody);

	const missing = join(program.folder, 'other');
	refused(
		t,
		serve({MAILCTL_DATA_DIR: missing}),
		78,
		new RegExp(`belongs to user 0, .*: run install -d -o ${nobody} -m 700 ${missing} or set`),
	);
});

for (const name of ['mailctl.db', 'secrets.json', 'daemon.lock']) {
	test.serial(`refuses a folder in place of ${name} and says how to fix it`, async t => {
		const program = await usedFolder(t);
		rmSync(join(program.data, name), {force: true});
		mkdirSync(join(program.data, name), {mode: 0o700});
		refused(t, await program.run('serve'), 78, new RegExp(`${name} is not a file: move it away\n$`));
	});
}

test.serial('reports every invalid setting at once and creates nothing', async t => {
	const program = await storelessCli(t, {
		MAILCTL_HTTP_LISTEN: 'nowhere',
		MAILCTL_DELIVERY: 'pigeon',
		MAILCTL_RETRY_SCHEDULE: '1m,soon',
		MAILCTL_LOG_LEVL: 'debug',
	});
	const ended = await program.run('serve');
	for (const name of ['HTTP_LISTEN="nowhere"', 'DELIVERY="pigeon"', 'RETRY_SCHEDULE="1m,soon"', 'LOG_LEVL']) {
		refused(t, ended, 78, new RegExp(`^mailctl: .*MAILCTL_${name}`, 'm'));
	}
	t.false(existsSync(join(program.folder, 'data')));
});

test.serial('refuses a store of a newer version without changing it', async t => {
	const program = await usedFolder(t);
	const file = join(program.data, 'mailctl.db');
	const store = await openStore({file});
	await store.database('migrations').insert({name: '9999_future', applied_at: ''});
	await store.close();
	const before = readFileSync(file);
	refused(t, await program.run('serve'), 78, /mailctl\.db was created by a newer version: install that version/);
	t.deepEqual(readFileSync(file), before);
});

const garbage = Buffer.alloc(64 * 1024, 'no database ');
for (const [what, damage, message] of [
	[
		'garbage',
		(file: string) => writeFileSync(file, garbage),
		/is damaged \(.*not a database\): restore it from a backup/,
	],
	[
		'truncated',
		(file: string) => truncateSync(file, statSync(file).size / 2),
		/is damaged \(.*malformed\): restore it/,
	],
	['empty', (file: string) => truncateSync(file), /is empty: restore it from a backup/],
] as const) {
	test.serial(`refuses a damaged store without changing it: ${what}`, async t => {
		const program = await usedFolder(t);
		const file = join(program.data, 'mailctl.db');
		damage(file);
		const before = readFileSync(file);
		refused(t, await program.run('serve'), 74, message);
		t.true(readFileSync(file).equals(before));
		const command = await program.run('workspace', 'list');
		refused(t, command, 74, /damaged|empty/);
		t.true(readFileSync(file).equals(before));
	});
}

test.serial('refuses damaged secrets without overwriting them', async t => {
	const program = await usedFolder(t);
	const file = join(program.data, 'secrets.json');
	writeFileSync(file, '{"version":1,');
	refused(t, await program.run('serve'), 78, /secrets\.json is damaged: restore it from the last backup/);
	t.is(readFileSync(file, 'utf8'), '{"version":1,');
});

test.serial('does not create new secrets while the store needs the lost ones', async t => {
	const program = await usedFolder(t);
	const file = join(program.data, 'secrets.json');
	rmSync(file);
	for (const command of [['serve'], ['domain', 'add', 'shop.example']]) {
		refused(t, await program.run(...command), 78, /secrets\.json is missing, .*: restore it from a backup/);
		t.false(existsSync(file));
	}
});

test.serial('refuses a store that others can read and says how to fix it', async t => {
	const program = await usedFolder(t);
	const file = join(program.data, 'mailctl.db');
	chmodSync(file, 0o644);
	refused(t, await program.run('serve'), 78, /mailctl\.db can be read or written by others: run chmod 600 /);
});

test.serial('exits after an unexpected error at startup', async t => {
	// As under a unit that forbids AF_NETLINK, of which nothing else here has an example.
	const broken = `import os from 'node:os'; import {syncBuiltinESMExports} from 'node:module';
		os.networkInterfaces = () => { throw new Error('no interfaces'); }; syncBuiltinESMExports();`;
	const program = await prepareProgram(t, {
		NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(broken)}`,
	});
	const {code, stderr} = await program.run('serve');
	t.is(code, 1);
	t.regex(stderr, /^mailctl: unexpected error: .*no interfaces/);
});

if (process.getuid?.() !== 0) {
	test.serial('refuses a data folder it cannot write to and says how to fix it', async t => {
		const program = await usedFolder(t);
		chmodSync(program.data, 0o500);
		t.teardown(() => chmodSync(program.data, 0o700));
		refused(t, await program.run('serve'), 78, /data folder .* has mode 500\): run chmod u\+rwx /);
	});
}
