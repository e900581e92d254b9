import type {Clock} from '../kit/clock.ts';
import type {QueueKey} from '../mail/route.ts';
import {longestNotice, type Store} from '../store/store.ts';

// Where several nodes share a store, mail that one accepted may leave through another: the accepting node notifies the delivering ones.
// What a notice missed is found by asking the store.

/** The store spends at most this part of its time on the question. */
const share = 0.1;

type ArrivalsOptions<Due> = {
	/** What has work that may be claimed now. */
	readonly readDue: () => Promise<Due[]>;
	readonly onDue: (due: Due[]) => void;
	readonly onError: (error: unknown) => void;
	readonly clock: Clock;
	/** Between two questions, milliseconds. */
	readonly periodMs: number;
};

/** Asks the store what is due: mail that another node accepted, or left behind. Less often if a long queue makes the answer slow. */
export function watchArrivals<Due>({readDue, onDue, onError, clock, periodMs}: ArrivalsOptions<Due>): {
	/** Asks now, unless it is asking. */
	readonly look: () => void;
	readonly stop: () => void;
} {
	let stopped = false;
	let looking = false;
	let timer = setTimeout(look, periodMs);

	async function look(): Promise<void> {
		if (stopped || looking) {
			return;
		}
		looking = true;
		clearTimeout(timer);
		const began = clock.monotonic();
		try {
			onDue(await readDue());
		} catch (error) {
			onError(error);
		}
		looking = false;
		if (!stopped) {
			timer = setTimeout(look, Math.max(periodMs, (clock.monotonic() - began) / share));
		}
	}

	return {
		look: () => void look(),
		stop() {
			stopped = true;
			clearTimeout(timer);
		},
	};
}

/** Sent when the list is longer than a notice holds: look. */
const all = '*';

/**
 * Notifies other nodes of destination queues with waiting mail. What comes while one notice is on its way goes with the next.
 * `boot`: the own node's, which need not listen to itself.
 */
export function createArrivalNotices({
	store,
	boot,
	onError,
}: {
	readonly store: Pick<Store, 'tell'>;
	readonly boot: string;
	readonly onError: (error: unknown) => void;
}): (queues: Iterable<QueueKey>) => void {
	let waiting = new Map<string, readonly [destination: string, workspaceId: string]>();
	let telling = false;

	async function tellAll(): Promise<void> {
		while (waiting.size > 0) {
			const queues = JSON.stringify([...waiting.values()]);
			waiting = new Map();
			await store.tell(`${boot} ${Buffer.byteLength(queues) < longestNotice - boot.length ? queues : all}`);
		}
	}

	return queues => {
		for (const {destination, workspaceId} of queues) {
			waiting.set(`${destination} ${workspaceId}`, [destination, workspaceId]);
		}
		if (!telling && waiting.size > 0) {
			telling = true;
			tellAll()
				.catch(onError)
				.finally(() => {
					telling = false;
				});
		}
	};
}

/** The destination queues of a notice; null: look yourself. Own notices and unknown ones are ignored. */
export function readArrivalNotice(notice: string | null, boot: string): QueueKey[] | null {
	const space = notice?.indexOf(' ') ?? -1;
	if (notice === null || space === -1) {
		return null;
	}
	const body = notice.slice(space + 1);
	if (notice.slice(0, space) === boot) {
		return [];
	}
	try {
		const queues: unknown = JSON.parse(body);
		return Array.isArray(queues) && queues.every(isQueue)
			? queues.map(([destination, workspaceId]) => ({destination, workspaceId}))
			: null;
	} catch {
		return null;
	}
}

function isQueue(queue: unknown): queue is [string, string] {
	return Array.isArray(queue) && queue.length === 2 && queue.every(part => typeof part === 'string');
}
