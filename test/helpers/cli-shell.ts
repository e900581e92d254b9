import {spawn} from 'node:child_process';
import {createRequire} from 'node:module';
import type {Socket} from 'node:net';
import {resolve} from 'node:path';
import process from 'node:process';
import {createInterface} from 'node:readline';

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

/** Where a command runs: its folder and its whole environment. */
export type Place = {readonly cwd: string; readonly env: NodeJS.ProcessEnv};

type Asked = Place & {readonly args: readonly string[]};

/** The process that runs the commands of all tests of this one, once there was a command. */
let shared: {readonly run: (asked: Asked) => Promise<Said>} | undefined;

/**
 * The CLI in a place. All commands of a test process share another one, and run one after the other: to load the
 * program costs as much as ten commands.
 */
export function startCliShell({cwd, env}: Place): CliShell {
	async function run(...args: readonly string[]): Promise<Ran> {
		shared ??= startShared();
		const {stdout, stderr, code} = await shared.run({args, cwd, env});
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

/** Keeps its starter from ending only while a command runs. */
function startShared(): NonNullable<typeof shared> {
	const child = spawn(process.execPath, [import.meta.filename, 'serve'], {
		env: {PATH: process.env.PATH},
		stdio: ['pipe', 'pipe', 'inherit'],
	});
	const [input, output] = [child.stdin, child.stdout] as Socket[] as [Socket, Socket];
	const lines = createInterface({input: output})[Symbol.asyncIterator]();
	let last: Promise<unknown> = Promise.resolve();
	child.unref();
	output.unref();
	input.unref();
	process.once('beforeExit', () => {
		child.ref();
		child.kill('SIGKILL');
	});

	return {
		async run(asked) {
			const turn = last.then(async () => {
				output.ref();
				input.write(`${JSON.stringify(asked)}\n`);
				const line = await lines.next();
				output.unref();
				return line;
			});
			last = turn.catch(() => undefined);
			const {value} = await turn;
			if (value === undefined) {
				throw new Error(`mailctl ${asked.args.join(' ')}: its process ended`);
			}
			return JSON.parse(value) as Said;
		},
	};
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
		const {args, cwd, env} = JSON.parse(line) as Asked;
		process.chdir(cwd);
		for (const name of Object.keys(process.env)) {
			delete process.env[name];
		}
		Object.assign(process.env, env);
		await main([process.execPath, 'mailctl', ...args]);
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
