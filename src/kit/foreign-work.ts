import {once} from 'node:events';
import {setTimeout as delay} from 'node:timers/promises';
import type {TransferListItem, Worker} from 'node:worker_threads';
import type {Clock} from './clock.ts';
import {type CpuClock, limitWork, type WorkState} from './work-limit.ts';

export type ForeignWorkOptions<Job, Result, Order, Message> = {
	/** What log messages call the threads and a job. */
	readonly name: string;
	readonly noun: string;
	readonly count: number;
	/** Starts a thread that reports its progress in the shared memory. */
	readonly spawn: (shared: SharedArrayBuffer) => Worker;
	/** How long a job may take before its thread is killed, in milliseconds of wall-clock or CPU time (`limitWork`). */
	readonly limitMs: number;
	readonly clock: Clock;
	readonly cpu: CpuClock;
	/** How many jobs are sent to a thread at once, and how many it may hold. */
	readonly batchSize: number;
	readonly maxHeld: number;
	/** How many octets a thread may hold in all. A single job may be larger. */
	readonly maxBytes: number;
	readonly bytesOf: (job: Job) => number;
	/** Jobs of one kind probably take equally long. If one kills its thread, the waiting ones end with this result. */
	readonly alike?: {readonly kindOf: (job: Job) => string; readonly result: Result};
	/** Threads exit after this long without a job, in milliseconds. If absent, they run until `stop`. */
	readonly restMs?: number | undefined;
	/** Receives what a thread sends besides results. */
	readonly receive?: (message: Message, respond: (order: Order) => void) => void;
	readonly observer: ThreadObserver;
};

/**
 * The result of a job. `spent`: it killed its thread twice. `starved`: the machine had no time for it. `stopped`: the
 * threads were stopped.
 */
type WorkEnd<Result> =
	| {readonly ok: true; readonly result: Result}
	| {readonly ok: false; readonly why: 'spent' | 'starved' | 'stopped'};

type Task<Job, Result> = {
	readonly job: Job;
	readonly bytes: number;
	readonly resolve: (end: WorkEnd<Result>) => void;
	/** Whether it may have killed a thread, so that it runs once more, alone. */
	isSuspected: boolean;
};

/** The job at which a thread was last observed, and how much of its time is used since. */
type Observation = {readonly begun: number; readonly state: () => WorkState};

type Member<Job, Result, Order, Message> = {
	readonly thread: Thread<Order | ToWorker<Job>, FromWorker<Result> | Message>;
	shared: Int32Array;
	/** Jobs that were sent and have no result yet, in the order in which they run. */
	held: Array<Task<Job, Result>>;
	/** How many results the thread has returned since its start. */
	answered: number;
	observed: Observation;
	isStarved: boolean;
};

const watchMs = 250;
/** A thread that holds more than this part of a batch is busy. */
const busyShare = 0.25;
const noObservation: Observation = {begun: 0, state: () => 'within'};

/**
 * Threads for work on untrusted input. The first starts with the first job, and one more whenever those that run have
 * a full batch each. Each job has limits on time and memory, enforced from outside the thread. A job that killed its
 * thread runs once more, alone, before it is given up; the jobs beside it start over. A job that got no CPU time ends
 * as `starved`. Relies on workers that report their progress in shared memory. Never looks inside a job or its result.
 */
export class ForeignWork<Job, Result, Order = never, Message = never> {
	readonly #options: ForeignWorkOptions<Job, Result, Order, Message>;
	readonly #members: ReadonlyArray<Member<Job, Result, Order, Message>>;
	readonly #waiting: Array<Task<Job, Result>> = [];
	#idleTimer: NodeJS.Timeout | undefined;
	#watchTimer: NodeJS.Timeout | undefined;
	#isStopped = false;

	constructor(options: ForeignWorkOptions<Job, Result, Order, Message>) {
		this.#options = options;
		this.#members = Array.from({length: options.count}, () => this.#newMember());
	}

