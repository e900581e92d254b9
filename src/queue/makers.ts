import type {Worker} from 'node:worker_threads';
import type {Clock} from '../mail/clock.ts';
import {type CpuClock, limitWork, type WorkState} from '../mail/work-limit.ts';
import {type FromMaker, type MakeJob, type MakeResult, progress, type ToMaker} from './maker-protocol.ts';

export type MakersOptions = {
	readonly count: number;
	/** Starts a maker thread that tells its progress in the shared memory. */
	readonly spawn: (shared: SharedArrayBuffer) => Worker;
	/** A template version or a set of DKIM keys, when a maker does not have it yet. */
	readonly resource: (name: string) => Promise<unknown>;
	/** Whether a resource could not be had for now: then it is asked for again. Any other error puts its messages off. */
	readonly isUnavailable: (error: unknown) => boolean;
	/** A resource of this job cannot be used until somebody repairs it. */
	readonly onResourceFault: (job: MakeJob, message: string) => void;
	/** A message that takes longer than this has its maker killed, milliseconds of the clock and of the CPU (`limitWork`). */
	readonly limitMs: number;
	readonly clock: Clock;
	readonly cpu: CpuClock;
	readonly onCrash: (reason: string) => void;
};

type Task = {
	readonly job: MakeJob;
	readonly resolve: (result: MakeResult) => void;
	/** Its copy in the maker takes much memory: a maker holds one at a time. */
	readonly isLarge: boolean;
	/** It may have taken a maker down. */
	suspected: boolean;
};

type Maker = {
	worker: Worker;
	shared: Int32Array;
	/** Handed over and not yet answered, in the order in which the maker does them. */
	held: Task[];
	/** How many jobs it has answered since its start. */
	answered: number;
	readonly began: number;
	seen: Seen;
	starved: boolean;
};

/** The job that a maker was seen at, and how its time stands since. */
type Seen = {readonly started: number; readonly state: () => WorkState};

const noJob: Seen = {started: 0, state: () => 'within'};

const batchSize = 8;
/** Attachments that make a job large, octets. */
const largeJob = 512 * 1024;
/** One batch to work on, one to go on with at once. */
const mostHeld = 2 * batchSize;
const watchMs = 250;
const resourceRetryMs = 1000;
/** A thread that ends sooner than this after its start is not replaced before, milliseconds. */
const restartMs = 1000;
/** Mail that the machine has no time for is put off for so long, milliseconds. */
const starvedRestMs = 60_000;

/**
 * The maker threads: they render foreign templates, so each message has a time limit that is enforced from outside. The
 * message that took its maker down is tried once more alone; then it fails with `render_limit`. Its neighbours start over.
 * A message that got no CPU time is put off instead.
 */
