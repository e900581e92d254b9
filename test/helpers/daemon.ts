import {type ChildProcess, execFile, spawn} from 'node:child_process';
import {once} from 'node:events';
import {closeSync, openSync} from 'node:fs';
import {mkdtemp, readFile, rm} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import process from 'node:process';
import {text} from 'node:stream/consumers';
import {promisify} from 'node:util';
import type {ExecutionContext} from 'ava';
import {startCliShell} from './cli-shell.ts';
import {admit} from './program-slots.ts';
import {waitFor} from './wait.ts';

/** What the program needs of a test; a hook, which has no teardown, brings its own. */
export type Scope = Pick<ExecutionContext, 'teardown' | 'passed'> & {readonly log: (...lines: unknown[]) => void};

export type Settings = Readonly<Record<string, string>>;

export type Ended = {readonly code: number | null; readonly stdout: string; readonly stderr: string};

/** The real program on a data folder of its own. */
export type Program = {
	readonly folder: string;
	/** In which commands and daemons run. */
	readonly environment: {readonly cwd: string; readonly env: NodeJS.ProcessEnv};
	/**
	 * Runs `mailctl … --json` and returns what it printed, parsed. Fails with what it said on stderr. Commands of the
	 * built program share a process, one after the other.
	 */
	readonly cli: <T>(...args: readonly string[]) => Promise<T>;
	/** The same with the bytes of standard output. */
	readonly cliBytes: (...args: readonly string[]) => Promise<Buffer>;
	/** Runs `mailctl …` in a process of its own to its end, whatever that is. */
	readonly run: (...args: readonly string[]) => Promise<Ended>;
	/** Starts `mailctl serve`, with these settings besides, and waits until it is ready. */
	readonly serve: (more?: Settings) => Promise<Daemon>;
	/** What all daemons of this folder printed. */
	readonly log: () => Promise<string>;
};

export type Daemon = {
	readonly pid: number;
	/** Where the API is, without a slash at the end. */
	readonly url: string;
	/** From the start of the process until `/readyz` said 200, in milliseconds. */
	readonly readyMs: number;
	readonly signal: (name: NodeJS.Signals) => void;
	/** Resolves with the exit code when it has ended. */
	readonly ended: Promise<number | null>;
	/** Sends SIGTERM and returns the exit code. */
	readonly stop: () => Promise<number | null>;
	/** Sends SIGKILL. */
	readonly kill: () => Promise<void>;
};

/** Of all programs that tests start; a thread more that makes mails would cost each of them 0.1 s. */
export const testSettings: Settings = {MAILCTL_HTTP_LISTEN: '127.0.0.1:0', MAILCTL_MAKERS: '1'};

const built = resolve('bin/mailctl.js');
const readyLimit = 300_000;
const shownLog = 2000;

/**
 * A fresh data folder and the program on it. Whatever still runs after the test is killed; a failed test shows the log.
 */
export async function prepareProgram(
	t: Scope,
	settings: Settings,
	program = built,
	runLimit = 180_000,
): Promise<Program> {
	await admit(t);
	const folder = await mkdtemp(join(tmpdir(), 'mailctl-flow-'));
	t.teardown(() => rm(folder, {recursive: true, force: true, maxRetries: 10}));
	const logFile = join(folder, 'daemon.log');
	const log = () => readFile(logFile, 'utf8').catch(() => '');
	t.teardown(async () => {
		if (!t.passed) {
			t.log((await log()).slice(-shownLog));
		}
	});

	// The folder is also the working directory: no .env of the developer gets in.
	const environment = {
		cwd: folder,
		env: {
			PATH: process.env.PATH,
			MAILCTL_DATA_DIR: join(folder, 'data'),
			...testSettings,
			...settings,
		},
	};
	const shell = startCliShell(environment);
	const cliBytes: Program['cliBytes'] = async (...args) => {
		if (program === built) {
			return await shell.bytes(...args);
		}
		const options = {...environment, encoding: 'buffer', maxBuffer: 2 ** 28, timeout: runLimit} as const;
		const {stdout} = await promisify(execFile)(process.execPath, [program, ...args], options).catch(error => {
			throw new Error(`mailctl ${args.join(' ')}: exit ${error.code}, ${error.stderr}`);
		});
		return stdout;
	};

	return {
		folder,
		environment,
		log,
		cliBytes,
		async run(...args) {
			const child = spawn(process.execPath, [program, ...args], {
				...environment,
				stdio: ['ignore', 'pipe', 'pipe'],
			});
			const timer = setTimeout(() => child.kill('SIGKILL'), runLimit);
			const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
			clearTimeout(timer);
			return {code: child.exitCode, stdout, stderr};
		},
		cli: async (...args) => JSON.parse((await cliBytes(...args, '--json')).toString()),
		async serve(more = {}) {
			const started = performance.now();
			const output = openSync(logFile, 'a');
			const child = spawn(process.execPath, [program, 'serve'], {
				cwd: folder,
				env: {...environment.env, ...more},
				stdio: ['ignore', output, output],
			});
			closeSync(output);
			const ended = once(child, 'exit').then(() => child.exitCode);
			t.teardown(() => end(child, ended, 'SIGKILL'));
			const url = await waitFor('the daemon is ready', () => readyUrl(child, folder), readyLimit);
			return {
				pid: child.pid ?? 0,
				url,
				readyMs: performance.now() - started,
				signal: name => void child.kill(name),
				ended,
				stop: () => end(child, ended, 'SIGTERM'),
				async kill() {
					await end(child, ended, 'SIGKILL');
				},
			};
		},
	};
}

