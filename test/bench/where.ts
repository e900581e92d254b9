import {type ChildProcess, spawn} from 'node:child_process';
import {once} from 'node:events';
import {readFileSync, rmSync} from 'node:fs';
import {SourceMap} from 'node:module';
import path from 'node:path';
import {createInterface} from 'node:readline';
import {setTimeout as wait} from 'node:timers/promises';
import type {Bench} from '../../src/cli/bench/measures.ts';

// Where the CPU time of a mail goes: Linux's `perf` samples every thread of the daemon, and each sample counts for one
// step of one thread. V8's own profiler charges what a system call preempts to that call, and does not see garbage,
// compiler and kernel.

/**
 * Of Node.js: the daemon writes the names of its compiled functions to /tmp/perf-PID.map, and interpreted ones have
 * frames.
 */
export const namedFunctions = [
	'--perf-basic-prof',
	'--interpreted-frames-native-stack',
	// Code that moves or goes would leave a name that is no longer true.
	'--no-compact-code-space',
	'--no-flush-bytecode',
];

const samplesPerS = 499;
/** perf opens its counters for all threads. */
const openMs = 500;

/** One line of a stack, the innermost first. */
type Frame = {readonly symbol: string; readonly object: string};

/** What the runtime does by itself, by the names of its functions. The first that matches a frame counts. */
const ofRuntime: ReadonlyArray<readonly [step: string, symbol: RegExp]> = [
	['clone between threads', /Value(Des|S)erializer|node::worker::Message/],
	[
		'garbage',
		/v8::internal::(Scaveng|MarkCompact|Mark(ing|er)|ConcurrentMark|Sweep|Heap::|Evacuat|MinorMark|IncrementalMark|MinorGC|ArrayBufferSweep)/,
	],
	[
		'compiler',
		/v8::internal::(compiler|maglev|baseline|Compiler|interpreter::Bytecode|parsing|TurboAssembler|Optimiz)/,
	],
	['SQLite', /^sqlite3|node_sqlite3::|^wal[A-Z]/],
	['sign', /^(__)?(bn_|rsa_|RSA_|ossl_|fe_|EVP_)/],
];

/** Files and folders of `src` whose functions are a step. What others do counts for the step that called them. */
export const ofPath: Readonly<Record<string, string>> = {
	api: 'accept',
	send: 'accept',
	queue: 'claim and schedule',
	'queue/renderers': 'hand over',
	'queue/smtp-workers': 'hand over',
	'daemon/threads': 'hand over',
	'kit/thread-calls': 'hand over',
	compose: 'compose',
	'compose/render': 'render',
	'compose/dkim': 'sign',
	deliver: 'SMTP',
	outcome: 'outcome',
	'resources/webhooks': 'outcome',
	store: 'rows',
};

/** Returns the step of a file: that of its own name, or of the nearest folder that has one. */
export function stepOfFile(file: string): string | undefined {
	let name = /\/src\/(.+)\.[jt]s$/.exec(file)?.[1] ?? '';
	while (name !== '' && ofPath[name] === undefined) {
		name = name.slice(0, Math.max(0, name.lastIndexOf('/')));
	}
	return ofPath[name];
}

/** What tells a thread from others: a function that only it has. The first counts. */
const ofThread: ReadonlyArray<readonly [thread: string, frame: RegExp]> = [
	['renderer', /threads\/renderer\.js/],
	['SMTP worker', /threads\/smtp-worker\.js/],
	['writer', /threads\/store-writer\.js/],
	['V8', /PlatformWorkerThread|WorkerThreadsTaskRunner|v8::internal::(compiler|ConcurrentMarking|Sweeper)/],
	['SQLite', /node_sqlite3::|^sqlite3/],
];

/** Samples the daemon while mail goes through and prints what it finds, for each of so many messages. */
export function whereTimeGoes(messages: number, keep: string): NonNullable<Bench['beside']> {
	return async ({pid}) => {
		const data = path.join(keep, 'perf.data');
		const perf = spawn(
			'perf',
			['record', '-q', '-e', 'cpu-clock', '-F', String(samplesPerS), '-g', '-o', data, '-p', String(pid)],
			{stdio: ['ignore', 'ignore', 'inherit']},
		);
		await started(perf);
		return async () => {
			perf.kill('SIGINT');
			await once(perf, 'exit');
			print(await count(data, pid), 1e6 / samplesPerS / messages);
			rmSync(`/tmp/perf-${pid}.map`, {force: true});
		};
	};
}

async function started(perf: ChildProcess): Promise<void> {
	const failed = once(perf, 'error').then(([error]) => {
		throw new Error(`perf cannot run (Debian: apt install linux-perf): ${error}`);
	});
	await Promise.race([failed, once(perf, 'spawn').then(() => wait(openMs))]);
}

/** Samples by thread and step. */
type Counts = Map<string, Map<string, number>>;

