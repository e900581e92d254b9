import {type Calls, type Replies, ThreadCaller} from '../kit/thread-calls.ts';
import type {BounceRule} from '../mail/bounce.ts';
import type {AttemptResult} from '../mail/outcome.ts';
import type {Precedence} from '../mail/route.ts';
import {Thread, type ThreadOptions} from '../pool/foreign-work.ts';

/** One recipient for an SMTP worker. `delivery` is passed through: only the worker knows its form. */
type WorkerJob<Delivery> = {readonly site: string; readonly connections: number; readonly delivery: Delivery};

/** What an SMTP worker does. */
export type SmtpWorkerMethods<Delivery> = {
	readonly deliver: (job: WorkerJob<Delivery>) => Promise<AttemptResult>;
	/** New limits of connections by site; 0: what waits for one comes back. */
	readonly allow: (limits: ReadonlyArray<readonly [site: string, connections: number]>) => void;
	/** Connections by site, including those that are idle or ending. */
	readonly count: (none: undefined) => ReadonlyArray<readonly [site: string, connections: number]>;
	/** Their outcomes are on stable storage. */
	readonly recorded: (recipientIds: readonly string[]) => void;
	/** Refusals are read by these rules from now on. */
	readonly classifyBy: (rules: readonly BounceRule[]) => void;
	/** Takes nothing new and finishes what is under way. */
	readonly drain: (none: undefined) => void;
	/** Says QUIT to the hosts and ends. */
	readonly close: (none: undefined) => void;
};

/** What an SMTP worker tells unasked: the name of a site from which a session has heard nothing for a while. */
export type SilentSite = string;

type Identified = {readonly recipientId: string; readonly data: Uint8Array; readonly precedence?: Precedence};

/** RFC 5321 §4.1.1.10: a client says QUIT before it goes. For all hosts together, milliseconds. */
const leaveMs = 2000;

type SmtpWorker<Delivery> = {
	readonly caller: ThreadCaller<SmtpWorkerMethods<Delivery>, SilentSite>;
	readonly thread: Thread<readonly Calls[], 'ready' | Replies>;
	/** Limits by site since the last message: sites change theirs with each result. */
	readonly allowed: Map<string, number>;
	/** High mail in its hands. */
	high: number;
	/** Recipients since the last message. */
	recorded: string[];
};

type SmtpWorkersOptions = ThreadOptions & {
	readonly count: number;
	/** A session with the site has heard nothing for a while. */
	readonly silent: (site: SilentSite) => void;
};

/**
 * The SMTP workers: threads that hold the SMTP sessions and run no foreign code. A site's connections are shared out
 * evenly; a recipient goes to the worker that holds least. What a dead thread held is refused, so that it is given back
 * to the queue.
 */
export class SmtpWorkers<Delivery extends Identified> {
	/** By recipient whose outcome is not yet recorded: the worker that tries it. */
	readonly #workerOf = new Map<string, SmtpWorker<Delivery>>();
	readonly #workers: ReadonlyArray<SmtpWorker<Delivery>>;
	readonly #silent: (site: SilentSite) => void;
	#isDraining = false;

	constructor({count, silent, ...options}: SmtpWorkersOptions) {
		this.#silent = silent;
		this.#workers = Array.from({length: count}, () => this.#start(options));
	}

