import type {Worker} from 'node:worker_threads';
import type {BounceRule} from '../mail/bounce.ts';
import type {Clock} from '../mail/clock.ts';
import type {AttemptResult} from '../mail/outcome.ts';
import {keepThread, type Thread} from '../pool/thread.ts';

/** One copy for a sender thread. `delivery` is passed through: only the sender knows its form. */
export type SenderJob<Delivery> = {readonly site: string; readonly connections: number; readonly delivery: Delivery};

export type ToSender<Delivery> =
	| {readonly kind: 'deliver'; readonly jobs: ReadonlyArray<SenderJob<Delivery>>}
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
export type SenderResult = AttemptResult | {readonly recipientId: string; readonly fault: string};

export type FromSender =
	/** It has started and takes jobs. */
	| {readonly kind: 'ready'}
	| {readonly kind: 'results'; readonly results: readonly SenderResult[]}
	/** Connections by site, those that are idle or ending included. */
	| {readonly kind: 'counted'; readonly sites: ReadonlyArray<readonly [site: string, connections: number]>};

export type SendersOptions = {
	readonly count: number;
	readonly spawn: () => Worker;
	readonly clock: Clock;
	readonly onCrash: (reason: string) => void;
};

type Identified = {readonly recipientId: string; readonly data: Uint8Array};
type Waiting = {readonly resolve: (result: AttemptResult) => void; readonly reject: (error: Error) => void};
type Sender<Delivery> = {
	readonly thread: Thread<ToSender<Delivery>>;
	ready: boolean;
	readonly held: Map<string, Waiting>;
	/** What is told at the end of this turn of the event loop: a message to a thread costs as much for one as for many. */
	readonly jobs: Array<SenderJob<Delivery>>;
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
export function createSenders<Delivery extends Identified>(options: SendersOptions) {
	/** Who tried a copy whose outcome is not yet recorded. */
	const threadOfRecipient = new Map<string, Sender<Delivery>>();
	let draining = false;
	const senders = Array.from({length: options.count}, newSender);

	function newSender(): Sender<Delivery> {
		const sender: Sender<Delivery> = {
			thread: keepThread<ToSender<Delivery>, FromSender>({
				...options,
				name: 'sender',
				onStart: () => draining && sender.thread.post({kind: 'drain'}),
				onMessage: message => receive(sender, message),
				onEnd() {
					sender.ready = false;
					refuseHeld(sender);
					for (const counted of sender.counting.splice(0)) {
						counted([]); // Its connections ended with it.
					}
					sender.uncounted = 0;
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
		sender.thread.start();
		return sender;
	}

	function receive(sender: Sender<Delivery>, message: FromSender): void {
		if (message.kind === 'ready') {
			sender.ready = true;
			flushSoon(sender);
			return;
		}
		if (message.kind === 'counted') {
			sender.counting.shift()?.(message.sites);
			return;
		}
		for (const result of message.results) {
			const waiting = sender.held.get(result.recipientId);
			sender.held.delete(result.recipientId);
			threadOfRecipient.set(result.recipientId, sender);
			if ('fault' in result) {
				waiting?.reject(new Error(result.fault));
			} else {
				waiting?.resolve(result);
			}
		}
	}

	/** What was not handed over yet goes to the next thread. */
	function refuseHeld(sender: Sender<Delivery>): void {
		const kept = new Set(sender.jobs.map(({delivery}) => delivery.recipientId));
		for (const [recipientId, waiting] of sender.held) {
			if (!kept.has(recipientId)) {
				sender.held.delete(recipientId);
				waiting.reject(new Error('The sender thread ended.'));
			}
		}
	}

	function flushSoon(sender: Sender<Delivery>): void {
		if (!sender.flushing) {
			sender.flushing = true;
			setImmediate(flush, sender);
		}
	}

	function flush(sender: Sender<Delivery>): void {
		const {post} = sender.thread;
		sender.flushing = false;
		if (!sender.ready) {
			return;
		}
		if (sender.jobs.length > 0) {
			const jobs = sender.jobs.splice(0);
			post(
				{kind: 'deliver', jobs},
				jobs.map(({delivery}) => delivery.data.buffer as ArrayBuffer),
			);
		}
		for (const [site, connections] of sender.allowed) {
			post({kind: 'allow', site, connections});
		}
		sender.allowed.clear();
		for (; sender.uncounted > 0; sender.uncounted--) {
			post({kind: 'count'});
		}
		// Last: who waited for it finds what is allowed now.
		if (sender.recorded.length > 0) {
			post({kind: 'recorded', recipientIds: sender.recorded.splice(0)});
		}
	}

	function tellAll(order: ToSender<Delivery>): void {
		for (const {thread} of senders) {
			thread.post(order);
		}
	}

	const shareOf = (connections: number) => Math.max(1, Math.floor(connections / options.count));

	return {
		/** Rejects only if the sender thread dies, or has a fault. */
		deliver(site: string, connections: number, delivery: Delivery): Promise<AttemptResult> {
			const sender = leastBusy(sharers(senders, site, connections));
			return new Promise((resolve, reject) => {
				sender.held.set(delivery.recipientId, {resolve, reject});
				sender.jobs.push({site, connections: shareOf(connections), delivery});
				flushSoon(sender);
			});
		},
		/**
		 * The site may have so many connections from now on, also for what was handed over before; 0: that comes back, as does
		 * what waits in a thread that has no part in them any more.
		 */
		allow(site: string, connections: number): void {
			const sharing = connections === 0 ? [] : sharers(senders, site, connections);
			for (const sender of senders) {
				sender.allowed.set(site, sharing.includes(sender) ? shareOf(connections) : 0);
				flushSoon(sender);
			}
		},
		/** Connections by site, of all threads, once they know all that was handed over or allowed before. */
		async countConnections(): Promise<ReadonlyMap<string, number>> {
			const counts = senders.map(
				sender =>
					new Promise<ReadonlyArray<readonly [site: string, connections: number]>>(resolve => {
						if (!sender.ready) {
							resolve([]); // It has none yet.
							return;
						}
						sender.counting.push(resolve);
						sender.uncounted++;
						flushSoon(sender);
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
			const sender = threadOfRecipient.get(recipientId);
			if (!sender) {
				return;
			}
			threadOfRecipient.delete(recipientId);
			sender.recorded.push(recipientId);
			flushSoon(sender);
		},
		/** By these rules refusals are read from now on; a thread that starts later has to be started with them. */
		classifyBy: (rules: readonly BounceRule[]): void => tellAll({kind: 'rules', rules}),
		/** Sessions with a message under way finish it; everything else comes back as released. */
		drain(): void {
			draining = true;
			tellAll({kind: 'drain'});
		},
		async stop(): Promise<void> {
			await Promise.all(senders.map(({thread}) => thread.stop({order: {kind: 'close'}, withinMs: leaveMs})));
		},
	};
}

type Busy = {readonly held: ReadonlyMap<string, unknown>};

function leastBusy<Sender extends Busy>(senders: readonly Sender[]): Sender {
	return senders.reduce((least, one) => (one.held.size < least.held.size ? one : least));
}

/** The threads that share a site: all of them, or as many as it may have connections. */
function sharers<Sender>(senders: readonly Sender[], site: string, connections: number): readonly Sender[] {
	if (connections >= senders.length) {
		return senders;
	}
	let first = 0;
	for (const character of site) {
		first = (first * 31 + (character.codePointAt(0) as number)) % senders.length;
	}
	return Array.from(
		{length: Math.max(1, connections)},
		(_, index) => senders[(first + index) % senders.length] as Sender,
	);
}

export type Senders<Delivery extends Identified> = ReturnType<typeof createSenders<Delivery>>;
