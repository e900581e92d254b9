import {type QueueKey, queueKeyText, type Route} from '../mail/route.ts';
import {createAgenda, type Timed} from './agenda.ts';
import type {Site} from './site.ts';

/**
 * `idle`: nothing is known to be due now. `looking`: its way is being found. `ready`: it waits for its turn at its site.
 * `claiming`: the store is asked. `suspended`: by an operator. `spent`: the day's share of a new source is used up.
 */
export type QueueState = 'idle' | 'looking' | 'ready' | 'claiming' | 'suspended' | 'spent';

/** One workspace's mail for one destination. Its time is when the next copy known to be due later is due, wall clock. */
export type DestinationQueue = Timed &
	QueueKey & {
		state: QueueState;
		/** The way that it goes now, its own or the overflow of it, and where that leads; null: not found yet. */
		placed: {readonly own: Route; readonly route: Omit<Route, 'warmUp'>; readonly site: Site; foundAt: number} | null;
		/** Where it was last, while all its mail is due later; null: elsewhere, or not known. */
		restsAt: Site | null;
		/** Copies claimed and not yet done. */
		inFlight: number;
		/** Where it is `spent`: what is used up. */
		spent: Route['warmUp'];
		/** Mail was just accepted for it. */
		fresh: boolean;
		/** Whether others may be due after the one that was known: the next claim asks the store. */
		asksNext: boolean;
		/** Work arrived while a claim was under way: look once more after it. */
		again: boolean;
		/** Since when work that is due was not claimed, monotonic milliseconds. */
		since: number;
	};

export function newQueue({destination, workspaceId}: QueueKey): DestinationQueue {
	return {
		at: null,
		place: 0,
		destination,
		workspaceId,
		state: 'idle',
		placed: null,
		restsAt: null,
		inFlight: 0,
		spent: null,
		fresh: false,
		asksNext: false,
		again: false,
		since: 0,
	};
}

/** The lanes that have work, or of which it is known when the next copy is due. */
export function createQueueRegistry() {
	const queues = new Map<string, DestinationQueue>();
	const dueLater = createAgenda<DestinationQueue>();

	return {
		/** Lanes with work due that is not being claimed, the longest waiting first. */
		waiting: new Set<DestinationQueue>(),

		of(key: QueueKey): DestinationQueue {
			const text = queueKeyText(key);
			let queue = queues.get(text);
			if (!queue) {
				queue = newQueue(key);
				queues.set(text, queue);
			}
			return queue;
		},

		find: (key: QueueKey): DestinationQueue | undefined => queues.get(queueKeyText(key)),

		/** More of it is due at `at` (wall-clock milliseconds), if nothing is before. */
		waitUntil(queue: DestinationQueue, at: number): void {
			if (queue.at === null || at < queue.at) {
				dueLater.set(queue, at);
			}
		},

		/** Takes the next lane of which a copy has become due; undefined: none. */
		nextDue: (now: number): DestinationQueue | undefined => dueLater.next(now),

		forget: (queue: DestinationQueue): void => void queues.delete(queueKeyText(queue)),

		all: (): Iterable<DestinationQueue> => queues.values(),
	};
}

export type QueueRegistry = ReturnType<typeof createQueueRegistry>;
