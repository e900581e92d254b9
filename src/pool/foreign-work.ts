import {once} from 'node:events';
import {setTimeout as delay} from 'node:timers/promises';
import type {TransferListItem, Worker} from 'node:worker_threads';
import type {Clock} from '../kit/clock.ts';
import {type CpuClock, limitWork, type WorkState} from '../kit/work-limit.ts';

export type ForeignWorkOptions<Job, Result, Order, Message> = {
	/** For people: what the threads are called, and what a job is. */
	readonly name: string;
	readonly noun: string;
	readonly count: number;
	/** Starts a thread that writes its progress into the shared memory. */
	readonly spawn: (shared: SharedArrayBuffer) => Worker;
	/**
	 * A job that takes longer than this has its thread killed, milliseconds of the clock and of the CPU (`limitWork`).
	 */
	readonly limitMs: number;
	readonly clock: Clock;
	readonly cpu: CpuClock;
	/** Jobs handed over at once, and those that a thread holds at most. */
	readonly batchSize: number;
	readonly maxHeld: number;
	/** What a thread holds may be so large together, octets; one job alone may be larger. */
	readonly maxBytes: number;
	readonly bytesOf: (job: Job) => number;
	/**
	 * Jobs of one kind are likely to take as long: where one takes its thread down, those that wait end with this
	 * result.
	 */
	readonly alike?: {readonly kindOf: (job: Job) => string; readonly result: Result};
	/**
	 * Threads start with the first job and end after this long without one, milliseconds; absent: they are always
	 * there.
	 */
	readonly restMs?: number | undefined;
	/** What a thread sends in addition to results. */
	readonly receive?: (message: Message, answer: (order: Order) => void) => void;
	readonly observer: ThreadObserver;
};

/**
 * The result of a job. `spent`: it took its thread down, twice. `starved`: the machine had no time for it. `stopped`:
 * all were.
 */
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

type Member<Job, Result, Order, Message> = {
	readonly thread: Thread<Order | ToWorker<Job>, FromWorker<Result> | Message>;
	shared: Int32Array;
	/** Handed over and not yet answered, in the order in which they are done. */
	held: Array<Task<Job, Result>>;
	/** How many it has answered since its start. */
	answered: number;
	seen: Seen;
	starved: boolean;
};

const watchMs = 250;
/** A thread that holds more than this part of a batch is busy. */
const busyShare = 0.25;
const atNone: Seen = {begun: 0, state: () => 'within'};

/**
 * Threads for work on what strangers wrote: each job has a time limit that is enforced from outside. The one that took
 * its thread down is done once more alone, then given up; its neighbours start over. One that got no CPU time is
 * deferred.
 */
export class ForeignWork<Job, Result, Order = never, Message = never> {
	readonly #options: ForeignWorkOptions<Job, Result, Order, Message>;
	readonly #members: ReadonlyArray<Member<Job, Result, Order, Message>>;
	readonly #waiting: Array<Task<Job, Result>> = [];
	#resting: NodeJS.Timeout | undefined;
	#watching: NodeJS.Timeout | undefined;
	#isStopped = false;

	constructor(options: ForeignWorkOptions<Job, Result, Order, Message>) {
		this.#options = options;
		this.#members = Array.from({length: options.count}, () => this.#newMember());
		if (options.restMs === undefined) {
			this.#start();
		}
	}