	/** Rejects only if the thread dies, or has a fault. */
	async deliver(site: string, connections: number, delivery: Delivery): Promise<AttemptResult> {
		const sharing = sharers(this.#workers, site, connections);
		const share = this.#shareOf(connections);
		const {isHigh = false, leaves = 0} = delivery.precedence ?? {};
		// The first thread keeps the connection that is left to high mail.
		const some = leaves > 0 && share === 1 && sharing.length > 1 ? sharing.slice(1) : sharing;
		const sizeOf = ({caller, high}: SmtpWorker<Delivery>) => (isHigh ? high : caller.size);
		const worker = some.reduce((least, one) => (sizeOf(one) < sizeOf(least) ? one : least));
		const precedence: Precedence = {isHigh, leaves: worker === sharing[0] ? leaves : 0};
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
	 * Sets the limit of connections of a site, also for what was handed over before; 0: that comes back, as does
	 * what waits in a thread that has no part in them any more.
	 */
	allow(site: string, connections: number): void {
		const sharing = connections === 0 ? [] : sharers(this.#workers, site, connections);
		for (const worker of this.#workers) {
			const share = sharing.includes(worker) ? this.#shareOf(connections) : 0;
			worker.allowed.set(site, share);
			worker.caller.sendSoon();
		}
	}

	/** Connections by site, of all threads, once they know all that was handed over or allowed before. */
	async countConnections(): Promise<ReadonlyMap<string, number>> {
		const counts = this.#workers.map(async worker => {
			if (!worker.caller.isReady) {
				return []; // A thread that has not started, or ends, has none.
			}
			sendLimits(worker);
			return await worker.caller.call('count', undefined).catch(() => []);
		});
		const all = new Map<string, number>();
		for (const [site, connections] of (await Promise.all(counts)).flat()) {
			all.set(site, (all.get(site) ?? 0) + connections);
		}
		return all;
	}

	/** The outcome of this recipient is on stable storage: its worker may put another mail on the wire. */
	recorded(recipientId: string): void {
		const worker = this.#workerOf.get(recipientId);
		if (worker) {
			this.#workerOf.delete(recipientId);
			worker.recorded.push(recipientId);
			worker.caller.sendSoon();
		}
	}

	/** Refusals are read by these rules from now on; a thread that starts later has to be started with them. */
	classifyBy(rules: readonly BounceRule[]): void {
		for (const {caller} of this.#workers) {
			caller.notifyNow('classifyBy', rules);
		}
	}

	/** Sessions with a message under way finish it; everything else comes back as released. */
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
				return thread.stop(leaveMs);
			}),
		);
	}

	#start(options: ThreadOptions): SmtpWorker<Delivery> {
		const caller = new ThreadCaller<SmtpWorkerMethods<Delivery>, SilentSite>({
			event: this.#silent,
			send: (calls, transfer) => thread.post(calls, transfer),
			gather: () => gather(worker),
		});
		const thread = new Thread<readonly Calls[], 'ready' | Replies>('sender', options, {
			started: () => this.#isDraining && caller.notifyNow('drain', undefined),
			receive: message => caller.receive(message),
			ended: () => caller.end(new Error('The SMTP worker ended.')),
		});
		const worker: SmtpWorker<Delivery> = {caller, thread, allowed: new Map(), high: 0, recorded: []};
		thread.start();
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
	// Last: what waited for it finds the connections that are allowed now.
	if (recorded.length > 0) {
		worker.recorded = [];
		caller.notify('recorded', recorded);
	}
}

/** The threads that share a site: all of them, or as many as it may have connections. */
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
 * A limit on what may be going on at once, counted in units: mails that are on the wire, or sent and not yet recorded
 * (as many may arrive twice after a crash, no more); bytes that are held in memory. A recipient that needs more units
 * than there are goes when it is alone.
 */
export class Permits {
	readonly #held = new Map<string, number>();
	readonly #waiting: Array<{readonly recipientId: string; readonly units: number; readonly go: () => void}> = [];
	#free: number;

	constructor(count: number) {
		this.#free = count;
	}

	/** Resolves when the recipient may go on, in order of asking; asking again for the same one is free. */
	take(recipientId: string, units = 1): Promise<void> {
		if (this.#held.has(recipientId)) {
			return Promise.resolve();
		}
		return new Promise(resolve => {
			this.#waiting.push({recipientId, units, go: resolve});
			this.#serve();
		});
	}

	/** The outcome of the recipient is on stable storage. */
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
			const {recipientId, units, go} = next;
			this.#waiting.shift();
			if (!this.#held.has(recipientId)) {
				this.#held.set(recipientId, units);
				this.#free -= units;
			}
			go();
		}
	}
}
