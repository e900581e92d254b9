import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {type Priority, priorities} from '../mail/message.ts';
import {type QueueKey, queueKeyText} from '../mail/route.ts';
import {deliveryClaims, releaseSilentDeliveries} from '../resources/webhooks/queue-store.ts';
import {isUnheld, readServerTime} from '../store/engine/dialect.ts';
import {recipientClaims, releaseOthers, releaseOwn, releaseSilentClaims} from '../store/held-claims.ts';
import {beat, listNodes, loseNodes, type Node, removeNode, type SeenNode, silentMs} from '../store/nodes.ts';
import {removeOtherQueueWaits, removeOwnQueueWaits} from '../store/queue/open-recipients.ts';
import {removeShares} from '../store/queue/sites.ts';
import {maxNoticeLength, type Store} from '../store/store.ts';
import type {Observer} from './observer.ts';

// Several nodes on one store: which of them are alive, and how a node learns about mail that another one accepted.

const defaultBeatMs = 1500;
/**
 * A node is dead if it sent no heartbeat for this long and its connection closed; a frozen node keeps its connection.
 */
const deadMs = 3 * defaultBeatMs;
/** A node without a heartbeat for this long does not know whether others could send theirs. */
const gapMs = deadMs - defaultBeatMs;
/** How long others have to reconnect and send a heartbeat after such a gap. */
const reconnectMs = 2 * deadMs;

type PresenceOptions = {
	readonly store: Store;
	readonly node: Node;
	/** The previous daemon of this data folder. It is dead, since this one has the lock, unless the folder is a copy. */
	readonly former?: string | null;
	/** Called once, before this node's first claim. */
	readonly onBegin?: () => void;
	readonly clock: Clock;
	/** The time between two heartbeats, in milliseconds. */
	readonly beatMs?: number;
	/** Called when claims of a dead daemon were released. */
	readonly onReleased: () => void;
	readonly observer: Pick<Observer, 'storeFailed'>;
};

/**
 * Determines which daemons are alive. On SQLite, the folder's lock guarantees that this daemon is the only one, so
 * every other claim is dead. On PostgreSQL, each node sends heartbeats, and any node releases what a silent one held.
 * After a node was cut off from the store, it does so only once the others have had time for a heartbeat. What the
 * previous daemon of the same data folder held is released at once.
 */
export class Presence {
	readonly #options: PresenceOptions;
	#timer: NodeJS.Timeout | undefined;
	/** The times of the last heartbeat, and from which others' claims may be released, in monotonic milliseconds. */
	#beatAt: number | null = null;
	#releasesSilentFrom = Number.NEGATIVE_INFINITY;
	#releasesDeadFrom = Number.NEGATIVE_INFINITY;
	#peers = 0;
	#isFailing = false;

	constructor(options: PresenceOptions) {
		this.#options = options;
	}

	/** Whether the last heartbeat failed. Other nodes will consider this one dead, so it may not begin anything. */
	isFailing(): boolean {
		return this.#isFailing;
	}

	/** Whether other nodes deliver, as far as is known. */
	hasPeers(): boolean {
		return this.#peers > 0;
	}

	/** Await this before anything is claimed. */
	async begin(): Promise<void> {
		const {store, node, former = null, clock, beatMs = defaultBeatMs, onBegin, observer} = this.#options;
		if (!store.dialect.isShared) {
			const now = storeTime(clock.now());
			await store.agreeing.transaction(async trx => {
				await releaseOthers(trx, recipientClaims, node.id, now);
				await releaseOthers(trx, deliveryClaims, node.id, now);
				await removeOtherQueueWaits(trx, node.id);
			});
			return;
		}
		await store.hold(node.id);
		await (former !== null && this.#releaseFormer(former));
		onBegin?.();
		await this.#beat();
		let isBeating = false;
		this.#timer = setInterval(async () => {
			// If the store responds slowly, later heartbeats must not queue up behind this one.
			if (isBeating) {
				return;
			}
			isBeating = true;
			try {
				await this.#beat();
				this.#isFailing = false;
			} catch (error) {
				this.#isFailing = true;
				observer.storeFailed(error);
			} finally {
				isBeating = false;
			}
		}, beatMs);
	}

	/** Releases what is still claimed and removes this node from the list. */
	async end(): Promise<void> {
		clearInterval(this.#timer);
		const {store, node} = this.#options;
		await store.agreeing.transaction(async trx => {
			await this.#releaseAll(trx, node.id);
			await removeNode(trx, node.id);
		});
	}

	async #beat(): Promise<void> {
		const {store, node, clock, onReleased} = this.#options;
		const monotonic = clock.monotonic();
		if (this.#beatAt === null || monotonic - this.#beatAt > gapMs) {
			this.#releasesDeadFrom = monotonic + reconnectMs;
		}
		if (this.#beatAt !== null && monotonic - this.#beatAt > silentMs / 2) {
			this.#releasesSilentFrom = monotonic + silentMs;
		}
		const released = await store.agreeing.transaction(async trx => {
			// Uses only the server's clock: a node with a wrong clock must not consider others dead.
			const now = await readServerTime(trx);
			await beat(trx, node, storeTime(now));
			const others = (await listNodes(trx, '')).filter(({id}) => id !== node.id);
			this.#peers = others.filter(
				({seenAt, roles}) => seenAt >= storeTime(now - deadMs) && roles.includes('deliver'),
			).length;
			const deadCount = monotonic < this.#releasesDeadFrom ? 0 : await this.#releaseDead(trx, others, now);
			if (monotonic < this.#releasesSilentFrom) {
				return deadCount;
			}
			const [silentSince, at] = [storeTime(now - silentMs), storeTime(now)];
			// Nodes are removed together with their recipients, so the deliveries come first.
			const deliveries = await releaseSilentDeliveries(trx, silentSince, at);
			return deadCount + deliveries + (await releaseSilentClaims(trx, silentSince, at));
		});
		this.#beatAt = monotonic;
		if (released > 0) {
			onReleased();
		}
	}

	/** Releases what killed nodes held: they are silent, and no connection holds their name. Returns their number. */
	async #releaseDead(trx: Knex.Transaction, others: readonly SeenNode[], now: number): Promise<number> {
		let deadCount = 0;
		for (const {id, seenAt} of others) {
			if (seenAt < storeTime(now - deadMs) && (await isUnheld(trx, id))) {
				await this.#releaseAll(trx, id);
				deadCount += await loseNodes(trx, nodes => nodes.where({id}), storeTime(now));
			}
		}
		return deadCount;
	}

	/** The folder may be a copy of one whose daemon is running. That daemon's connection still holds its name. */
	async #releaseFormer(boot: string): Promise<void> {
		await this.#options.store.agreeing.transaction(async trx => {
			if (await isUnheld(trx, boot)) {
				await this.#releaseAll(trx, boot);
				await removeShares(trx, boot);
			}
		});
	}

	async #releaseAll(trx: Knex.Transaction, boot: string): Promise<void> {
		const now = storeTime(this.#options.clock.now());
		await releaseOwn(trx, recipientClaims, boot, now);
		await releaseOwn(trx, deliveryClaims, boot, now);
		await removeOwnQueueWaits(trx, boot);
	}
}