	do(job: Job): Promise<WorkEnd<Result>> {
		return new Promise(resolve => {
			if (this.#isStopped) {
				resolve({ok: false, why: 'stopped'});
				return;
			}
			this.#waiting.push({job, bytes: this.#options.bytesOf(job), resolve, suspected: false});
			// What comes together is handed over together.
			if (this.#waiting.length === 1) {
				setImmediate(() => this.#feed());
			}
		});
	}

	/** Sends it to all threads; one that starts later has to be started with it. */
	tell(order: Order): void {
		for (const {thread} of this.#members) {
			thread.post(order);
		}
	}

	async stop(): Promise<void> {
		this.#isStopped = true;
		clearTimeout(this.#resting);
		clearInterval(this.#watching);
		for (const task of [...this.#members.flatMap(({held}) => held), ...this.#waiting.splice(0)]) {
			task.resolve({ok: false, why: 'stopped'});
		}
		await Promise.all(this.#members.map(({thread}) => thread.stop()));
	}

	#newMember(): Member<Job, Result, Order, Message> {
		const {name, clock, observer, spawn} = this.#options;
		const member: Member<Job, Result, Order, Message> = {
			thread: new Thread(
				name,
				{
					clock,
					observer,
					spawn() {
						const memory = new SharedArrayBuffer(progress.slots * Int32Array.BYTES_PER_ELEMENT);
						Object.assign(member, {
							shared: new Int32Array(memory),
							answered: 0,
							seen: atNone,
							starved: false,
						});
						return spawn(memory);
					},
				},
				{
					started: () => this.#feed(),
					receive: message => this.#receive(member, message),
					ended: () => this.#takeBack(member),
				},
			),
			shared: new Int32Array(progress.slots),
			held: [],
			answered: 0,
			seen: atNone,
			starved: false,
		};
		return member;
	}

	#receive(member: Member<Job, Result, Order, Message>, message: FromWorker<Result> | Message): void {
		if (!isDone(message)) {
			this.#options.receive?.(message, order => member.thread.post(order));
			return;
		}
		for (const result of message.results) {
			member.answered++;
			member.held.shift()?.resolve({ok: true, result});
		}
		this.#feed();
	}

	/** Gives work to the thread that holds the least, so that all hold the same, in as few messages as possible. */
	#feed(): void {
		const {restMs} = this.#options;
		clearTimeout(this.#resting);
		if (this.#waiting.length > 0 || restMs === undefined) {
			this.#start();
		}
		const running = this.#members.filter(({thread}) => thread.isRunning);
		while (this.#waiting.length > 0 && running.length > 0) {
			const member = running.reduce((least, one) => (one.held.length < least.held.length ? one : least));
			const all = running.reduce((sum, {held}) => sum + held.length, this.#waiting.length);
			const tasks = this.#takeFor(member, Math.ceil(all / running.length) - member.held.length);
			if (tasks.length === 0) {
				return;
			}
			member.held.push(...tasks);
			// Copied, not moved: a job that takes its thread down is done once more, and so are those beside it.
			member.thread.post({kind: 'work', jobs: tasks.map(({job}) => job)});
		}
		if (restMs !== undefined && this.#members.every(({held}) => held.length === 0)) {
			this.#resting = setTimeout(() => this.#rest(), restMs).unref();
		}
	}

	#start(): void {
		this.#watching ??= setInterval(() => this.#watch(), watchMs).unref();
		for (const {thread} of this.#members) {
			thread.start();
		}
	}

	#rest(): void {
		clearInterval(this.#watching);
		this.#watching = undefined;
		for (const {thread} of this.#members) {
			thread.rest();
		}
	}

	#takeFor({held}: Member<Job, Result, Order, Message>, share: number): Array<Task<Job, Result>> {
		const {batchSize, maxHeld, maxBytes} = this.#options;
		const most = Math.min(batchSize, share, maxHeld - held.length);
		// A busy thread waits for a full batch: small batches would stay small, and each costs a message in both
		// directions.
		if (held.length > batchSize * busyShare && most < batchSize) {
			return [];
		}
		let bytes = held.reduce((sum, task) => sum + task.bytes, 0);
		let before = held[0];
		let count = 0;
		for (const task of this.#waiting) {
			bytes += task.bytes;
			if (count >= most || (before && (before.suspected || task.suspected || bytes > maxBytes))) {
				break;
			}
			before = task;
			count++;
		}
		return this.#waiting.splice(0, count);
	}

	#takeBack(member: Member<Job, Result, Order, Message>): void {
		if (this.#isStopped) {
			return;
		}
		const {held, shared, answered, starved} = member;
		const at = Atomics.load(shared, progress.begun) - 1 - answered;
		const isWorking = Atomics.load(shared, progress.working) === 1;
		const culprit = isWorking || at >= 0 ? held[at] : undefined;
		const wasSuspected = culprit?.suspected === true;
		// It ended after these jobs and before it sent their results. One of them did that; done alone, each shows
		// whether it did.
		for (const task of isWorking ? [] : held.slice(0, Math.max(0, at))) {
			task.suspected = true;
		}
		member.held = [];
		this.#waiting.unshift(...held.filter(task => task !== culprit));
		if (culprit && starved) {
			culprit.resolve({ok: false, why: 'starved'});
		} else if (culprit && wasSuspected) {
			culprit.resolve({ok: false, why: 'spent'});
		} else if (culprit) {
			culprit.suspected = true;
			this.#giveBack(culprit.job);
			this.#waiting.push(culprit);
		}
		this.#feed();
	}

	#giveBack(like: Job): void {
		const {alike} = this.#options;
		for (const task of alike ? this.#waiting.splice(0) : []) {
			if (alike && !task.suspected && alike.kindOf(task.job) === alike.kindOf(like)) {
				task.resolve({ok: true, result: alike.result});
			} else {
				this.#waiting.push(task);
			}
		}
	}

