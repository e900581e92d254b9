import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {existsSync, readFileSync} from 'node:fs';
import {join, resolve} from 'node:path';
import process from 'node:process';
import test from 'ava';
import {liveDaemon} from '../../src/store/data-folder/daemon-file.ts';
import {isFolderLocked} from '../../src/store/engine/sqlite.ts';
import {type Program, prepareProgram} from '../helpers/daemon.ts';
import {call} from '../helpers/shop.ts';
import {startOnTerminal} from '../helpers/terminal.ts';
import {waitFor} from '../helpers/wait.ts';

const serve = [process.execPath, resolve('bin/mailctl.js'), 'serve'];
const sender = 'hello@example.com';
/** Many times the duration of a shutdown, plus the drain limit. */
const endLimit = 60_000;

async function ready({folder}: Program) {
	return await waitFor('the daemon is ready', async () => {
		const daemon = liveDaemon(join(folder, 'data'));
		const answer = daemon && (await fetch(`${daemon.http}/readyz`).catch(() => null));
		return answer?.ok ? {pid: daemon?.pid ?? 0, url: `${daemon?.http}`} : null;
	});
}

async function isReleased({folder}: Program): Promise<boolean> {
	const held = await isFolderLocked(join(folder, 'data/daemon.lock'));
	return !held && !existsSync(join(folder, 'data/daemon.json'));
}

/** Sends messages whose log lines exceed the buffer of a pipe several times. */
async function sendMuch(program: Program, url: string): Promise<void> {
	const {key} = await program.cli<{key: string}>('key', 'create', '--name', 'much');
	const [{id}] = await program.cli<[{id: string}]>('template', 'list');
	const messages = Array.from({length: 100}, (_, n) => ({from: sender, to: `user-${n}@a.example`, templateId: id}));
	for (let round = 0; round < 4; round++) {
		const {status, body} = await call(`${url}/v1/messages/batch`, key, {messages});
		if (status !== 200 && status !== 202) {
			throw new Error(`${status} ${JSON.stringify(body)}`);
		}
	}
	await waitFor('all is delivered', async () => {
		const lines = (await (await fetch(`${url}/metrics`)).text()).split('\n');
		const delivered = lines.find(line => line.startsWith('mailctl_outcomes_total{kind="delivered"}'));
		return Number(delivered?.split(' ')[1]) >= 400;
	});
}

for (const [how, command, cwd] of [
	['mailctl serve', serve, undefined],
	['npm start', ['npm', 'start', '--ignore-scripts'], process.cwd()],
] as const) {
	test.serial(`${how}: closing its terminal stops the daemon gracefully`, async t => {
		const program = await prepareProgram(t, {});
		const terminal = startOnTerminal(t, program, command, {owner: true, ...(cwd && {cwd})});
		const daemon = await ready(program);
		terminal.close();
		await waitFor('the process is gone', () => !isAlive(daemon.pid), endLimit);
		t.true(await isReleased(program));
		if (how === 'mailctl serve') {
			t.is(await terminal.ended, 0);
		}
	});
}

test.serial('a daemon that outlives its terminal continues until a signal stops it', async t => {
	const program = await prepareProgram(t, {});
	for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
		const terminal = startOnTerminal(t, program, serve, {owner: false});
		const {pid, url} = await ready(program);
		terminal.close();
		await sendMuch(program, url);
		t.is((await fetch(`${url}/readyz`)).status, 200);
		process.kill(pid, signal);
		t.is(await terminal.ended, 0, signal);
		t.true(await isReleased(program));
	}
});

test.serial('Ctrl-C drains before exit, even through npm', async t => {
	const program = await prepareProgram(t, {});
	const terminal = startOnTerminal(t, program, ['npm', 'start', '--ignore-scripts'], {
		owner: true,
		cwd: process.cwd(),
		settings: {MAILCTL_LOG_FORMAT: 'json'},
	});
	const daemon = await ready(program);
	// What a terminal does at Ctrl-C: the whole foreground group gets it.
	const [, , , group] = readFileSync(`/proc/${daemon.pid}/stat`, 'utf8')
		.replace(/\(.*\)/, '')
		.split(/ +/);
	process.kill(-Number(group), 'SIGINT');
	await waitFor('the process is gone', () => !isAlive(daemon.pid), endLimit);
	await terminal.ended;
	t.regex(terminal.shown(), /"event":"stopped","drained":true/);
});

for (const reader of ['reads nothing', 'is gone'] as const) {
	test.serial(`keeps sending in bounded memory with a log reader that ${reader}, and stops on SIGTERM`, async t => {
		const program = await prepareProgram(t, {});
		const child = spawn(serve[0] as string, serve.slice(1), {
			...program.environment,
			stdio: ['ignore', 'pipe', 'pipe'],
		});
		t.teardown(() => void child.kill('SIGKILL'));
		const ended = once(child, 'exit');
		const {url} = await ready(program);
		if (reader === 'is gone') {
			child.stdout.destroy();
			child.stderr.destroy();
		}
		await sendMuch(program, url);
		t.is((await fetch(`${url}/readyz`)).status, 200);
		child.kill('SIGTERM');
		const [code] = await ended;
		t.is(code, 0);
		t.true(await isReleased(program));
	});
}

test.serial('a command whose output pipe is closed prints no error', async t => {
	const program = await prepareProgram(t, {});
	t.is((await program.run('init')).code, 0);
	for (let n = 0; n < 3; n++) {
		const shell = spawn('sh', ['-c', '"$@" | head -c 1', 'sh', ...serve.slice(0, 2), 'config', 'show'], {
			...program.environment,
			stdio: ['ignore', 'pipe', 'pipe'],
		});
		let [output, errors] = ['', ''];
		shell.stdout.on('data', chunk => {
			output += chunk;
		});
		shell.stderr.on('data', chunk => {
			errors += chunk;
		});
		t.deepEqual(await once(shell, 'close'), [0, null]);
		t.is(output.length, 1);
		t.is(errors, '');
	}
});

function isAlive(pid: number): boolean {
	try {
		process.kill(pid, 0);
		return true;
	} catch {
		return false;
	}
}