// Mail that one node accepted may leave through another. The accepting node notifies those that deliver; mail whose
// notice was lost is found by querying the store.

/** The share of its time that the store may spend on this query. */
const maxQueryShare = 0.1;

type ArrivalsOptions<Due> = {
	/** Reads what has work that may be claimed now. */
	readonly readDue: () => Promise<Due[]>;
	readonly onDue: (due: Due[]) => void;
	readonly observer: Pick<Observer, 'storeFailed'>;
	readonly clock: Clock;
	/** The time between two queries, in milliseconds. */
	readonly periodMs: number;
};

/** Periodically reads what is due: mail that another node accepted or left behind. Slow queries run less often. */
export function watchArrivals<Due>({readDue, onDue, observer, clock, periodMs}: ArrivalsOptions<Due>): {
	/** Queries now, unless a query is running. */
	readonly poll: () => void;
	readonly stop: () => void;
} {
	let isStopped = false;
	let isPolling = false;
	let timer = setTimeout(poll, periodMs);

	async function poll(): Promise<void> {
		if (isStopped || isPolling) {
			return;
		}
		isPolling = true;
		clearTimeout(timer);
		const began = clock.monotonic();
		try {
			onDue(await readDue());
		} catch (error) {
			observer.storeFailed(error);
		}
		isPolling = false;
		if (!isStopped) {
			timer = setTimeout(poll, Math.max(periodMs, (clock.monotonic() - began) / maxQueryShare));
		}
	}

	return {
		poll: () => void poll(),
		stop() {
			isStopped = true;
			clearTimeout(timer);
		},
	};
}

/** Sent instead of a list that is too long for a notice. The receiver then queries the store. */
const unlisted = '*';

/** Notifies other nodes of queues with waiting mail. Queues added meanwhile are sent in the next notice. */
export class ArrivalNotices {
	readonly #store: Pick<Store, 'notifyNodes'>;
	/** This node's id: it ignores its own notices. */
	readonly #boot: string;
	readonly #observer: Pick<Observer, 'storeFailed'>;
	#waiting = new Map<string, readonly string[]>();
	#isSending = false;

	constructor(store: Pick<Store, 'notifyNodes'>, boot: string, observer: Pick<Observer, 'storeFailed'>) {
		this.#store = store;
		this.#boot = boot;
		this.#observer = observer;
	}

	send(queues: Iterable<QueueKey>): void {
		for (const queue of queues) {
			const {destination, workspaceId, priority = 'normal'} = queue;
			// Nodes of an older version expect two parts. If they get three, they query the store.
			this.#waiting.set(queueKeyText(queue), [
				destination,
				workspaceId,
				...(priority === 'normal' ? [] : [priority]),
			]);
		}
		if (!this.#isSending) {
			void this.#sendAll().catch(this.#observer.storeFailed);
		}
	}

	async #sendAll(): Promise<void> {
		this.#isSending = true;
		try {
			while (this.#waiting.size > 0) {
				const queues = JSON.stringify([...this.#waiting.values()]);
				this.#waiting = new Map();
				const isShortEnough = Buffer.byteLength(queues) < maxNoticeLength - this.#boot.length;
				await this.#store.notifyNodes(`${this.#boot} ${isShortEnough ? queues : unlisted}`);
			}
		} finally {
			this.#isSending = false;
		}
	}
}

/** Returns the destination queues of a notice (none for this node's own), or `null` if the store must be queried. */
export function readArrivalNotice(notice: string | null, boot: string): QueueKey[] | null {
	const space = notice?.indexOf(' ') ?? -1;
	if (notice === null || space === -1) {
		return null;
	}
	if (notice.slice(0, space) === boot) {
		return [];
	}
	try {
		const queues: unknown = JSON.parse(notice.slice(space + 1));
		return Array.isArray(queues) && queues.every(isQueue)
			? queues.map(([destination, workspaceId, priority]) => ({
					destination,
					workspaceId,
					...(priority && {priority}),
				}))
			: null;
	} catch {
		return null;
	}
}

function isQueue(queue: unknown): queue is [string, string, Priority?] {
	return (
		Array.isArray(queue) &&
		(queue.length === 2 || (queue.length === 3 && priorities.includes(queue[2]))) &&
		queue.every(part => typeof part === 'string')
	);
}