async function end<Code>(child: ChildProcess, ended: Promise<Code>, signal: NodeJS.Signals): Promise<Code> {
	child.kill(signal);
	return await ended;
}

/** The daemon's address once it is ready: daemon.json may still be that of a daemon that was killed. */
async function readyUrl(child: ChildProcess, folder: string): Promise<string | null> {
	if (child.exitCode !== null) {
		throw new Error(`The daemon ended with exit code ${child.exitCode}`);
	}

	const file = await readFile(join(folder, 'data/daemon.json'), 'utf8').catch(() => '');
	const address = parseAddress(file, child.pid);
	if (!address) {
		return null;
	}

	const ready = await fetch(`${address}/readyz`).catch(() => null);
	return ready?.status === 200 ? address : null;
}

function parseAddress(file: string, pid: number | undefined): string | null {
	try {
		const {pid: writer, http} = JSON.parse(file);
		return writer === pid ? `http://${String(http).replace(/^http:\/\//, '')}` : null;
	} catch {
		// Not there, or just being written.
		return null;
	}
}

/** What a first mail needs. */
export type Welcome = {readonly key: string; readonly templateId: string; readonly from: string};

/**
 * The key that the first start made. Template and sender are the sample and, where mail leaves the machine, one that is
 * added here, as the first start makes none.
 */
export async function welcomeOf({folder, cli}: Program): Promise<Welcome> {
	const text = await readFile(join(folder, 'data/first-keys.txt'), 'utf8');
	const find = (pattern: RegExp) => pattern.exec(text)?.[0];
	const from = 'hello@example.com';
	const workspace = ['--workspace', 'default'];
	if (find(/\bhello@example\.com\b/) === undefined) {
		const senders = await cli<Array<{address: string}>>('sender', 'list', ...workspace);
		if (!senders.some(({address}) => address === from)) {
			await cli('sender', 'add', from, '--verified', ...workspace);
		}
	}
	const templateId = find(/\btpl_[0-9a-z]{26}\b/) ?? (await sampleTemplate(cli, workspace));
	return {key: find(/\bkey_live_[0-9A-Za-z]{38}\b/) ?? '', templateId, from};
}

async function sampleTemplate(cli: Program['cli'], workspace: readonly string[]): Promise<string> {
	const templates = await cli<Array<{id: string; name: string}>>('template', 'list', ...workspace);
	return templates.find(({name}) => name === 'sample')?.id ?? '';
}

/** The log's records of one event, of all daemons of the folder. */
export async function eventsOf(program: Program, event: string): Promise<Array<Record<string, unknown>>> {
	// The last line may still be incomplete.
	const lines = (await program.log()).split('\n').slice(0, -1);
	return lines
		.filter(line => line.startsWith('{') && line.endsWith('}'))
		.map(line => JSON.parse(line) as Record<string, unknown>)
		.filter(record => record.event === event);
}

/** The same, once there is one: what shows elsewhere is logged a moment later. */
export async function logged(program: Program, event: string): Promise<Array<Record<string, unknown>>> {
	return await waitFor(`the log has ${event}`, async () => {
		const events = await eventsOf(program, event);
		return events.length > 0 && events;
	});
}
