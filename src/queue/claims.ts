import {setTimeout as delay} from 'node:timers/promises';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {claimMarginMs} from '../mail/retry.ts';
import type {QueueKey} from '../mail/route.ts';
import type {JudgedTry, TriedRecipient} from '../outcome/record.ts';
import type {GroupWrite, Writer} from '../store/engine/writer.ts';
import {createHeldClaims, storeRetryMs} from '../store/held-claims.ts';
import type {Claim, Claimed, ClaimedNow} from '../store/queue/claims.ts';
import type {ClaimPermit, ClaimResult} from './claim-permits.ts';

export type ClaimsOptions = {
	readonly writer: Writer;
	readonly claimWrite: GroupWrite<Claim, ClaimedNow>;
	readonly recordWrite: GroupWrite<JudgedTry, boolean>;
	/** Claims those of the copies that nobody has or holds, for so long (milliseconds) without their daemon. */
	readonly claimAged: (ids: readonly string[], lastsMs: number) => Promise<readonly Claimed[]>;
	/** Gives back claims of this daemon other than those of the copies it knows; answers their lanes. */
	readonly releaseUnknown: (known: () => readonly string[]) => Promise<readonly QueueKey[]>;
	/** With a margin: how long a claim lasts without its daemon. Past it another one may take the copy if nobody knows this one. */
	readonly attemptDeadlineMs: number;
	readonly clock: Clock;
	/** After an outcome is on stable storage. */
	readonly onRecorded: (recorded: JudgedTry) => void;
	/** Its outcome was let go: somebody had taken the copy from us meanwhile. */
	readonly onLost: (recipient: TriedRecipient) => void;
	/** One of the two has failed; the outcome is stored. */
	readonly onFault: (error: unknown, recipient: TriedRecipient) => void;
	/** The store could not be written; it is tried again. */
	readonly onStoreError: (error: unknown) => void;
};

/**
 * The claims of this process in the store: taken by a grant, ended by recording an outcome, given back where nobody here
 * knows of them. An outcome that cannot be written is kept until it is, for what was sent must not be sent again.
 */
export function createClaims(options: ClaimsOptions) {
	const {writer, claimWrite, recordWrite, attemptDeadlineMs, clock, onRecorded, onLost, onFault, onStoreError} =
		options;
	/** The copies being tried, by id. */
	const held = createHeldClaims(options);
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
			onStoreError(error);
			held.doubt();
			return {recipients: [], nextDue: storeTime(clock.now() + storeRetryMs), warmedUp: null};
		}
	}

	/** Until it is written; false: another daemon has taken the copy from us. */
	async function write(recorded: JudgedTry): Promise<boolean> {
		for (let failed = false; ; failed = true) {
			try {
				const isOurs = await writer.submit(recordWrite, recorded);
				unwritten -= failed ? 1 : 0;
				return isOurs;
			} catch (error) {
				unwritten += failed ? 0 : 1;
				onStoreError(error);
				await delay(storeRetryMs);
			}
		}
	}

	return {
		/** The copies to be tried, until they are recorded, and what the lanes are to know; none where the store fails. */
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

		/** Copies past their lifetime, to be recorded; none where the store fails. */
		async claimAged(ids: readonly string[]): Promise<readonly Claimed[]> {
			try {
				const claimed = await options.claimAged(ids, attemptDeadlineMs + claimMarginMs);
				return claimed.filter(({id}) => held.take(id));
			} catch (error) {
				onStoreError(error);
				held.doubt();
				return [];
			}
		},

		/** Resolves once the outcome of a claimed copy is on stable storage, or is somebody else's. */
		async record(recorded: JudgedTry): Promise<void> {
			const isOurs = await write(recorded);
			held.end(recorded.recipient.id);
			// Not within the retries: what fails here is no failure of the store, and the outcome must not be written again.
			try {
				if (isOurs) {
					onRecorded(recorded);
				} else {
					onLost(recorded.recipient);
				}
			} catch (error) {
				onFault(error, recorded.recipient);
			}
		},

		/** Whether an outcome waits for the store. */
		get failing(): boolean {
			return unwritten > 0;
		},

		/** Whether there may be claims of this daemon that nobody here knows of. */
		get isDoubtful(): boolean {
			return held.isDoubtful;
		},

		/** Gives them back and answers their lanes. The store takes turns: by then all that was claimed before is known. */
		releaseUnknown: async (): Promise<readonly QueueKey[]> => (await held.releaseUnknown()) ?? [],
	};
}
