import type {Worker} from 'node:worker_threads';
import type {Clock} from '../kit/clock.ts';
import {type CpuClock, limitWork, type WorkState} from '../kit/work-limit.ts';
import {keepThread, type Thread} from './thread.ts';

export type ForeignWorkOptions<Job, Result, Order, Message> = {
	/** For people: what the threads are called, and what a job is. */
	readonly name: string;
	readonly noun: string;
	readonly count: number;
	/** Starts a thread that writes its progress into the shared memory. */
	readonly spawn: (shared: SharedArrayBuffer) => Worker;
	/** A job that takes longer than this has its thread killed, milliseconds of the clock and of the CPU (`limitWork`). */
	readonly limitMs: number;
	readonly clock: Clock;
	readonly cpu: CpuClock;
	/** Jobs handed over at once, and those that a thread holds at most. */
	readonly batchSize: number;
	readonly mostHeld: number;
	/** What a thread holds may be so large together, octets; one job alone may be larger. */
	readonly mostBytes: number;
	readonly bytesOf: (job: Job) => number;
	/** Jobs of one kind are likely to take as long: where one takes its thread down, those that wait end with this result. */
	readonly alike?: {readonly kindOf: (job: Job) => string; readonly result: Result};
	/** Threads start with the first job and end after this long without one, milliseconds; absent: they are always there. */
	readonly restMs?: number | undefined;
	/** What a thread sends in addition to results. */
	readonly onMessage?: (message: Message, answer: (order: Order) => void) => void;
	readonly onCrash: (reason: string) => void;
};

/** The result of a job. `spent`: it took its thread down, twice. `starved`: the machine had no time for it. `stopped`: all were. */
type WorkEnd<Result> =
	| {readonly ok: true; readonly result: Result}
	| {readonly ok: false; readonly why: 'spent' | 'starved' | 'stopped'};

type Task<Job, Result> = {
	readonly job: Job;
	readonly bytes: number;
	readonly resolve: (end: WorkEnd<Result>) => void;
	/** It may have taken a thread down: it is done once more, with nothing beside it. */
	suspected: boolean;
};

/** The job that a thread was last seen at, and how much of its time is used since. */
type Seen = {readonly begun: number; readonly state: () => WorkState};

type Member<Job, Result, Order> = {
	readonly thread: Thread<Order | ToWorker<Job>>;
	shared: Int32Array;
	/** Handed over and not yet answered, in the order in which they are done. */
	held: Array<Task<Job, Result>>;
	/** How many it has answered since its start. */
	answered: number;
	seen: Seen;
	starved: boolean;
};

const watchMs = 250;
const atNone: Seen = {begun: 0, state: () => 'within'};

/**
 * Threads for work on what strangers wrote: each job has a time limit that is enforced from outside. The one that took its
 * thread down is done once more alone, then given up; its neighbours start over. One that got no CPU time is deferred.
 */
