import {execFileSync, spawn} from 'node:child_process';
import {once} from 'node:events';
import {cp, mkdir, readFile, symlink, writeFile} from 'node:fs/promises';
import {join, resolve} from 'node:path';
import {buffer} from 'node:stream/consumers';
import test from 'ava';
import {newCli} from '../helpers/cli.ts';

test('rejects devices and FIFOs as input files', async t => {
	const cli = await newCli(t);
	await cli.json('workspace', 'create', '--name', 'acme');
	execFileSync('mkfifo', [join(cli.folder, 'fifo')]);
	await cli.json('template', 'create', '--name', 'x');
	const send = ['send', '--from', 'a@x.test', '--to', 'b@y.test', '--template', 'x'];
	const commands: ReadonlyArray<readonly [code: number, ...args: string[]]> = [
		[65, 'bounce', 'explain', '/dev/zero'],
		[65, 'bounce', 'explain', 'fifo'],
		[65, 'suppression', 'import', '/dev/zero'],
		[65, 'suppression', 'import', 'fifo'],
		[65, ...send, '--data', '/dev/zero'],
		[65, ...send, '--attach', 'fifo'],
		[74, 'bounce', 'ingest', 'fifo'],
	];
	await Promise.all(
		commands.map(async ([code, ...args]) => {
			const ended = await cli.run(...args);
			t.regex(ended.stderr, /is not a regular file/, args.join(' '));
			t.is(ended.code, code, `${args.join(' ')}: ${ended.stderr}`);
		}),
	);
	for (const name of [
		'MAILCTL_CA_FILE',
		'MAILCTL_DESTINATIONS_FILE',
		'MAILCTL_BOUNCE_RULES_FILE',
		'MAILCTL_BLOCKLISTS_FILE',
	]) {
		const {code, stderr} = await (await newCli(t, {[name]: '/dev/zero'})).run('config', 'check');
		t.is(code, 78, stderr);
		t.regex(stderr, /is not a regular file/);
	}
});

test('rejects endless standard input in bounded memory', async t => {
	const cli = await newCli(t);
	await cli.json('workspace', 'create', '--name', 'acme');
	for (const args of [
		['bounce', 'explain', '-'],
		['bounce', 'ingest', '-'],
		['suppression', 'import', '-'],
	]) {
		const child = spawn(process.execPath, [resolve('bin/mailctl.js'), ...args], {
			cwd: cli.folder,
			env: {PATH: process.env.PATH},
		});
		t.teardown(() => child.kill('SIGKILL'));
		const piece = Buffer.alloc(65_536, 'x');
		const pour = (): void => {
			while (child.stdin.writable && child.stdin.write(piece)) {
				// Until it takes no more for now.
			}
		};
		child.stdin.on('drain', pour).on('error', () => undefined);
		child.stdout.resume();
		pour();
		const [stderr] = await Promise.all([buffer(child.stderr), once(child, 'close')]);
		t.is(child.exitCode, 65, stderr.toString());
		t.regex(stderr.toString(), /more than|larger than/);
	}
});

test('does not push templates from symbolic links or FIFOs, or pull them through links', async t => {
	const cli = await newCli(t);
	await cli.json('workspace', 'create', '--name', 'acme');
	const templates = join(cli.folder, 'templates');
	await cp('config/sample-template', join(templates, 'welcome'), {recursive: true});
	await cli.json('template', 'push', 'templates');
	await writeFile(join(cli.folder, 'secrets.json'), '{"key":"hidden"}');

	await symlink('../../secrets.json', join(templates, 'welcome/body.de.txt'));
	execFileSync('mkfifo', [join(templates, 'welcome/body.fr.txt')]);
	await symlink('welcome', join(templates, 'linked'));
	const pushed = await cli.run('template', 'push', 'templates');
	t.is(pushed.code, 65);
	t.regex(pushed.stderr, /welcome\/body\.de\.txt: is a symbolic link, not a regular file/);
	t.regex(pushed.stderr, /welcome\/body\.fr\.txt: is not a regular file/);
	t.regex(pushed.stderr, /linked.*is a symbolic link/);
	t.notRegex(pushed.stderr, /hidden/);

	const through = await cli.run('template', 'pull', 'templates', '--yes');
	t.is(through.code, 65, through.stderr);
	t.regex(through.stderr, /body\.de\.txt is a symbolic link/);
	t.is(await readFile(join(cli.folder, 'secrets.json'), 'utf8'), '{"key":"hidden"}');

	await mkdir(join(cli.folder, 'into'));
	await symlink('../templates', join(cli.folder, 'into/welcome'));
	const linked = await cli.run('template', 'pull', 'into', '--yes');
	t.is(linked.code, 65, linked.stderr);
	t.regex(linked.stderr, /into\/welcome is a symbolic link/);
});
