import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {createRequire} from 'node:module';
import {resolve} from 'node:path';
import process from 'node:process';
import {createInterface} from 'node:readline';
import type {Scope} from './daemon.ts';

type Said = {readonly stdout: string; readonly stderr: string; readonly code: number};

/** What a command said and how it ended. */
export type Ran = {readonly stdout: Buffer; readonly stderr: string; readonly code: number};

export type CliShell = {
	/** Runs one command of the CLI to its end, whatever that is. It has no standard input. */
	readonly run: (...args: readonly string[]) => Promise<Ran>;
	/**
	 * Runs one command of the CLI; resolves with the bytes of its standard output, throws with what it said if it
	 * failed.
	 */
	readonly bytes: (...args: readonly string[]) => Promise<Buffer>;
	/** The same with `--json`, parsed. */
	readonly json: <T>(...args: readonly string[]) => Promise<T>;
};

/** The CLI in one process, one command after the other: a tenth of what a process each would cost. */
export function startCliShell(scope: Scope, {cwd, env}: {cwd: string; env: NodeJS.ProcessEnv}): CliShell {
	const child = spawn(process.execPath, [resolve('dist/test/helpers/cli-shell.js'), 'serve'], {
		cwd,
		env,
		stdio: ['pipe', 'pipe', 'inherit'],
	});
	const ended = once(child, 'exit');
	const lines = createInterface({input: child.stdout})[Symbol.asyncIterator]();
	let last: Promise<unknown> = Promise.resolve();
	scope.teardown(async () => {
		// A command that ran in it may have kept the others from ending it.
		child.kill('SIGKILL');
		await ended;
	});

	async function run(...args: readonly string[]): Promise<Ran> {
		const turn = last.then(async () => {
			child.stdin.write(`${JSON.stringify(args)}\n`);
			return await lines.next();
		});
		last = turn.catch(() => undefined);
		const {value} = await turn;
		if (value === undefined) {
			throw new Error(`mailctl ${args.join(' ')}: its process ended`);
		}
		const {stdout, stderr, code} = JSON.parse(value) as Said;
		return {stdout: Buffer.from(stdout, 'base64'), stderr, code};
	}

	async function bytes(...args: readonly string[]): Promise<Buffer> {
		const {stdout, stderr, code} = await run(...args);
		if (code !== 0) {
			throw new Error(`mailctl ${args.join(' ')}: exit ${code}, ${stderr}`);
		}
		return stdout;
	}

	return {run, bytes, json: async (...args) => JSON.parse((await bytes(...args, '--json')).toString())};
}

async function serve(): Promise<void> {
	const root = resolve(import.meta.dirname, '../../..');
	const {newest, load} = createRequire(import.meta.url)(`${root}/bin/program.js`) as {
		newest: (dist: string) => string;
		load: (file: string) => Promise<{main: (argv: readonly string[]) => Promise<void>}>;
	};
	const {main} = await load(newest(`${root}/dist`));
	const answer = process.stdout.write.bind(process.stdout);
	process.stdout.setMaxListeners(0);
	process.stderr.setMaxListeners(0);
	// A refused `serve` leaves its signal handlers behind.
	process.setMaxListeners(0);
	for await (const line of createInterface({input: process.stdin})) {
		const written = {stdout: [] as Buffer[], stderr: [] as Buffer[]};
		const keep = (stream: 'stdout' | 'stderr') =>
			((chunk: string | Uint8Array, ...rest: unknown[]) => {
				written[stream].push(Buffer.from(chunk as string));
				(rest.find(each => typeof each === 'function') as (() => void) | undefined)?.();
				return true;
			}) as typeof process.stdout.write;
		process.stdout.write = keep('stdout');
		process.stderr.write = keep('stderr');
		process.exitCode = 0;
		await main([process.execPath, 'mailctl', ...(JSON.parse(line) as string[])]);
		const said: Said = {
			stdout: Buffer.concat(written.stdout).toString('base64'),
			stderr: Buffer.concat(written.stderr).toString(),
			code: process.exitCode,
		};
		process.exitCode = 0;
		answer(`${JSON.stringify(said)}\n`);
	}
}

if (process.argv[2] === 'serve' && import.meta.filename === process.argv[1]) {
	await serve();
}
