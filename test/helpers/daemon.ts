import {type ChildProcess, execFile, spawn} from 'node:child_process';
import {once} from 'node:events';
import {closeSync, openSync} from 'node:fs';
import {mkdtemp, readFile, rm} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import process from 'node:process';
import {promisify} from 'node:util';
import type {ExecutionContext} from 'ava';
import {waitFor} from './wait.ts';

export type Settings = Readonly<Record<`MAILCTL_${string}`, string>>;

/** The real program on a data folder of its own. */
export type Program = {
	readonly folder: string;
	/** Runs `mailctl … --json` and returns what it printed, parsed. Fails with what it said on stderr. */
	readonly cli: <T>(...args: readonly string[]) => Promise<T>;
	/** The same with the bytes of standard output. */
	readonly cliBytes: (...args: readonly string[]) => Promise<Buffer>;
	/** Starts `mailctl serve` and waits until it is ready. */
	readonly serve: () => Promise<Daemon>;
	/** What all daemons of this folder printed. */
	readonly log: () => Promise<string>;
};

export type Daemon = {
	readonly pid: number;
	/** Where the API is, without a slash at the end. */
	readonly url: string;
	/** From the start of the process until `/readyz` said 200, in milliseconds. */
	readonly readyMs: number;
	/** Sends SIGTERM and returns the exit code. */
	readonly stop: () => Promise<number | null>;
	/** Sends SIGKILL. */
	readonly kill: () => Promise<void>;
};

const program = resolve('bin/mailctl.js');
const readyLimit = 30_000;
const shownLog = 2000;

/** A fresh data folder and the program on it. Whatever still runs after the test is killed; a failed test shows the log. */
export async function prepareProgram(t: ExecutionContext, settings: Settings): Promise<Program> {
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
			MAILCTL_HTTP_LISTEN: '127.0.0.1:0',
			...settings,
		},
	};
	const cliBytes = async (...args: readonly string[]) => {
		const options = {...environment, encoding: 'buffer', maxBuffer: 2 ** 28, timeout: 60_000} as const;
		const {stdout} = await promisify(execFile)(process.execPath, [program, ...args], options).catch(error => {
			throw new Error(`mailctl ${args.join(' ')}: exit ${error.code}, ${error.stderr}`);
		});
		return stdout;
	};

	return {
		folder,
		log,
		cliBytes,
		cli: async (...args) => JSON.parse((await cliBytes(...args, '--json')).toString()),
		async serve() {
			const started = performance.now();
			const output = openSync(logFile, 'a');
			const child = spawn(process.execPath, [program, 'serve'], {...environment, stdio: ['ignore', output, output]});
			closeSync(output);
			const ended = once(child, 'exit');
			t.teardown(() => end(child, ended, 'SIGKILL'));
			const url = await waitFor('the daemon is ready', () => readyUrl(child, folder), readyLimit);
			return {
				pid: child.pid ?? 0,
				url,
				readyMs: performance.now() - started,
				stop: () => end(child, ended, 'SIGTERM'),
				async kill() {
					await end(child, ended, 'SIGKILL');
				},
			};
		},
	};
}

async function end(child: ChildProcess, ended: Promise<unknown>, signal: NodeJS.Signals): Promise<number | null> {
	child.kill(signal);
	await ended;
	return child.exitCode;
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
