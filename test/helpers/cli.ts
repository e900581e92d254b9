import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {readFileSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import {createInterface} from 'node:readline';
import {buffer} from 'node:stream/consumers';
import type {ExecutionContext} from 'ava';
import type {CliCommand} from '../../src/cli/program.ts';
import {readDaemonFile} from '../../src/store/data-folder/daemon-file.ts';
import {openStore, type Store} from '../../src/store/store.ts';
import {startCliShell} from './cli-shell.ts';
import {type Scope, testSettings} from './daemon.ts';
import {makeDataFolder, temporaryFolder} from './databases.ts';
import {admit} from './program-slots.ts';
import {waitFor} from './wait.ts';

export type CliResult = {readonly code: number | null; readonly stdout: string; readonly stderr: string};

/** `mailctl` in a folder of its own, where its data folder is too. */
export type Cli = {
	readonly folder: string;
	/** Runs a command to its end, whatever that is. All commands share a process but those of `spawn` and `runWith`. */
	readonly run: (...args: readonly string[]) => Promise<CliResult>;
	/** As `run`, in a process of its own: for what a process does at its end. */
	readonly spawn: (...args: readonly string[]) => Promise<CliResult>;
	/** As `spawn`, with something on standard input. */
	readonly runWith: (input: string, ...args: readonly string[]) => Promise<CliResult>;
	/** Runs with `--json`, which must succeed, and parses the one document. */
	readonly json: <Result>(...args: readonly string[]) => Promise<Result>;
	/** Runs for people, which must succeed: standard output at 80 columns. */
	readonly text: (...args: readonly string[]) => Promise<string>;
	/** A command that runs on, with `--json`: each line that it prints, parsed; ended by SIGINT, then its exit code. */
	readonly follow: <Line>(...args: readonly string[]) => Following<Line>;
	/** Starts the daemon and waits until it listens; it is stopped after the test. */
	readonly serve: () => Promise<Serving>;
	/** The store that the commands use, once one of them made it. */
	readonly store: () => Promise<Store>;
};

export type Following<Line> = {readonly lines: readonly Line[]; readonly stop: () => Promise<number | null>};

export type Serving = {
	readonly url: string;
	/** What it has said on standard error so far. */
	readonly stderr: () => string;
	/** Sends SIGTERM; the exit code. */
	readonly stop: () => Promise<number | null>;
};

const program = path.resolve('bin/mailctl.js');

/** With an empty store, as `mailctl migrate` leaves it. */
export async function newCli(t: Scope, settings: Readonly<Record<string, string>> = {}): Promise<Cli> {
	const cli = await storelessCli(t, settings);
	await makeDataFolder(path.join(cli.folder, 'data'));
	return cli;
}

/** Without a data folder. */
export async function storelessCli(t: Scope, settings: Readonly<Record<string, string>> = {}): Promise<Cli> {
	await admit(t);
	const folder = await temporaryFolder(t);
	const env = {PATH: process.env.PATH, COLUMNS: '80', ...testSettings, ...settings};
	const runWith: Cli['runWith'] = async (input, ...args) => {
		const child = spawn(process.execPath, [program, ...args], {cwd: folder, env, timeout: 180_000});
		child.stdin.on('error', () => undefined); // A command that is refused may end before it has read.
		child.stdin.end(input);
		const [stdout, stderr] = await Promise.all([buffer(child.stdout), buffer(child.stderr), once(child, 'close')]);
		return {code: child.exitCode, stdout: stdout.toString(), stderr: stderr.toString()};
	};
	const shell = startCliShell({cwd: folder, env});
	const run: Cli['run'] = async (...args) => {
		const {code, stdout, stderr} = await shell.run(...args);
		return {code, stdout: stdout.toString(), stderr};
	};
	const good = async (...args: readonly string[]) => {
		const {code, stdout, stderr} = await run(...args);
		if (code !== 0 || stderr !== '') {
			throw new Error(`mailctl ${args.join(' ')}: exit ${code}, ${stderr}`);
		}
		return stdout;
	};
	return {
		folder,
		run,
		spawn: async (...args) => await runWith('', ...args),
		runWith,
		text: good,
		json: async (...args) => JSON.parse(await good(...args, '--json')),
		follow: (...args) => follow(t, args, {cwd: folder, env}),
		serve: async () => await serve(t, folder, env),
		async store() {
			const store = await openStore({file: path.join(folder, 'data/mailctl.db')});
			t.teardown(() => store.close());
			return store;
		},
	};
}

function follow<Line>(
	t: Scope,
	args: readonly string[],
	options: {readonly cwd: string; readonly env: NodeJS.ProcessEnv},
): Following<Line> {
	const child = spawn(process.execPath, [program, ...args, '--json'], {
		...options,
		stdio: ['ignore', 'pipe', 'inherit'],
	});
	const ended = once(child, 'close');
	const lines: Line[] = [];
	createInterface(child.stdout).on('line', line => lines.push(JSON.parse(line)));
	const stop = async () => {
		child.kill('SIGINT');
		await ended;
		return child.exitCode;
	};
	t.teardown(stop);
	return {lines, stop};
}

async function serve(t: Scope, folder: string, env: NodeJS.ProcessEnv): Promise<Serving> {
	const child = spawn(process.execPath, [program, 'serve'], {cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe']});
	const ended = once(child, 'close');
	const stop = async () => {
		child.kill('SIGTERM');
		await ended;
		return child.exitCode;
	};
	t.teardown(stop);
	let stderr = '';
	child.stderr.on('data', (chunk: Buffer) => {
		stderr += chunk.toString();
	});
	for await (const line of createInterface(child.stdout)) {
		const {event, http} = JSON.parse(line) as {event: string; http: string};
		if (event === 'listening') {
			child.stdout.resume();
			await waitFor('daemon.json', () => readDaemonFile(path.join(folder, 'data'))?.pid === child.pid);
			return {url: http, stderr: () => stderr, stop};
		}
	}
	throw new Error(`The daemon ended: ${stderr}`);
}

/** Every verb below a command, with its whole name: `key list`. */
export function verbsOf(
	command: CliCommand,
	path: readonly string[] = [],
): Array<readonly [path: string, verb: CliCommand]> {
	return command.commands.flatMap(each => {
		const here = [...path, each.name()];
		return each.commands.length > 0 ? verbsOf(each, here) : [[here.join(' '), each] as const];
	});
}

/** A refusal: nothing on standard output, one line (or several) of ours on standard error. */
export function refused(t: ExecutionContext, result: CliResult, code: number, stderr: RegExp): void {
	t.is(result.code, code, result.stderr);
	t.is(result.stdout, '');
	t.regex(result.stderr, stderr);
	t.regex(result.stderr, /^(mailctl: [^\n]+\n)+$/);
}

/**
 * Compares with test/fixtures/cli/<name>.txt; ids, times and secrets are masked at their width. UPDATE_GOLDEN=1 writes
 * it.
 */
export function golden(t: ExecutionContext, name: string, text: string): void {
	const masked = text
		.replace(/\b([a-z]{3}|ws)_[0-9a-hjkmnp-tv-z]{26}\b/g, (_, prefix) => `${prefix}_${'0'.repeat(26)}`)
		// As much of an id as tells it from others: how much is chance.
		.replace(/\b([a-z]{3}|ws)_[0-9][0-9a-hjkmnp-tv-z]{7,24}(?=\s)/g, (_, prefix) => `${prefix}_${'0'.repeat(12)}`)
		.replace(/\b(key_(?:live|test)_)[0-9A-Za-z]{4}(?:[0-9A-Za-z]{34})?/g, (all, start) =>
			start.padEnd(all.length, 'x'),
		)
		.replace(/\bwhsec_[\w-]{43}/g, all => 'whsec_'.padEnd(all.length, 'x'))
		.replace(/\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?(\.\d{3})?/g, all => all.replace(/\d/g, '9'))
		.replace(/\b\d\d-\d\d \d\d:\d\d\b/g, '99-99 99:99')
		.replace(/=[0-9a-f]{40}\b/g, `=${'0'.repeat(40)}`)
		.replace(/p=[A-Za-z0-9+/=]{40,}/g, all => 'p='.padEnd(all.length, 'x'));
	const file = `test/fixtures/cli/${name}.txt`;
	if (process.env.UPDATE_GOLDEN) {
		writeFileSync(file, masked);
	}
	t.is(masked, readFileSync(file, 'utf8'));
}
