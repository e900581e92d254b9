import {Thread, type ThreadOptions} from '../kit/foreign-work.ts';
import {type Calls, type Replies, ThreadCaller} from '../kit/thread-calls.ts';
import type {BounceRule} from '../mail/bounce.ts';
import type {AttemptResult} from '../mail/outcome.ts';
import type {Precedence} from '../mail/route.ts';

/** One recipient for an SMTP worker. `delivery` is passed through; only the worker knows its form. */
type WorkerJob<Delivery> = {readonly site: string; readonly connections: number; readonly delivery: Delivery};

export type SmtpWorkerMethods<Delivery> = {
	readonly deliver: (job: WorkerJob<Delivery>) => Promise<AttemptResult>;
	/** Sets the connection limits by provider. With 0, what is waiting for a connection is returned. */
	readonly allow: (limits: ReadonlyArray<readonly [site: string, connections: number]>) => void;
	/** Counts connections by provider, including idle and closing ones. */
	readonly count: (none: undefined) => ReadonlyArray<readonly [site: string, connections: number]>;
	/** The outcomes of these recipients are on stable storage. */
	readonly recorded: (recipientIds: readonly string[]) => void;
	/** Uses these rules to classify rejections from now on. */
	readonly classifyBy: (rules: readonly BounceRule[]) => void;
	/** Accepts nothing new and finishes what is under way. */
	readonly drain: (none: undefined) => void;
	/** Sends QUIT to the mail servers and exits. */
	readonly close: (none: undefined) => void;
};

/** An event from an SMTP worker: the name of a provider from which a session has received nothing for a while. */
export type SilentSite = string;

type WorkerDelivery = {readonly recipientId: string; readonly data: Uint8Array; readonly precedence?: Precedence};

/** How long all mail servers together may take to reply to QUIT (RFC 5321 §4.1.1.10), in milliseconds. */
const quitMs = 2000;

type SmtpWorker<Delivery> = {
	readonly caller: ThreadCaller<SmtpWorkerMethods<Delivery>, SilentSite>;
	readonly thread: Thread<readonly Calls[], 'ready' | Replies>;
	/** Limits by provider since the last message to the thread. A provider's limits change with each result. */
	readonly allowed: Map<string, number>;
	/** The number of high-priority recipients that the worker has. */
	high: number;
	/** Recipients recorded since the last message to the thread. */
	recorded: string[];
};

type SmtpWorkersOptions = ThreadOptions & {
	readonly count: number;
	/** Called when a session with the provider has received nothing for a while. */
	readonly silent: (site: SilentSite) => void;
};

/**
 * The SMTP workers: threads that hold the SMTP sessions and run no code written by others. A thread starts with its
 * first recipient. A provider's connections are divided evenly, and a recipient goes to the worker that has the fewest
 * recipients. Those of a dead thread are rejected, so that they are released to the queue.
 */
export class SmtpWorkers<Delivery extends WorkerDelivery> {
	/** The worker that attempts each recipient whose outcome is not yet recorded. */
	readonly #workerOf = new Map<string, SmtpWorker<Delivery>>();
	readonly #workers: ReadonlyArray<SmtpWorker<Delivery>>;
	readonly #silent: (site: SilentSite) => void;
	#isDraining = false;

	constructor({count, silent, ...options}: SmtpWorkersOptions) {
		this.#silent = silent;
		this.#workers = Array.from({length: count}, () => this.#start(options));
	}

	/** Starts a worker, so that a recipient that follows soon finds it running. */
	prepare(): void {
		this.#workers[0]?.thread.start();
	}

	/** Rejects only if the thread dies or has an internal error. */
	async deliver(site: string, connections: number, delivery: Delivery): Promise<AttemptResult> {
		const candidates = sharers(this.#workers, site, connections);
		const share = this.#shareOf(connections);
		const {isHigh = false, leaves = 0} = delivery.precedence ?? {};
		// The first thread has the connection that is left to high-priority mail.
		const eligible = leaves > 0 && share === 1 && candidates.length > 1 ? candidates.slice(1) : candidates;
		const loadOf = ({caller, high}: SmtpWorker<Delivery>) => (isHigh ? high : caller.size);
		const worker = eligible.reduce((idlest, other) => (loadOf(other) < loadOf(idlest) ? other : idlest));
		const precedence: Precedence = {isHigh, leaves: worker === candidates[0] ? leaves : 0};
		worker.thread.start();
		const job = {site, connections: share, delivery: delivery.precedence ? {...delivery, precedence} : delivery};
		this.#workerOf.set(delivery.recipientId, worker);
		worker.high += isHigh ? 1 : 0;
		try {
			return await worker.caller.call('deliver', job, [delivery.data.buffer as ArrayBuffer]);
		} finally {
			worker.high -= isHigh ? 1 : 0;
		}
	}

	/**
	 * Sets the connection limit of a provider, which also applies to recipients that threads already have. With 0,
	 * those recipients are returned, as are those that wait in a thread which no longer has a part of the connections.
	 */
	allow(site: string, connections: number): void {
		const candidates = connections === 0 ? [] : sharers(this.#workers, site, connections);
		for (const worker of this.#workers) {
			const share = candidates.includes(worker) ? this.#shareOf(connections) : 0;
			worker.allowed.set(site, share);
			worker.caller.sendSoon();
		}
	}

	/** Counts connections by provider over all threads, once the threads know everything sent to them before. */
	async countConnections(): Promise<ReadonlyMap<string, number>> {
		const counts = this.#workers.map(async worker => {
			if (!worker.caller.isReady) {
				return []; // A thread that is starting or stopping has none.
			}
			sendLimits(worker);
			return await worker.caller.call('count', undefined).catch(() => []);
		});
		const totals = new Map<string, number>();
		for (const [site, connections] of (await Promise.all(counts)).flat()) {
			totals.set(site, (totals.get(site) ?? 0) + connections);
		}
		return totals;
	}

