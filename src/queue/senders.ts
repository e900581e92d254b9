import type {Worker} from 'node:worker_threads';
import type {AttemptResult} from '../mail/outcome.ts';

/** One copy for a sender thread. `delivery` is passed through: only the sender knows its form. */
export type SenderJob<Delivery> = {readonly site: string; readonly connections: number; readonly delivery: Delivery};

export type ToSender<Delivery> =
	| {readonly kind: 'deliver'; readonly jobs: ReadonlyArray<SenderJob<Delivery>>}
	/** Their outcomes are on stable storage. */
	| {readonly kind: 'settled'; readonly recipientIds: readonly string[]}
	| {readonly kind: 'stop'};

export type FromSender = {readonly kind: 'results'; readonly results: readonly AttemptResult[]};

export type SendersOptions = {
	readonly count: number;
	readonly spawn: () => Worker;
	readonly onCrash: (reason: string) => void;
};

type Identified = {readonly recipientId: string; readonly data: Uint8Array};
type Waiting = {readonly resolve: (result: AttemptResult) => void; readonly reject: (error: Error) => void};
type Sender<Delivery> = {
	worker: Worker;
	readonly held: Map<string, Waiting>;
	/** What is told at the end of this turn of the event loop: a message to a thread costs as much for one as for many. */
	readonly jobs: Array<SenderJob<Delivery>>;
	readonly settled: string[];
	flushing: boolean;
};

/**
 * The sender threads: they hold the SMTP sessions and run no foreign code. A site's connections are shared out evenly; a
 * copy goes to the sender that holds least. What a dead thread held is refused, so that it is given back to the queue.
 */
export function createSenders<Delivery extends Identified>(options: SendersOptions) {
	const senders: Array<Sender<Delivery>> = [];
	/** Who tried a copy whose outcome is not yet recorded. */
	const triers = new Map<string, Sender<Delivery>>();
	let stopped = false;

	function start(): Sender<Delivery> {
		const sender: Sender<Delivery> = {worker: options.spawn(), held: new Map(), jobs: [], settled: [], flushing: false};
		sender.worker.on('message', (message: FromSender) => {
			for (const result of message.results) {
				const waiting = sender.held.get(result.recipientId);
				sender.held.delete(result.recipientId);
				triers.set(result.recipientId, sender);
				waiting?.resolve(result);
			}
		});
		sender.worker.on('error', error => options.onCrash(`sender: ${error.message}`));
		sender.worker.on('exit', () => {
			if (!stopped) {
				senders[senders.indexOf(sender)] = start();
			}
			for (const waiting of sender.held.values()) {
				waiting.reject(new Error('The sender thread ended.'));
			}
			sender.held.clear();
		});
		return sender;
	}

	function flushSoon(sender: Sender<Delivery>): void {
		if (!sender.flushing) {
			sender.flushing = true;
			setImmediate(flush, sender);
		}
	}

	function flush(sender: Sender<Delivery>): void {
		sender.flushing = false;
		const post = (message: ToSender<Delivery>, transfer: ArrayBuffer[] = []) =>
			sender.worker.postMessage(message, transfer);
		if (sender.settled.length > 0) {
			post({kind: 'settled', recipientIds: sender.settled.splice(0)});
		}
		if (sender.jobs.length > 0) {
			const jobs = sender.jobs.splice(0);
			post(
				{kind: 'deliver', jobs},
				jobs.map(({delivery}) => delivery.data.buffer as ArrayBuffer),
			);
		}
	}

	for (let index = 0; index < options.count; index++) {
		senders.push(start());
	}

	return {
		/** Rejects only if the sender thread dies. */
		deliver(site: string, connections: number, delivery: Delivery): Promise<AttemptResult> {
			const sender = senders.reduce((least, one) => (one.held.size < least.held.size ? one : least));
			return new Promise((resolve, reject) => {
				sender.held.set(delivery.recipientId, {resolve, reject});
				sender.jobs.push({site, connections: Math.max(1, Math.floor(connections / options.count)), delivery});
				flushSoon(sender);
			});
		},
		/** The outcome of this copy is on stable storage: its sender may put another mail on the wire. */
		settled(recipientId: string): void {
			const sender = triers.get(recipientId);
			if (!sender) {
				return;
			}
			triers.delete(recipientId);
			sender.settled.push(recipientId);
			flushSoon(sender);
		},
		/** Sessions with a message under way finish it; everything else comes back as released. */
		drain(): void {
			for (const sender of senders) {
				sender.worker.postMessage({kind: 'stop'} satisfies ToSender<Delivery>);
			}
		},
		async stop(): Promise<void> {
			stopped = true;
			await Promise.all(senders.map(sender => sender.worker.terminate()));
		},
	};
}

export type Senders<Delivery extends Identified> = ReturnType<typeof createSenders<Delivery>>;
