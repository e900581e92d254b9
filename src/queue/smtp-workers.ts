import type {Worker} from 'node:worker_threads';
import type {Clock} from '../kit/clock.ts';
import type {BounceRule} from '../mail/bounce.ts';
import type {AttemptResult} from '../mail/outcome.ts';
import {keepThread, type Thread} from '../pool/thread.ts';

/** One copy for a sender thread. `delivery` is passed through: only the sender knows its form. */
type WorkerJob<Delivery> = {readonly site: string; readonly connections: number; readonly delivery: Delivery};

export type ToSmtpWorker<Delivery> =
	| {readonly kind: 'deliver'; readonly jobs: ReadonlyArray<WorkerJob<Delivery>>}
	/** From now on the site may have so many connections; 0: what waits for one comes back. */
	| {readonly kind: 'allow'; readonly site: string; readonly connections: number}
	/** Is answered by `counted`. */
	| {readonly kind: 'count'}
	/** Their outcomes are on stable storage. */
	| {readonly kind: 'recorded'; readonly recipientIds: readonly string[]}
	/** By these rules refusals are read from now on. */
	| {readonly kind: 'rules'; readonly rules: readonly BounceRule[]}
	/** Nothing new; what is under way comes to its end. */
	| {readonly kind: 'drain'}
	/** Takes leave of the hosts and ends. */
	| {readonly kind: 'close'};

/** The end of a try; `fault`: ours, in a sentence. */
export type WorkerResult = AttemptResult | {readonly recipientId: string; readonly fault: string};

export type FromSmtpWorker =
	/** It has started and takes jobs. */
	| {readonly kind: 'ready'}
	| {readonly kind: 'results'; readonly results: readonly WorkerResult[]}
	/** Connections by site, those that are idle or ending included. */
	| {readonly kind: 'counted'; readonly sites: ReadonlyArray<readonly [site: string, connections: number]>};

type SmtpWorkersOptions = {
	readonly count: number;
	readonly spawn: () => Worker;
	readonly clock: Clock;
	readonly onCrash: (reason: string) => void;
};

type Identified = {readonly recipientId: string; readonly data: Uint8Array};
type Waiting = {readonly resolve: (result: AttemptResult) => void; readonly reject: (error: Error) => void};
type SmtpWorker<Delivery> = {
	readonly thread: Thread<ToSmtpWorker<Delivery>>;
	ready: boolean;
	readonly held: Map<string, Waiting>;
	/** What is told at the end of this turn of the event loop: a message to a thread costs as much for one as for many. */
	readonly jobs: Array<WorkerJob<Delivery>>;
	readonly recorded: string[];
	readonly allowed: Map<string, number>;
	/** Who waits to know how many connections it has. */
	readonly counting: Array<(sites: ReadonlyArray<readonly [site: string, connections: number]>) => void>;
	/** Those of them that were not passed on yet. */
	uncounted: number;
	flushing: boolean;
};

/** RFC 5321 §4.1.1.10: a client says QUIT before it goes. So long for all hosts together, milliseconds. */
const leaveMs = 2000;

/**
 * The sender threads: they hold the SMTP sessions and run no foreign code. A site's connections are shared out evenly; a
 * copy goes to the sender that holds least. What a dead thread held is refused, so that it is given back to the queue.
 */