	/** Lets the recipient's worker send another message, because the outcome is on stable storage. */
	recorded(recipientId: string): void {
		const worker = this.#workerOf.get(recipientId);
		if (worker) {
			this.#workerOf.delete(recipientId);
			worker.recorded.push(recipientId);
			worker.caller.sendSoon();
		}
	}

	/** Uses these rules to classify rejections from now on. A thread that starts later must be started with them. */
	classifyBy(rules: readonly BounceRule[]): void {
		for (const {caller} of this.#workers) {
			caller.notifyNow('classifyBy', rules);
		}
	}

	/** Lets sessions that are sending a message finish it. Everything else is returned as released. */
	drain(): void {
		this.#isDraining = true;
		for (const {caller} of this.#workers) {
			caller.notifyNow('drain', undefined);
		}
	}

	async stop(): Promise<void> {
		await Promise.all(
			this.#workers.map(({caller, thread}) => {
				caller.notifyNow('close', undefined);
				return thread.stop(quitMs);
			}),
		);
	}

	#start(options: ThreadOptions): SmtpWorker<Delivery> {
		const caller = new ThreadCaller<SmtpWorkerMethods<Delivery>, SilentSite>({
			event: this.#silent,
			send: (calls, transfer) => thread.post(calls, transfer),
			gather: () => gather(worker),
		});
		const thread = new Thread<readonly Calls[], 'ready' | Replies>('SMTP worker', options, {
			started: () => this.#isDraining && caller.notifyNow('drain', undefined),
			receive: message => caller.receive(message),
			ended: () => caller.end(new Error('The SMTP worker ended.')),
		});
		const worker: SmtpWorker<Delivery> = {caller, thread, allowed: new Map(), high: 0, recorded: []};
		return worker;
	}

	#shareOf(connections: number): number {
		return Math.max(1, Math.floor(connections / this.#workers.length));
	}
}

function sendLimits<Delivery>({caller, allowed}: SmtpWorker<Delivery>): void {
	if (allowed.size > 0) {
		caller.notify('allow', [...allowed]);
		allowed.clear();
	}
}

function gather<Delivery>(worker: SmtpWorker<Delivery>): void {
	sendLimits(worker);
	const {caller, recorded} = worker;
	// This comes last, so that recipients that waited for it find the current connection limits.
	if (recorded.length > 0) {
		worker.recorded = [];
		caller.notify('recorded', recorded);
	}
}

/** Returns the threads that share a provider: all of them, or as many as it may have connections. */
function sharers<SmtpWorker>(workers: readonly SmtpWorker[], site: string, connections: number): readonly SmtpWorker[] {
	if (connections >= workers.length) {
		return workers;
	}
	let first = 0;
	for (const character of site) {
		first = (first * 31 + (character.codePointAt(0) as number)) % workers.length;
	}
	return Array.from(
		{length: Math.max(1, connections)},
		(_, index) => workers[(first + index) % workers.length] as SmtpWorker,
	);
}

/**
 * A limit on concurrent work, counted in units. The units are bytes held in memory, or messages that are being sent or
 * are sent but not yet recorded; that many may arrive twice after a crash. A recipient that needs more units than exist
 * proceeds when it is alone.
 */
export class Permits {
	readonly #held = new Map<string, number>();
	readonly #waiting: Array<{readonly recipientId: string; readonly units: number; readonly proceed: () => void}> = [];
	#free: number;

	constructor(count: number) {
		this.#free = count;
	}

	/** Resolves when the recipient may proceed, in the order of the calls. A second call for it takes nothing. */
	take(recipientId: string, units = 1): Promise<void> {
		if (this.#held.has(recipientId)) {
			return Promise.resolve();
		}
		return new Promise(resolve => {
			this.#waiting.push({recipientId, units, proceed: resolve});
			this.#serve();
		});
	}

	/** Returns the recipient's units, once the outcome is on stable storage. */
	giveBack(recipientId: string): void {
		this.#free += this.#held.get(recipientId) ?? 0;
		this.#held.delete(recipientId);
		this.#serve();
	}

	#serve(): void {
		for (
			let next = this.#waiting[0];
			next && (next.units <= this.#free || this.#held.size === 0);
			next = this.#waiting[0]
		) {
			const {recipientId, units, proceed} = next;
			this.#waiting.shift();
			if (!this.#held.has(recipientId)) {
				this.#held.set(recipientId, units);
				this.#free -= units;
			}
			proceed();
		}
	}
}