async function count(data: string, pid: number): Promise<Counts> {
	const script = spawn('perf', ['script', '-i', data, '-F', 'tid,ip,sym,dso', '--no-inline'], {
		stdio: ['ignore', 'pipe', 'ignore'],
	});
	const byTid = new Map<string, Map<string, number>>();
	const places = new Map<string, number>();
	const sources = new Sources();
	let tid = '';
	let frames: Frame[] = [];
	const add = () => {
		if (frames.length === 0) {
			return;
		}
		const steps = byTid.get(tid) ?? new Map<string, number>();
		const step = stepOf(frames, sources);
		steps.set(step, (steps.get(step) ?? 0) + 1);
		byTid.set(tid, steps);
		const place = ofThread.findIndex(([, pattern]) => frames.some(({symbol}) => pattern.test(symbol)));
		places.set(tid, Math.min(places.get(tid) ?? ofThread.length, place === -1 ? ofThread.length : place));
		frames = [];
	};
	for await (const line of createInterface({input: script.stdout})) {
		const head = /^\s*(\d+)\s*$/.exec(line);
		const frame = /^\s+[0-9a-f]+ (.*) \((.*)\)$/.exec(line);
		if (head?.[1]) {
			add();
			tid = head[1];
		} else if (frame) {
			frames.push({symbol: frame[1] as string, object: frame[2] as string});
		}
	}
	add();
	const counts: Counts = new Map();
	for (const [id, steps] of byTid) {
		const thread = id === String(pid) ? 'main' : (ofThread[places.get(id) ?? ofThread.length]?.[0] ?? 'other');
		const sum = counts.get(thread) ?? new Map<string, number>();
		for (const [step, samples] of steps) {
			sum.set(step, (sum.get(step) ?? 0) + samples);
		}
		counts.set(thread, sum);
	}
	return counts;
}

function stepOf(frames: readonly Frame[], sources: Sources): string {
	if (frames[0]?.object.startsWith('[kernel')) {
		return 'kernel';
	}
	for (const {symbol} of frames) {
		const runtime = ofRuntime.find(([, pattern]) => pattern.test(symbol));
		if (runtime) {
			return runtime[0];
		}
		const step = symbol.includes('file://') ? sources.stepOf(symbol) : undefined;
		if (step) {
			return step;
		}
	}
	return frames.some(({symbol}) => symbol.includes('node:_http') || symbol.includes('node:net'))
		? 'sockets of Node.js'
		: 'other';
}

/** The places of the bundle's functions in `src`. */
class Sources {
	readonly #maps = new Map<string, SourceMap | null>();
	readonly #steps = new Map<string, string | undefined>();

	/** For `JS:*name file:///…/main.js:1:2345`. */
	stepOf(symbol: string): string | undefined {
		if (!this.#steps.has(symbol)) {
			this.#steps.set(symbol, this.#look(symbol));
		}
		return this.#steps.get(symbol);
	}

	#look(symbol: string): string | undefined {
		const place = /file:\/\/(\S+?\.c?js):(\d+):(\d+)/.exec(symbol);
		if (!place) {
			return undefined;
		}
		const [, file = '', line, column] = place;
		const entry = this.#mapOf(file)?.findEntry(Number(line) - 1, Number(column) - 1);
		const source = entry && 'originalSource' in entry ? entry.originalSource : file;
		return stepOfFile(source);
	}

	#mapOf(file: string): SourceMap | null {
		if (!this.#maps.has(file)) {
			this.#maps.set(file, readMap(file));
		}
		return this.#maps.get(file) ?? null;
	}
}

function readMap(file: string): SourceMap | null {
	try {
		return new SourceMap(JSON.parse(readFileSync(`${file}.map`, 'utf8')));
	} catch {
		return null; // A file of tsc's: its path says the folder.
	}
}

/** A table of microseconds for one message. */
function print(counts: Counts, usEach: number): void {
	const threads = [...counts.keys()].toSorted((a, b) => total(counts.get(b)) - total(counts.get(a)));
	const steps = new Set([...counts.values()].flatMap(sum => [...sum.keys()]));
	const allOf = (step: string) => [...counts.values()].reduce((sum, of) => sum + (of.get(step) ?? 0), 0);
	const row = (name: string, samples: readonly number[]) =>
		console.log(
			name.padEnd(22) +
				samples.map(number => (number === 0 ? '' : String(Math.round(number * usEach))).padStart(12)).join(''),
		);
	console.log(`\n${'µs of CPU a message'.padEnd(22)}${[...threads, 'all'].map(name => name.padStart(12)).join('')}`);
	for (const step of [...steps].toSorted((a, b) => allOf(b) - allOf(a))) {
		row(step, [...threads.map(thread => counts.get(thread)?.get(step) ?? 0), allOf(step)]);
	}
	row('all', [
		...threads.map(thread => total(counts.get(thread))),
		[...steps].reduce((sum, step) => sum + allOf(step), 0),
	]);
}

const total = (of: ReadonlyMap<string, number> = new Map()) =>
	[...of.values()].reduce((sum, samples) => sum + samples, 0);