export function createForeignWork<Job, Result, Order = never, Message = never>(
	options: ForeignWorkOptions<Job, Result, Order, Message>,
) {
	const {name, noun, limitMs, batchSize, mostHeld, mostBytes, restMs, onCrash} = options;
	const waiting: Array<Task<Job, Result>> = [];
	const members = Array.from({length: options.count}, newMember);
	let resting: NodeJS.Timeout | undefined;
	let watching: NodeJS.Timeout | undefined;
	let stopped = false;

	function newMember(): Member<Job, Result, Order> {
		const member: Member<Job, Result, Order> = {
			thread: keepThread<Order | ToWorker<Job>, FromWorker<Result> | Message>({
				name,
				clock: options.clock,
				spawn() {
					const memory = new SharedArrayBuffer(progress.slots * Int32Array.BYTES_PER_ELEMENT);
					Object.assign(member, {shared: new Int32Array(memory), answered: 0, seen: atNone, starved: false});
					return options.spawn(memory);
				},
				onStart: feed,
				onMessage: message => receive(member, message),
				onEnd: () => takeBack(member),
				onCrash,
			}),
			shared: new Int32Array(progress.slots),
			held: [],
			answered: 0,
			seen: atNone,
			starved: false,
		};
		return member;
	}

	function receive(member: Member<Job, Result, Order>, message: FromWorker<Result> | Message): void {
		if (!isDone(message)) {
			options.onMessage?.(message, member.thread.post);
			return;
		}
		for (const result of message.results) {
			member.answered++;
			member.held.shift()?.resolve({ok: true, result});
		}
		feed();
	}

	/** Gives work to the thread that holds least, so that few jobs spread over all. */
	function feed(): void {
		clearTimeout(resting);
		if (waiting.length > 0 || restMs === undefined) {
			start();
		}
		const running = members.filter(({thread}) => thread.isRunning());
		while (waiting.length > 0 && running.length > 0) {
			const member = running.reduce((least, one) => (one.held.length < least.held.length ? one : least));
			const tasks = takeFor(member, Math.ceil(waiting.length / running.length));
			if (tasks.length === 0) {
				return;
			}
			member.held.push(...tasks);
			// Copied, not moved: a job that takes its thread down is done once more, and so are those beside it.
			member.thread.post({kind: 'work', jobs: tasks.map(({job}) => job)});
		}
		if (restMs !== undefined && members.every(({held}) => held.length === 0)) {
			resting = setTimeout(rest, restMs).unref();
		}
	}

	function start(): void {
		watching ??= setInterval(watch, watchMs).unref();
		for (const {thread} of members) {
			thread.start();
		}
	}

	function rest(): void {
		clearInterval(watching);
		watching = undefined;
		for (const {thread} of members) {
			thread.rest();
		}
	}

	function takeFor({held}: Member<Job, Result, Order>, share: number): Array<Task<Job, Result>> {
		const most = Math.min(batchSize, share, mostHeld - held.length);
		let bytes = held.reduce((sum, task) => sum + task.bytes, 0);
		let before = held[0];
		let count = 0;
		for (const task of waiting) {
			bytes += task.bytes;
			if (count >= most || (before && (before.suspected || task.suspected || bytes > mostBytes))) {
				break;
			}
			before = task;
			count++;
		}
		return waiting.splice(0, count);
	}

	function takeBack(member: Member<Job, Result, Order>): void {
		if (stopped) {
			return;
		}
		const {held, shared, answered, starved} = member;
		const at = Atomics.load(shared, progress.begun) - 1 - answered;
		const isWorking = Atomics.load(shared, progress.working) === 1;
		const culprit = isWorking || at >= 0 ? held[at] : undefined;
		const wasSuspected = culprit?.suspected === true;
		// It ended after these jobs and before it sent their results. One of them did that; done alone, each shows whether it did.
		for (const task of isWorking ? [] : held.slice(0, Math.max(0, at))) {
			task.suspected = true;
		}
		member.held = [];
		waiting.unshift(...held.filter(task => task !== culprit));
		if (culprit && starved) {
			culprit.resolve({ok: false, why: 'starved'});
		} else if (culprit && wasSuspected) {
			culprit.resolve({ok: false, why: 'spent'});
		} else if (culprit) {
			culprit.suspected = true;
			giveBack(culprit.job);
			waiting.push(culprit);
		}
		feed();
	}

	function giveBack(like: Job): void {
		const {alike} = options;
		for (const task of alike ? waiting.splice(0) : []) {
			if (alike && !task.suspected && alike.kindOf(task.job) === alike.kindOf(like)) {
				task.resolve({ok: true, result: alike.result});
			} else {
				waiting.push(task);
			}
		}
	}

	function watch(): void {
		for (const member of members) {
			const begun = Atomics.load(member.shared, progress.begun);
			if (!member.thread.isRunning() || Atomics.load(member.shared, progress.working) === 0) {
				member.seen = atNone;
				continue;
			}
			if (begun !== member.seen.begun) {
				member.seen = {begun, state: limitWork(limitMs, options)};
				continue;
			}
			const state = member.seen.state();
			if (state !== 'within') {
				member.seen = {begun, state: atNone.state};
				member.starved = state === 'starved';
				onCrash(`${name}: ${noun} took longer than ${limitMs} ms${member.starved ? ', without CPU time' : ''}`);
				member.thread.kill();
			}
		}
	}

	if (restMs === undefined) {
		start();
	}

	return {
		do: (job: Job): Promise<WorkEnd<Result>> =>
			new Promise(resolve => {
				if (stopped) {
					resolve({ok: false, why: 'stopped'});
					return;
				}
				waiting.push({job, bytes: options.bytesOf(job), resolve, suspected: false});
				// What comes together is handed over together.
				if (waiting.length === 1) {
					setImmediate(feed);
				}
			}),

		/** Sends it to all threads; one that starts later has to be started with it. */
		tell(order: Order): void {
			for (const {thread} of members) {
				thread.post(order);
			}
		},

		async stop(): Promise<void> {
			stopped = true;
			clearTimeout(resting);
			clearInterval(watching);
			for (const task of [...members.flatMap(({held}) => held), ...waiting.splice(0)]) {
				task.resolve({ok: false, why: 'stopped'});
			}
			await Promise.all(members.map(({thread}) => thread.stop()));
		},
	};
}

function isDone<Result, Message>(message: FromWorker<Result> | Message): message is FromWorker<Result> {
	return (message as FromWorker<Result>).kind === 'done';
}

/** Jobs for a thread, in the order in which it does them. */
export type ToWorker<Job> = {readonly kind: 'work'; readonly jobs: readonly Job[]};

/** Their results, in the same order; several messages may answer one. */
export type FromWorker<Result> = {readonly kind: 'done'; readonly results: readonly Result[]};

/** Slots of the memory shared with a thread: how many jobs it has begun since its start, and whether it is at one. */
export const progress = {begun: 0, working: 1, slots: 2} as const;
