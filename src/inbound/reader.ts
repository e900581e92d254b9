import type {Worker} from 'node:worker_threads';
import type {BounceRule} from '../mail/bounce-rule.ts';
import type {Clock} from '../mail/clock.ts';
import type {Reading} from '../mail/report.ts';
import {type CpuClock, limitWork, type WorkState} from '../mail/work-limit.ts';
import {type FromReader, progress, type ToReader} from './reader-protocol.ts';

export type ReaderOptions = {
	/** Starts a reader thread that tells its progress in the shared memory. */
	readonly spawn: (shared: SharedArrayBuffer) => Worker;
	/** A mail that takes longer than this has its reader killed, milliseconds of the clock and of the CPU (`limitWork`). */
	readonly limitMs: number;
	readonly clock: Clock;
	readonly cpu: CpuClock;
	readonly onCrash: (reason: string) => void;
	/** A thread that got nothing to read for so long is ended, milliseconds. */
	readonly restMs?: number;
};

/** The mail took its reader down, twice: it is not tried again. */
export class UnreadableError extends Error {}

/** The machine had no time for the mail, or the reader was stopped: that says nothing about it. */
export class UnfinishedError extends Error {}

type Task = {
	readonly mail: Uint8Array;
	readonly resolve: (reading: Reading) => void;
	readonly reject: (error: Error) => void;
	/** It took a reader down and is tried once more, with nobody beside it. */
	alone: boolean;
};

type Reader = {
	readonly worker: Worker;
	readonly shared: Int32Array;
	readonly began: number;
	/** Handed over and not yet answered, in the order in which they are read. */
	held: Task[];
	answered: number;
	seen: {readonly begun: number; readonly state: () => WorkState};
	starved: boolean;
};

const batchSize = 16;
const mostBatchBytes = 1024 * 1024;
const watchMs = 250;
/** A thread that ends sooner than this after its start is not replaced before, milliseconds. */
const restartMs = 1000;
const usualRestMs = 60_000;
const within = (): WorkState => 'within';

/**
 * The thread that reads what comes back: hostile mails are read there, so each has a time limit that is enforced from
 * outside. It is started with the first mail and ended when none comes any more: a thread that does nothing collects no
 * garbage either, and kept 60 MB of the mails that it had read.
 */
export function createReader(options: ReaderOptions) {
	const {restMs = usualRestMs} = options;
	const waiting: Task[] = [];
	let reader: Reader | null = null;
	let restart: NodeJS.Timeout | undefined;
	let idle: NodeJS.Timeout | undefined;
	let watching: NodeJS.Timeout | undefined;
	let stopped = false;

	function start(): void {
		restart = undefined;
		const shared = new SharedArrayBuffer(progress.slots * Int32Array.BYTES_PER_ELEMENT);
		const worker = options.spawn(shared);
		const began = options.clock.monotonic();
		const one: Reader = {
			worker,
			shared: new Int32Array(shared),
			began,
			held: [],
			answered: 0,
			seen: {begun: 0, state: within},
			starved: false,
		};
		reader = one;
		worker.on('message', (message: FromReader) => receive(one, message));
		// An uncaught error (out of memory) is followed by the exit, which is where the reader is replaced.
		worker.on('error', error => options.onCrash(`reader: ${error.message}`));
		worker.on('exit', () => replace(one));
		watching ??= setInterval(watch, watchMs);
		watching.unref();
		feed();
	}

	function receive(one: Reader, {readings}: FromReader): void {
		for (const reading of readings) {
			one.answered++;
			one.held.shift()?.resolve(reading);
		}
		feed();
	}

	/** One batch at a time: the thread that hands over is quick. */
	function feed(): void {
		if (reader === null) {
			if (restart === undefined && !stopped && waiting.length > 0) {
				start();
			}
			return;
		}
		if (reader.held.length > 0) {
			return;
		}
		clearTimeout(idle);
		if (waiting.length === 0) {
			idle = setTimeout(rest, restMs).unref();
			return;
		}
		const tasks = takeBatch();
		reader.held = tasks;
		// Copied, not moved: a mail that takes the reader down is read once more, and so are those beside it.
		reader.worker.postMessage({kind: 'mails', mails: tasks.map(({mail}) => mail)} satisfies ToReader);
	}

	function takeBatch(): Task[] {
		let bytes = 0;
		const end = waiting.findIndex((task, index) => {
			bytes += task.mail.length;
			return index > 0 && (task.alone || waiting[0]?.alone || index === batchSize || bytes > mostBatchBytes);
		});
		return waiting.splice(0, end === -1 ? waiting.length : end);
	}

	function rest(): void {
		void reader?.worker.terminate();
		reader = null;
	}

	function replace(one: Reader): void {
		if (stopped || reader !== one) {
			return;
		}
		reader = null;
		const at = Atomics.load(one.shared, progress.begun) - 1 - one.answered;
		const isReading = Atomics.load(one.shared, progress.reading) === 1;
		// It ended after it had read them and before it told: one of them did that, and alone each shows whether it was he.
		if (!isReading && at >= 0) {
			for (const task of one.held.slice(0, at)) {
				task.alone = true;
			}
		}
		const culprit = isReading || at >= 0 ? one.held[at] : undefined;
		waiting.unshift(...one.held.filter(task => task !== culprit));
		if (culprit && one.starved) {
			culprit.reject(new UnfinishedError('The machine is too busy to read the mail.'));
		} else if (culprit?.alone) {
			culprit.reject(new UnreadableError(`Reading it took longer than ${options.limitMs} ms or too much memory.`));
		} else if (culprit) {
			culprit.alone = true;
			waiting.push(culprit);
		}
		restart = setTimeout(start, Math.max(0, one.began + restartMs - options.clock.monotonic()));
	}

	function watch(): void {
		const one = reader;
		if (one === null) {
			return;
		}
		const begun = Atomics.load(one.shared, progress.begun);
		if (Atomics.load(one.shared, progress.reading) === 0) {
			one.seen = {begun: 0, state: within};
			return;
		}
		if (begun !== one.seen.begun) {
			one.seen = {begun, state: limitWork(options.limitMs, options)};
			return;
		}
		const state = one.seen.state();
		if (state !== 'within') {
			one.seen = {begun, state: within};
			one.starved = state === 'starved';
			options.onCrash(
				`reader: a mail took longer than ${options.limitMs} ms${one.starved ? ', without CPU time' : ''}`,
			);
			void one.worker.terminate();
		}
	}

	return {
		/** Rejects with UnreadableError, or with UnfinishedError where it may be tried again. */
		read: (mail: Uint8Array): Promise<Reading> =>
			new Promise((resolve, reject) => {
				if (stopped) {
					reject(new UnfinishedError('The reader was stopped.'));
					return;
				}
				waiting.push({mail, resolve, reject, alone: false});
				// What one look at the store brought is handed over together.
				if (waiting.length === 1) {
					setImmediate(feed);
				}
			}),
		/** By these rules refusals are judged from now on; a thread that starts later has to be started with them. */
		classifyBy(rules: readonly BounceRule[]): void {
			reader?.worker.postMessage({kind: 'rules', rules} satisfies ToReader);
		},
		async stop(): Promise<void> {
			stopped = true;
			clearTimeout(restart);
			clearTimeout(idle);
			clearInterval(watching);
			const open = [...(reader?.held ?? []), ...waiting.splice(0)];
			for (const task of open) {
				task.reject(new UnfinishedError('The reader was stopped.'));
			}
			await reader?.worker.terminate();
		},
	};
}