export function createMakers(options: MakersOptions) {
	const waiting: Task[] = [];
	const makers: Maker[] = [];
	let stopped = false;

	function start(): void {
		if (stopped) {
			return;
		}
		const shared = new SharedArrayBuffer(progress.slots * Int32Array.BYTES_PER_ELEMENT);
		const worker = options.spawn(shared);
		const maker: Maker = {
			worker,
			shared: new Int32Array(shared),
			held: [],
			answered: 0,
			began: options.clock.monotonic(),
			seen: noJob,
			starved: false,
		};
		makers.push(maker);
		worker.on('message', (message: FromMaker) => receive(maker, message));
		// An uncaught error (out of memory) is followed by the exit, which is where the maker is replaced.
		worker.on('error', error => options.onCrash(`maker: ${error.message}`));
		worker.on('exit', () => replace(maker));
		feed();
	}

	function receive(maker: Maker, message: FromMaker): void {
		if (message.kind === 'need') {
			void provide(maker, message.name);
			return;
		}
		for (const result of message.results) {
			maker.answered++;
			const task = maker.held.shift();
			if (task && !result.ok && result.unmade.ours) {
				options.onResourceFault(task.job, result.unmade.message);
			}
			task?.resolve(result);
		}
		feed();
	}

	async function provide(maker: Maker, name: string): Promise<void> {
		let answer: ToMaker;
		try {
			answer = {kind: 'resource', name, value: await options.resource(name)};
		} catch (error) {
			if (options.isUnavailable(error)) {
				setTimeout(provide, resourceRetryMs, maker, name).unref();
				return;
			}
			answer = {kind: 'resource', name, value: null, fault: error instanceof Error ? error.message : String(error)};
		}
		maker.worker.postMessage(answer);
	}

	/** Gives work to the maker that holds least, so that few messages spread over all. */
	function feed(): void {
		while (waiting.length > 0 && makers.length > 0) {
			const maker = makers.reduce((least, one) => (one.held.length < least.held.length ? one : least));
			const tasks = takeFor(maker);
			if (tasks.length === 0) {
				return;
			}
			maker.held.push(...tasks);
			const jobs = tasks.map(task => task.job);
			// Copied, not moved: a job that takes its maker down is done once more.
			maker.worker.postMessage({kind: 'make', jobs} satisfies ToMaker);
		}
	}

	function takeFor(maker: Maker): Task[] {
		const share = Math.ceil(waiting.length / makers.length);
		const most = Math.min(batchSize, share, mostHeld - maker.held.length);
		if (waiting[0] && isAlone(waiting[0])) {
			return maker.held.length === 0 ? waiting.splice(0, 1) : [];
		}
		const end = waiting.findIndex(isAlone);
		return maker.held[0] && isAlone(maker.held[0]) ? [] : waiting.splice(0, end === -1 ? most : Math.min(most, end));
	}

	function replace(maker: Maker): void {
		if (stopped) {
			return;
		}
		const at = Atomics.load(maker.shared, progress.started) - 1 - maker.answered;
		const working = Atomics.load(maker.shared, progress.working) === 1;
		const culprit = working ? maker.held[at] : undefined;
		const others = maker.held.filter(task => task !== culprit);
		if (culprit && maker.starved) {
			const message = 'The machine is too busy to render the mail.';
			culprit.resolve({ok: false, unmade: {reason: 'render_limit', message, waitMs: starvedRestMs}});
		} else if (culprit?.suspected) {
			const message = `Rendering took longer than ${options.limitMs} ms or too much memory.`;
			culprit.resolve({ok: false, unmade: {reason: 'render_limit', message}});
		} else if (culprit) {
			culprit.suspected = true;
			waiting.push(culprit);
		}
		waiting.unshift(...others);
		makers.splice(makers.indexOf(maker), 1);
		setTimeout(start, Math.max(0, maker.began + restartMs - options.clock.monotonic())).unref();
		feed();
	}

	function watch(): void {
		for (const maker of makers) {
			const started = Atomics.load(maker.shared, progress.started);
			if (Atomics.load(maker.shared, progress.working) === 0) {
				maker.seen = noJob;
				continue;
			}
			if (started !== maker.seen.started) {
				maker.seen = {started, state: limitWork(options.limitMs, options)};
				continue;
			}
			const state = maker.seen.state();
			if (state !== 'within') {
				maker.seen = {started, state: noJob.state};
				maker.starved = state === 'starved';
				options.onCrash(
					`maker: a message took longer than ${options.limitMs} ms${maker.starved ? ', without CPU time' : ''}`,
				);
				void maker.worker.terminate();
			}
		}
	}

	for (let index = 0; index < options.count; index++) {
		start();
	}
	const timer = setInterval(watch, watchMs);

	return {
		make: (job: MakeJob): Promise<MakeResult> =>
			new Promise(resolve => {
				waiting.push({job, resolve, isLarge: isLarge(job), suspected: false});
				// What one claim brought is handed out together.
				if (waiting.length === 1) {
					setImmediate(feed);
				}
			}),
		async stop(): Promise<void> {
			stopped = true;
			clearInterval(timer);
			await Promise.all(makers.map(maker => maker.worker.terminate()));
		},
	};
}

function isLarge({attachments}: MakeJob): boolean {
	return attachments.reduce((sum, {content}) => sum + content.length, 0) > largeJob;
}

const isAlone = ({isLarge, suspected}: Task): boolean => isLarge || suspected;
