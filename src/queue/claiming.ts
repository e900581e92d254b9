import {setTimeout as delay} from 'node:timers/promises';
import type {Clock} from '../mail/clock.ts';
import {claimMarginMs} from '../mail/retry.ts';
import {storeTime} from '../mail/time.ts';
import type {LaneKey} from '../mail/way.ts';
import type {GroupWrite, Writer} from '../store/engine/writer.ts';
import type {Claim, Claimed, ClaimedNow} from '../store/queue/claims.ts';
import type {Brought, Grant} from './grant.ts';
import {storeRetryMs} from './store-retry.ts';

export type ClaimingOptions = {
	readonly writer: Writer;
	readonly claimWrite: GroupWrite<Claim, ClaimedNow>;
	/** Gives back claims of this daemon other than those of the copies it knows; answers their lanes. */
	readonly releaseUnknown: (known: () => readonly string[]) => Promise<readonly LaneKey[]>;
	/** Past this a claim without a result comes due again by itself. */
	readonly attemptDeadlineMs: number;
	readonly clock: Clock;
	/** The store could not be written; it is tried again. */
	readonly onStoreError: (error: unknown) => void;
};

/** Claims in the store what was granted, and gives back what nobody here knows of. */
export function createClaiming(options: ClaimingOptions) {
	const {writer, claimWrite, attemptDeadlineMs, clock, onStoreError} = options;
	/** Ids of the copies being tried: another node may give one back that comes to us again. */
	const trying = new Set<string>();
	/** A claim failed: it may have been committed all the same. */
	let doubtful = false;

	async function ask({lane, limit, asksNext, newestFirst, warmUp}: Grant): Promise<ClaimedNow> {
		try {
			return await writer.submit(claimWrite, {
				destination: lane.destination,
				workspaceId: lane.workspaceId,
				limit,
				newestFirst,
				forMs: attemptDeadlineMs + claimMarginMs,
				asksNext,
				warmUp,
			});
		} catch (error) {
			onStoreError(error);
			doubtful = true;
			return {copies: [], nextDue: storeTime(clock.now() + storeRetryMs), warmedUp: null};
		}
	}

	return {
		/** The copies to be tried, until they are `settled`, and what the lanes are to know; none where the store fails. */
		async claim(grant: Grant): Promise<{readonly copies: readonly Claimed[]; readonly brought: Brought}> {
			const {copies: claimed, nextDue, warmedUp} = await ask(grant);
			const copies = claimed.filter(({id}) => !trying.has(id));
			for (const {id} of copies) {
				trying.add(id);
			}
			const next = nextDue === null ? null : Date.parse(nextDue);
			const brought = {count: copies.length, nextDue: copies.length < claimed.length ? clock.now() : next, warmedUp};
			return {copies, brought};
		},

		/** What came of the copy is recorded. */
		settled: ({id}: Claimed): void => void trying.delete(id),

		/** Whether there may be claims of this daemon that nobody here knows of. */
		get isDoubtful(): boolean {
			return doubtful;
		},

		/** Gives them back and answers their lanes. The store takes turns: by then all that was claimed before is known. */
		async releaseUnknown(): Promise<readonly LaneKey[]> {
			doubtful = false;
			try {
				return await options.releaseUnknown(() => [...trying]);
			} catch (error) {
				onStoreError(error);
				await delay(storeRetryMs);
				doubtful = true;
				return [];
			}
		},
	};
}