	do(job: Job): Promise<WorkEnd<Result>> {
		return new Promise(resolve => {
			if (this.#isStopped) {
				resolve({ok: false, why: 'stopped'});
				return;
			}
			this.#waiting.push({job, bytes: this.#options.bytesOf(job), resolve, isSuspected: false});
			// Jobs that arrive together are sent together.
			if (this.#waiting.length === 1) {
				setImmediate(() => this.#dispatch());
			}
		});
	}

	/** Starts a thread, so that a job that follows soon finds it running. */
	prepare(): void {
		if (this.#watchTimer === undefined && !this.#isStopped) {
			this.#start(1);
		}
	}

	/** Sends an order to all running threads. A thread that starts later must get it at its start. */
	tell(order: Order): void {
		for (const {thread} of this.#members) {
			thread.post(order);
		}
	}

	async stop(): Promise<void> {
		this.#isStopped = true;
		clearTimeout(this.#idleTimer);
		clearInterval(this.#watchTimer);
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
							observed: noObservation,
							isStarved: false,
						});
						return spawn(memory);
					},
				},
				{
					started: () => this.#dispatch(),
					receive: message => this.#receive(member, message),
					ended: () => this.#reclaim(member),
				},
			),
			shared: new Int32Array(progress.slots),
			held: [],
			answered: 0,
			observed: noObservation,
			isStarved: false,
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
		this.#dispatch();
	}

	/** Sends jobs to the thread that holds the fewest, to balance the threads with as few messages as possible. */
	#dispatch(): void {
		const {restMs} = this.#options;
		clearTimeout(this.#idleTimer);
		if (this.#waiting.length > 0) {
			this.#start(this.#countNeeded());
		}
		const running = this.#members.filter(({thread}) => thread.isRunning);
		while (this.#waiting.length > 0 && running.length > 0) {
			const member = running.reduce((best, next) => (next.held.length < best.held.length ? next : best));
			const jobCount = running.reduce((sum, {held}) => sum + held.length, this.#waiting.length);
			const tasks = this.#takeBatch(member, Math.ceil(jobCount / running.length) - member.held.length);
			if (tasks.length === 0) {
				return;
			}
			member.held.push(...tasks);
			// Jobs are copied, not moved: one that kills its thread runs again, and so do those beside it.
			member.thread.post({kind: 'work', jobs: tasks.map(({job}) => job)});
		}
		if (restMs !== undefined && this.#members.every(({held}) => held.length === 0)) {
			this.#idleTimer = setTimeout(() => this.#suspend(), restMs).unref();
		}
	}

	/** Returns how many threads the jobs need: as many as have a full batch, and one. */
	#countNeeded(): number {
		const jobs = this.#members.reduce((sum, {held}) => sum + held.length, this.#waiting.length);
		return Math.floor(jobs / this.#options.batchSize) + 1;
	}

	#start(count: number): void {
		this.#watchTimer ??= setInterval(() => this.#watch(), watchMs).unref();
		for (const {thread} of this.#members.slice(0, count)) {
			thread.start();
		}
	}

	#suspend(): void {
		clearInterval(this.#watchTimer);
		this.#watchTimer = undefined;
		for (const {thread} of this.#members) {
			thread.suspend();
		}
	}

	#takeBatch({held}: Member<Job, Result, Order, Message>, share: number): Array<Task<Job, Result>> {
		const {batchSize, maxHeld, maxBytes} = this.#options;
		const max = Math.min(batchSize, share, maxHeld - held.length);
		// A busy thread waits for a full batch. Otherwise batches would stay small, and each costs a message both ways.
		if (held.length > batchSize * busyShare && max < batchSize) {
			return [];
		}
		let bytes = held.reduce((sum, task) => sum + task.bytes, 0);
		let previous = held[0];
		let count = 0;
		for (const task of this.#waiting) {
			bytes += task.bytes;
			if (count >= max || (previous && (previous.isSuspected || task.isSuspected || bytes > maxBytes))) {
				break;
			}
			previous = task;
			count++;
		}
		return this.#waiting.splice(0, count);
	}

	#reclaim(member: Member<Job, Result, Order, Message>): void {
		if (this.#isStopped) {
			return;
		}
		const {held, shared, answered, isStarved} = member;
		const index = Atomics.load(shared, progress.begun) - 1 - answered;
		const isWorking = Atomics.load(shared, progress.working) === 1;
		const culprit = isWorking || index >= 0 ? held[index] : undefined;
		const wasSuspected = culprit?.isSuspected === true;
		// The thread died after these jobs, before sending their results. Each runs alone to find out which one did it.
		for (const task of isWorking ? [] : held.slice(0, Math.max(0, index))) {
			task.isSuspected = true;
		}
		member.held = [];
		this.#waiting.unshift(...held.filter(task => task !== culprit));
		if (culprit && isStarved) {
			culprit.resolve({ok: false, why: 'starved'});
		} else if (culprit && wasSuspected) {
			culprit.resolve({ok: false, why: 'spent'});
		} else if (culprit) {
			culprit.isSuspected = true;
			this.#resolveAlike(culprit.job);
			this.#waiting.push(culprit);
		}
		this.#dispatch();
	}

	#resolveAlike(culprit: Job): void {
		const {alike} = this.#options;
		for (const task of alike ? this.#waiting.splice(0) : []) {
			if (alike && !task.isSuspected && alike.kindOf(task.job) === alike.kindOf(culprit)) {
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
				member.observed = noObservation;
				continue;
			}
			if (begun !== member.observed.begun) {
				member.observed = {begun, state: limitWork(limitMs, this.#options)};
				continue;
			}
			const state = member.observed.state();
			if (state !== 'within') {
				member.observed = {begun, state: noObservation.state};
				member.isStarved = state === 'starved';
				observer.workerEnded(
					`${name}: ${noun} took longer than ${limitMs} ms${member.isStarved ? ', without CPU time' : ''}`,
				);
				member.thread.kill();
			}
		}
	}
}