export function createSmtpWorkers<Delivery extends Identified>(options: SmtpWorkersOptions) {
	/** Who tried a copy whose outcome is not yet recorded. */
	const threadOfRecipient = new Map<string, SmtpWorker<Delivery>>();
	let draining = false;
	const workers = Array.from({length: options.count}, newWorker);

	function newWorker(): SmtpWorker<Delivery> {
		const worker: SmtpWorker<Delivery> = {
			thread: keepThread<ToSmtpWorker<Delivery>, FromSmtpWorker>({
				...options,
				name: 'sender',
				onStart: () => draining && worker.thread.post({kind: 'drain'}),
				onMessage: message => receive(worker, message),
				onEnd() {
					worker.ready = false;
					refuseHeld(worker);
					for (const counted of worker.counting.splice(0)) {
						counted([]); // Its connections ended with it.
					}
					worker.uncounted = 0;
				},
			}),
			ready: false,
			held: new Map(),
			jobs: [],
			recorded: [],
			allowed: new Map(),
			counting: [],
			uncounted: 0,
			flushing: false,
		};
		worker.thread.start();
		return worker;
	}

	function receive(worker: SmtpWorker<Delivery>, message: FromSmtpWorker): void {
		if (message.kind === 'ready') {
			worker.ready = true;
			flushSoon(worker);
			return;
		}
		if (message.kind === 'counted') {
			worker.counting.shift()?.(message.sites);
			return;
		}
		for (const result of message.results) {
			const waiting = worker.held.get(result.recipientId);
			worker.held.delete(result.recipientId);
			threadOfRecipient.set(result.recipientId, worker);
			if ('fault' in result) {
				waiting?.reject(new Error(result.fault));
			} else {
				waiting?.resolve(result);
			}
		}
	}

	/** What was not handed over yet goes to the next thread. */
	function refuseHeld(worker: SmtpWorker<Delivery>): void {
		const kept = new Set(worker.jobs.map(({delivery}) => delivery.recipientId));
		for (const [recipientId, waiting] of worker.held) {
			if (!kept.has(recipientId)) {
				worker.held.delete(recipientId);
				waiting.reject(new Error('The sender thread ended.'));
			}
		}
	}

	function flushSoon(worker: SmtpWorker<Delivery>): void {
		if (!worker.flushing) {
			worker.flushing = true;
			setImmediate(flush, worker);
		}
	}

	function flush(worker: SmtpWorker<Delivery>): void {
		const {post} = worker.thread;
		worker.flushing = false;
		if (!worker.ready) {
			return;
		}
		if (worker.jobs.length > 0) {
			const jobs = worker.jobs.splice(0);
			post(
				{kind: 'deliver', jobs},
				jobs.map(({delivery}) => delivery.data.buffer as ArrayBuffer),
			);
		}
		for (const [site, connections] of worker.allowed) {
			post({kind: 'allow', site, connections});
		}
		worker.allowed.clear();
		for (; worker.uncounted > 0; worker.uncounted--) {
			post({kind: 'count'});
		}
		// Last: who waited for it finds what is allowed now.
		if (worker.recorded.length > 0) {
			post({kind: 'recorded', recipientIds: worker.recorded.splice(0)});
		}
	}

	function tellAll(order: ToSmtpWorker<Delivery>): void {
		for (const {thread} of workers) {
			thread.post(order);
		}
	}

	const shareOf = (connections: number) => Math.max(1, Math.floor(connections / options.count));

	return {
		/** Rejects only if the sender thread dies, or has a fault. */
		deliver(site: string, connections: number, delivery: Delivery): Promise<AttemptResult> {
			const worker = leastBusy(sharers(workers, site, connections));
			return new Promise((resolve, reject) => {
				worker.held.set(delivery.recipientId, {resolve, reject});
				worker.jobs.push({site, connections: shareOf(connections), delivery});
				flushSoon(worker);
			});
		},
		/**
		 * The site may have so many connections from now on, also for what was handed over before; 0: that comes back, as does
		 * what waits in a thread that has no part in them any more.
		 */
		allow(site: string, connections: number): void {
			const sharing = connections === 0 ? [] : sharers(workers, site, connections);
			for (const worker of workers) {
				worker.allowed.set(site, sharing.includes(worker) ? shareOf(connections) : 0);
				flushSoon(worker);
			}
		},
		/** Connections by site, of all threads, once they know all that was handed over or allowed before. */
		async countConnections(): Promise<ReadonlyMap<string, number>> {
			const counts = workers.map(
				worker =>
					new Promise<ReadonlyArray<readonly [site: string, connections: number]>>(resolve => {
						if (!worker.ready) {
							resolve([]); // It has none yet.
							return;
						}
						worker.counting.push(resolve);
						worker.uncounted++;
						flushSoon(worker);
					}),
			);
			const all = new Map<string, number>();
			for (const [site, connections] of (await Promise.all(counts)).flat()) {
				all.set(site, (all.get(site) ?? 0) + connections);
			}
			return all;
		},
		/** The outcome of this copy is on stable storage: its sender may put another mail on the wire. */
		recorded(recipientId: string): void {
			const worker = threadOfRecipient.get(recipientId);
			if (!worker) {
				return;
			}
			threadOfRecipient.delete(recipientId);
			worker.recorded.push(recipientId);
			flushSoon(worker);
		},
		/** By these rules refusals are read from now on; a thread that starts later has to be started with them. */
		classifyBy: (rules: readonly BounceRule[]): void => tellAll({kind: 'rules', rules}),
		/** Sessions with a message under way finish it; everything else comes back as released. */
		drain(): void {
			draining = true;
			tellAll({kind: 'drain'});
		},
		async stop(): Promise<void> {
			await Promise.all(workers.map(({thread}) => thread.stop({order: {kind: 'close'}, withinMs: leaveMs})));
		},
	};
}

type Busy = {readonly held: ReadonlyMap<string, unknown>};

function leastBusy<SmtpWorker extends Busy>(workers: readonly SmtpWorker[]): SmtpWorker {
	return workers.reduce((least, one) => (one.held.size < least.held.size ? one : least));
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
