import type {Knex} from 'knex';
import type {Clock} from '../mail/clock.ts';
import {storeTime} from '../mail/time.ts';
import {isUnheld, readServerTime} from '../store/engine/dialect.ts';
import {releaseOthers, releaseOwn} from '../store/held-claims.ts';
import {beat, type Node, removeNode, silentMs} from '../store/nodes.ts';
import {removeOtherLaneWaits, removeOwnLaneWaits} from '../store/queue/lane-waits.ts';
import {copyClaims, releaseSilentClaims} from '../store/queue/releases.ts';
import type {Store} from '../store/store.ts';
import {deliveryClaims, releaseSilentDeliveries} from '../store/webhooks/webhook-claims.ts';

const usualBeatMs = 5000;
/** Whoever could not tell for so long does not know whether others could. */
const gapMs = silentMs / 2;

export type PresenceOptions = {
	readonly store: Store;
	readonly node: Node;
	/** The daemon that had this data folder before. The folder's lock is ours: it is dead, unless the folder is a copy. */
	readonly former?: string | null;
	/** From now on claims are ours: called once, before the first. */
	readonly onBegin?: () => void;
	readonly clock: Clock;
	/** Between two beats, milliseconds. */
	readonly beatMs?: number;
	/** Claims of a dead daemon were given back. */
	readonly onReleased: () => void;
	readonly onError: (error: unknown) => void;
};

/**
 * Whose claims are alive. On SQLite the folder's lock says that this daemon is the only one: every other claim is dead. On
 * PostgreSQL each node beats, and any node gives back what a silent one held; after the store was away from it, only once
 * the others have had the time to beat again. What the daemon before held on the same data folder is given back at once.
 */
export function createPresence({
	store,
	node,
	former = null,
	clock,
	beatMs = usualBeatMs,
	onReleased,
	onBegin,
	onError,
}: PresenceOptions) {
	const alone = store.dialect.name === 'sqlite';
	let timer: NodeJS.Timeout | undefined;
	/** Of the last beat, and from when on others may be judged: monotonic milliseconds. */
	let told: number | null = null;
	let judgesFrom = Number.NEGATIVE_INFINITY;

	async function tell(): Promise<void> {
		const monotonic = clock.monotonic();
		if (told !== null && monotonic - told > gapMs) {
			judgesFrom = monotonic + silentMs;
		}
		const released = await store.writer.transaction(async trx => {
			// By the server's clock alone: a node whose clock is wrong must not take others for dead.
			const now = await readServerTime(trx);
			await beat(trx, node, storeTime(now));
			if (monotonic < judgesFrom) {
				return 0;
			}
			const [silent, at] = [storeTime(now - silentMs), storeTime(now)];
			// Nodes are forgotten together with their copies: the deliveries go first.
			return (await releaseSilentDeliveries(trx, silent, at)) + (await releaseSilentClaims(trx, silent, at));
		});
		told = monotonic;
		if (released > 0) {
			onReleased();
		}
	}

	/** A folder may be the copy of one whose daemon lives: then that one's connection holds its name. */
	async function releaseFormer(boot: string): Promise<void> {
		await store.writer.transaction(async trx => {
			if (await isUnheld(trx, boot)) {
				await releaseAll(trx, boot);
			}
		});
	}

	async function releaseAll(trx: Knex.Transaction, boot: string): Promise<void> {
		const now = storeTime(clock.now());
		await releaseOwn(trx, copyClaims, boot, now);
		await releaseOwn(trx, deliveryClaims, boot, now);
		await removeOwnLaneWaits(trx, boot);
	}

	return {
		/** To be awaited before anything is claimed. */
		async begin(): Promise<void> {
			if (alone) {
				const now = storeTime(clock.now());
				await store.writer.transaction(async trx => {
					await releaseOthers(trx, copyClaims, node.id, now);
					await releaseOthers(trx, deliveryClaims, node.id, now);
					await removeOtherLaneWaits(trx, node.id);
				});
				return;
			}
			await store.hold(node.id);
			await (former !== null && releaseFormer(former));
			onBegin?.();
			await tell();
			timer = setInterval(() => void tell().catch(onError), beatMs);
		},
		/** Gives back what is still claimed and takes this node off the list. */
		async end(): Promise<void> {
			clearInterval(timer);
			await store.writer.transaction(async trx => {
				await releaseAll(trx, node.id);
				await removeNode(trx, node.id);
			});
		},
	};
}

const periodMs = 1000;
/** The store spends at most this part of its time on the question. */
const share = 0.1;

export type ArrivalsOptions<Due> = {
	/** What has work that may be claimed now. */
	readonly readDue: () => Promise<Due[]>;
	readonly onDue: (due: Due[]) => void;
	readonly onError: (error: unknown) => void;
	readonly clock: Clock;
};

/**
 * Where several nodes share a store, mail that another node accepted, or left behind, comes due unannounced: the store is
 * asked every second, less often if a long queue makes the answer slow.
 */
export function watchArrivals<Due>({readDue, onDue, onError, clock}: ArrivalsOptions<Due>): {stop: () => void} {
	let stopped = false;
	let timer = setTimeout(look, periodMs);

	async function look(): Promise<void> {
		const began = clock.monotonic();
		try {
			onDue(await readDue());
		} catch (error) {
			onError(error);
		}
		if (!stopped) {
			timer = setTimeout(look, Math.max(periodMs, (clock.monotonic() - began) / share));
		}
	}

	return {
		stop() {
			stopped = true;
			clearTimeout(timer);
		},
	};
}