function isDone<Result, Message>(message: FromWorker<Result> | Message): message is FromWorker<Result> {
	return (message as FromWorker<Result>).kind === 'done';
}

/** Jobs for a thread, in the order in which it runs them. */
export type ToWorker<Job> = {readonly kind: 'work'; readonly jobs: readonly Job[]};

/** The results in the same order. Those of one `ToWorker` may arrive in several messages. */
export type FromWorker<Result> = {readonly kind: 'done'; readonly results: readonly Result[]};

/** Slots of the memory shared with a thread: how many jobs it has begun since its start, and whether one is running. */
export const progress = {begun: 0, working: 1, slots: 2} as const;

/** Receives crashes of threads. `reason` is for people. */
export type ThreadObserver = {readonly workerEnded: (reason: string) => void};

export type ThreadOptions = {
	readonly spawn: () => Worker;
	readonly clock: Pick<Clock, 'monotonic'>;
	readonly observer: ThreadObserver;
};

/** The code that uses a thread. */
type ThreadUser<Message> = {
	/** The thread has started. */
	started?(): void;
	receive(message: Message): void;
	/** The thread ended or was killed. The jobs that it held are lost. */
	ended(): void;
};

/** A thread that ends sooner after its start is not replaced before this time, in milliseconds. */
const restartMs = 1000;

/** A worker thread that is replaced when it ends. */
export class Thread<Order, Message> {
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

	/** Starts the thread unless it is running or about to start. */
	start(): void {
		if (this.#worker === null && this.#restart === undefined && !this.#isStopped) {
			this.#run();
		}
	}

	/** Sends an order; it is lost if the thread is not running. */
	post(order: Order, transfer: readonly TransferListItem[] = []): void {
		this.#worker?.postMessage(order, transfer);
	}

	/** Kills the thread; it will be replaced. */
	kill(): void {
		void this.#worker?.terminate();
	}

	/** Stops the thread until the next `start`. */
	suspend(): void {
		this.kill();
		this.#worker = null;
	}

	/** Stops the thread for good. With `withinMs`, it has that many milliseconds to exit by itself. */
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
		// An uncaught error (such as out of memory) is followed by the exit, which replaces the thread.
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