	#watch(): void {
		const {name, noun, limitMs, observer} = this.#options;
		for (const member of this.#members) {
			const begun = Atomics.load(member.shared, progress.begun);
			if (!member.thread.isRunning || Atomics.load(member.shared, progress.working) === 0) {
				member.seen = atNone;
				continue;
			}
			if (begun !== member.seen.begun) {
				member.seen = {begun, state: limitWork(limitMs, this.#options)};
				continue;
			}
			const state = member.seen.state();
			if (state !== 'within') {
				member.seen = {begun, state: atNone.state};
				member.starved = state === 'starved';
				observer.workerEnded(
					`${name}: ${noun} took longer than ${limitMs} ms${member.starved ? ', without CPU time' : ''}`,
				);
				member.thread.kill();
			}
		}
	}
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

/** Learns of crashes; `reason` is for people. */
export type ThreadObserver = {readonly workerEnded: (reason: string) => void};

export type ThreadOptions = {
	readonly spawn: () => Worker;
	readonly clock: Pick<Clock, 'monotonic'>;
	readonly observer: ThreadObserver;
};

/** Uses a thread. */
type ThreadUser<Message> = {
	/** A thread has started. */
	started?(): void;
	receive(message: Message): void;
	/** The thread ended by itself, or was killed: what it held is lost. */
	ended(): void;
};

/** A thread that ends sooner than this after its start is not replaced before, milliseconds. */
const restartMs = 1000;

/** A worker thread that is replaced when it ends. */
export class Thread<Order, Message> {
	/** For people. */
	readonly #name: string;
	readonly #options: ThreadOptions;
	readonly #user: ThreadUser<Message>;
	#worker: Worker | null = null;
	#restart: NodeJS.Timeout | undefined;
	#isStopped = false;

	constructor(name: string, options: ThreadOptions, user: ThreadUser<Message>) {
		this.#name = name;
		this.#options = options;
		this.#user = user;
	}

	get isRunning(): boolean {
		return this.#worker !== null;
	}

	/** Starts it, unless it runs or is about to. */
	start(): void {
		if (this.#worker === null && this.#restart === undefined && !this.#isStopped) {
			this.#run();
		}
	}

	/** Lost where it does not run. */
	post(order: Order, transfer: readonly TransferListItem[] = []): void {
		this.#worker?.postMessage(order, transfer);
	}

	/** Ends it, so that it is replaced. */
	kill(): void {
		void this.#worker?.terminate();
	}

	/** Ends it until the next `start`. */
	rest(): void {
		this.kill();
		this.#worker = null;
	}

	/** Ends it for good; with `withinMs` it may end by itself within this time, milliseconds. */
	async stop(withinMs?: number): Promise<void> {
		this.#isStopped = true;
		clearTimeout(this.#restart);
		if (this.#worker !== null && withinMs !== undefined) {
			await Promise.race([once(this.#worker, 'exit'), delay(withinMs, undefined, {ref: false})]);
		}
		await this.#worker?.terminate();
	}

	#run(): void {
		const {spawn, clock, observer} = this.#options;
		this.#restart = undefined;
		const began = clock.monotonic();
		const worker = spawn();
		this.#worker = worker;
		worker.on('message', (message: Message) => this.#worker === worker && this.#user.receive(message));
		// An uncaught error (out of memory) is followed by the exit, which is where the thread is replaced.
		worker.on('error', error => observer.workerEnded(`${this.#name}: ${error.message}`));
		worker.on('exit', () => {
			if (this.#worker === worker) {
				this.#worker = null;
				if (!this.#isStopped) {
					this.#restart = setTimeout(() => this.#run(), Math.max(0, began + restartMs - clock.monotonic()));
				}
				this.#user.ended();
			}
		});
		this.#user.started?.();
	}
}
