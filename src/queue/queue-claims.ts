import {setTimeout as delay} from 'node:timers/promises';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {claimMarginMs} from '../mail/retry.ts';
import type {QueueKey} from '../mail/route.ts';
import type {JudgedTry, TriedRecipient} from '../outcome/settle.ts';
import type {SiteChange} from '../pace/site-state.ts';
import type {GroupWrite, Writer} from '../store/engine/writer.ts';
import {createHeldClaims, storeRetryMs} from '../store/held-claims.ts';
import type {Claim, Claimed, ClaimedNow} from '../store/queue/claims.ts';
import type {ClaimPermit, ClaimResult} from './destination-queues.ts';
import type {Site} from './site.ts';

/** What the queue reports while it runs. */
export type QueueObserver = {
	/** An outcome is on stable storage. */
	readonly recorded: (recorded: JudgedTry) => void;
	/** An outcome was discarded: another daemon had taken the recipient meanwhile. */
	readonly lost: (recipient: TriedRecipient) => void;
	/** A fault of ours in judging an attempt or in this observer; the recipient has its outcome. */
	readonly faulted: (error: unknown, recipient: TriedRecipient) => void;
	/** What a site may have changed. */
	readonly siteChanged: (site: Site, changes: readonly SiteChange[]) => void;
	/** The route of a queue was not found; it is looked up again. */
	readonly routeNotFound: (error: unknown, queue: QueueKey) => void;
	/** The store could not be used; the work is tried again. */
	readonly storeFailed: (error: unknown) => void;
};

export type ClaimsOptions = {
	readonly writer: Writer;
	readonly claimWrite: GroupWrite<Claim, ClaimedNow>;
	readonly recordWrite: GroupWrite<JudgedTry, boolean>;
	/** Claims those of the recipients that are neither claimed nor held. A claim lasts `lastsMs` without its daemon. */
	readonly claimAged: (ids: readonly string[], lastsMs: number) => Promise<readonly Claimed[]>;
	/** Releases this daemon's claims other than those of the recipients it knows; answers their queues. */
	readonly releaseUnknown: (known: () => readonly string[]) => Promise<readonly QueueKey[]>;
	/** A claim lasts this long, and a margin, without its daemon. Then another node may take the recipient. */
	readonly attemptDeadlineMs: number;
	readonly clock: Clock;
	readonly observer: Pick<QueueObserver, 'recorded' | 'lost' | 'faulted' | 'storeFailed'>;
};

/**
 * The claims of this process in the store: made by a permit, ended by recording an outcome, released if this process does not
 * know them. An outcome is kept until it can be written, because a sent mail must not be sent again.
 */
export function createClaims(options: ClaimsOptions) {
	const {writer, claimWrite, recordWrite, attemptDeadlineMs, clock, observer} = options;
	/** The recipients being tried, by id. */
	const held = createHeldClaims({...options, onStoreError: observer.storeFailed});
	let unwritten = 0;

	async function ask({queue, limit, asksNext, newestFirst, warmUp}: ClaimPermit): Promise<ClaimedNow> {
		try {
			return await writer.submit(claimWrite, {
				destination: queue.destination,
				workspaceId: queue.workspaceId,
				limit,
				newestFirst,
				lastsMs: attemptDeadlineMs + claimMarginMs,
				asksNext,
				warmUp,
			});
		} catch (error) {
			observer.storeFailed(error);
			held.doubt();
			return {recipients: [], nextDue: storeTime(clock.now() + storeRetryMs), warmedUp: null};
		}
	}

	/** Retries until it is written; false: another daemon has taken the recipient. */
	async function write(recorded: JudgedTry): Promise<boolean> {
		for (let failed = false; ; failed = true) {
			try {
				const isOurs = await writer.submit(recordWrite, recorded);
				unwritten -= failed ? 1 : 0;
				return isOurs;
			} catch (error) {
				unwritten += failed ? 0 : 1;
				observer.storeFailed(error);
				await delay(storeRetryMs);
			}
		}
	}

	return {
		/** The recipients to be tried, and what their queue learns; no recipients if the store fails. */
		async claim(permit: ClaimPermit): Promise<{readonly recipients: readonly Claimed[]; readonly result: ClaimResult}> {
			const {recipients: claimed, nextDue, warmedUp} = await ask(permit);
			const recipients = claimed.filter(({id}) => held.take(id));
			const next = nextDue === null ? null : Date.parse(nextDue);
			const result = {
				count: recipients.length,
				nextDue: recipients.length < claimed.length ? clock.now() : next,
				warmedUp,
			};
			return {recipients, result};
		},

		/** Recipients past their lifetime, to be recorded; an empty list if the store fails. */
		async claimAged(ids: readonly string[]): Promise<readonly Claimed[]> {
			try {
				const claimed = await options.claimAged(ids, attemptDeadlineMs + claimMarginMs);
				return claimed.filter(({id}) => held.take(id));
			} catch (error) {
				observer.storeFailed(error);
				held.doubt();
				return [];
			}
		},

		/** Resolves once the outcome of a claimed recipient is on stable storage, or the recipient is another daemon's. */
		async record(recorded: JudgedTry): Promise<void> {
			const isOurs = await write(recorded);
			held.end(recorded.recipient.id);
			// Outside the retries: a fault here is not the store's, and the outcome must not be written again.
			try {
				if (isOurs) {
					observer.recorded(recorded);
				} else {
					observer.lost(recorded.recipient);
				}
			} catch (error) {
				observer.faulted(error, recorded.recipient);
			}
		},

		/** Whether an outcome waits for the store. */
		get failing(): boolean {
			return unwritten > 0;
		},

		/** Whether the store may have claims of this daemon that this process does not know. */
		get isDoubtful(): boolean {
			return held.isDoubtful;
		},

		/** Releases them and answers their queues. The store takes turns: by then all earlier claims are known. */
		releaseUnknown: async (): Promise<readonly QueueKey[]> => (await held.releaseUnknown()) ?? [],
	};
}
