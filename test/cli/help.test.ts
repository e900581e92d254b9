import {execFile, spawnSync} from 'node:child_process';
import {readFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import {promisify} from 'node:util';
import test from 'ava';
import {mailctl} from '../../src/cli/commands.ts';
import {cliPage, manPage} from '../../src/cli/tree/tree.ts';
import {newCli, refused, storelessCli, verbsOf} from '../helpers/cli.ts';

test('docs/reference/cli.md matches the code', async t => {
	t.is(readFileSync('docs/reference/cli.md', 'utf8'), cliPage(await mailctl()));
});

test('docs/reference/mailctl.1 matches the code, covers every command, and renders without warnings', async t => {
	const page = readFileSync('docs/reference/mailctl.1', 'utf8');
	t.is(page, manPage(await mailctl()));
	const readers = [
		['man', '--warnings', '-l'],
		['mandoc', '-T', 'lint', '-W', 'error'],
	] as const;
	for (const [name, ...args] of readers) {
		const {error, status, stdout, stderr} = spawnSync(name, [...args, 'docs/reference/mailctl.1'], {
			encoding: 'utf8',
			env: {PATH: process.env.PATH, LC_ALL: 'C.UTF-8', MANWIDTH: '80'},
		});
		if (error) {
			t.log(`not run here: ${name}`);
			continue;
		}
		t.is(status, 0, stdout + stderr);
		t.is(stderr, '', name);
		if (name === 'man') {
			const verbs = verbsOf(await mailctl()).filter(([path]) => path.includes(' '));
			t.deepEqual(
				verbs.map(([path]) => path).filter(path => !stdout.includes(`\n       mailctl ${path}`)),
				[],
			);
		}
	}
});

test('every command has a description, an example, described options and an entry in the docs', async t => {
	const page = readFileSync('docs/reference/cli.md', 'utf8');
	const verbs = verbsOf(await mailctl());
	t.true(verbs.length > 30);
	for (const [path, verb] of verbs) {
		t.not(verb.description(), '', path);
		t.true(verb.example?.startsWith(`mailctl ${path}`), path);
		t.true(page.includes(`\n| \`${path}`), path);
		t.is(
			page.includes(`\n### ${path}\n`),
			verb.options.some(({long}) => long !== '--yes'),
			path,
		);
		for (const option of verb.options) {
			t.not(option.description, '', `${path} ${option.flags}`);
		}
	}
});

test('has all commands of the contract', async t => {
	const names = new Set(verbsOf(await mailctl()).map(([path]) => path));
	const expected = [
		...['serve', 'init', 'migrate', 'send', 'doctor', 'config show', 'config check', 'secrets rotate'],
		...['create', 'list', 'show', 'update', 'pause', 'resume'].map(verb => `workspace ${verb}`),
		...['create', 'list', 'revoke', 'rotate'].map(verb => `key ${verb}`),
		...['add', 'list', 'show', 'verify', 'rotate-key', 'remove'].map(verb => `domain ${verb}`),
		...['add', 'list', 'verify', 'disable', 'enable', 'remove'].map(verb => `sender ${verb}`),
		...['create', 'list', 'show', 'push', 'pull', 'preview', 'rollback', 'delete'].map(verb => `template ${verb}`),
		...['list', 'show', 'raw', 'resend'].map(verb => `message ${verb}`),
		...['list', 'show', 'update', 'erase'].map(verb => `contact ${verb}`),
		...['add', 'list', 'show', 'remove', 'enable', 'disable', 'deliveries', 'replay', 'test'].map(
			verb => `webhook ${verb}`,
		),
		...['summary', 'list', 'why', 'trace', 'hold', 'release', 'flush', 'drop', 'fail', 'suspend', 'resume'].map(
			verb => `queue ${verb}`,
		),
	];
	t.deepEqual(
		expected.filter(name => !names.has(name)),
		[],
	);
});

test('--help prints to standard output, with an example, and exits with 0', async t => {
	const {text} = await newCli(t);
	t.regex(await text('--help'), /^Usage: mailctl[\s\S]*\n {2}workspace {2,}Workspaces/);
	t.regex(await text('--help'), /\nExample:\n {2}mailctl message list/);
	t.regex(await text('key', '--help'), /\nExample:\n {2}mailctl key create --name app/);
	const help = await text('key', 'create', '--help');
	t.regex(help, /--scope <scope>[\s\S]*--json[\s\S]*Example:\n {2}mailctl key create --name app/);
	t.deepEqual(
		help.split('\n').filter(line => line.length > 80),
		[],
	);
	t.regex(await text('--version'), /^\d+\.\d+\.\d+\n$/);
});

test('an invalid command line exits with 64, suggests a correction, and creates no data folder', async t => {
	const cli = await storelessCli(t);
	const cases: ReadonlyArray<readonly [args: string[], stderr: RegExp]> = [
		[['keey', 'list'], /^mailctl: unknown command 'keey', did you mean key\?\n$/],
		[['key', 'lst'], /^mailctl: unknown command 'lst', did you mean list\?\n$/],
		[['key', 'list', '--jsn'], /^mailctl: unknown option '--jsn', did you mean --json\?\n$/],
		[
			['key', 'create'],
			/^mailctl: required option '--name <name>' not specified, see mailctl key create --help\n$/,
		],
		[['key', 'revoke'], /^mailctl: missing required argument 'id', see mailctl key revoke --help\n$/],
		[['key', 'list', 'x'], /^mailctl: too many arguments[^\n]*, see mailctl key list --help\n$/],
		[['message', 'list', '--limit', '0'], /--limit "0" is not allowed, use a whole number, 1 to 10000/],
		[['message', 'list', '--status', 'gone'], /--status "gone" is not allowed, use accepted, queued/],
		[['message', 'list', '--since', '2026-02-30'], /--since "2026-02-30" is not allowed, use a duration/],
		[
			['key', 'create', '--name', 'x', '--expires', '2026-01-01'],
			/--expires "2026-01-01" is not allowed, use a time in the future/,
		],
		[['key', 'create', '--name', 'x', '--scope', 'all'], /--scope "all" is not allowed, use messages:send/],
		[['key', 'create', '--name', 'x', '--mode', 'prod'], /--mode "prod" is not allowed, use live or test/],
		[['key', 'create', '--name', 'x', '--rate-limit', '5'], /--rate-limit "5" is not allowed/],
		[['key', 'create', '--name', 'a\u202eb'], /--name "a\\u202eb" is not allowed/],
		[['workspace', 'create', '--name', 'x', '--locale', '!'], /--locale "!" is not allowed/],
		[['workspace', 'create', '--name', 'x', '--timezone', '+02:00'], /--timezone "\+02:00" is not allowed/],
	];
	await Promise.all(cases.map(async ([args, stderr]) => refused(t, await cli.run(...args), 64, stderr)));
	t.throws(() => readFileSync(`${cli.folder}/data`), {code: 'ENOENT'});

	for (const args of [[], ['key']]) {
		const {code, stdout, stderr} = await cli.run(...args);
		t.is(code, 64);
		t.is(stdout, '');
		t.regex(stderr, /^Usage: mailctl[\s\S]*\nmailctl: a command is missing, use one of those above\n$/);
	}
});

test('a closed output pipe is not an error', async t => {
	const {folder} = await newCli(t);
	const command = `"${process.execPath}" "${path.resolve('bin/mailctl.js')}" config show --json | true; echo "$?"`;
	const {stdout, stderr} = await promisify(execFile)('bash', ['-c', `set -o pipefail; ${command}`], {cwd: folder});
	t.is(stdout, '0\n');
	t.is(stderr, '');
});
