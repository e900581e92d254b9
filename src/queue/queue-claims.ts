import {setTimeout as delay} from 'node:timers/promises';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {claimMarginMs} from '../mail/retry.ts';
import type {QueueKey} from '../mail/route.ts';
import type {JudgedAttempt} from '../outcome/settle.ts';
import type {GroupWrite, Writer} from '../store/engine/writer.ts';
import {createHeldClaims, storeRetryMs} from '../store/held-claims.ts';
import type {Claim, Claimed, ClaimedNow} from '../store/queue/claims.ts';
import type {ClaimPermit, ClaimResult} from './claim-permit.ts';
import type {SiteChange} from './pace/site-state.ts';
import type {Site} from './site.ts';

/** What the queue reports while it runs. */
export type QueueObserver = {
	/** An outcome is on stable storage. */
	readonly recorded: (recorded: JudgedAttempt) => void;
	/** An outcome was discarded because another daemon had claimed the recipient meanwhile. */
	readonly lost: (recipient: JudgedAttempt['recipient']) => void;
	/** An internal error occurred in evaluating an attempt or in this observer. The recipient has its outcome. */
	readonly faulted: (error: unknown, recipient: JudgedAttempt['recipient']) => void;
	/** The limits of a provider changed. */
	readonly siteChanged: (site: Site, changes: readonly SiteChange[]) => void;
	/** The route of a queue was not found. It will be looked up again. */
	readonly routeNotFound: (error: unknown, queue: QueueKey) => void;
	/** The store was unavailable. The work will be attempted again. */
	readonly storeFailed: (error: unknown) => void;
};

export type ClaimsOptions = {
	readonly writer: Writer;
	readonly claimWrite: GroupWrite<Claim, ClaimedNow>;
	readonly recordWrite: GroupWrite<JudgedAttempt, boolean>;
	/** Claims those of the recipients that are neither claimed nor held. A claim lasts `lastsMs` without its daemon. */
	readonly claimAged: (ids: readonly string[], lastsMs: number) => Promise<readonly Claimed[]>;
	/** Releases this daemon's claims except those of known recipients. Returns the queues of the released ones. */
	readonly releaseUnknown: (known: () => readonly string[]) => Promise<readonly QueueKey[]>;
	/** How long a claim lasts without its daemon, plus a margin. After that another node may take the recipient. */
	readonly attemptDeadlineMs: number;
	readonly clock: Clock;
	readonly observer: Pick<QueueObserver, 'recorded' | 'lost' | 'faulted' | 'storeFailed'>;
};

/**
 * This process's claims in the store. A claim is made by a permit and ended by recording an outcome; one that this
 * process does not know is released. An outcome that cannot be written is retained until it can be, because a message
 * that was sent must not be sent again.
 */
export class QueueClaims {
	readonly #options: ClaimsOptions;
	/** The recipients being attempted, by id. */
	readonly #held: ReturnType<typeof createHeldClaims<readonly QueueKey[]>>;
	#unwritten = 0;

	constructor(options: ClaimsOptions) {
		this.#options = options;
		this.#held = createHeldClaims({...options, onStoreError: options.observer.storeFailed});
	}

	/** Whether an outcome is waiting to be written. */
	get isFailing(): boolean {
		return this.#unwritten > 0;
	}

	/** Whether the store may have claims of this daemon that this process does not know. */
	get isDoubtful(): boolean {
		return this.#held.isDoubtful;
	}

	/**
	 * Claims recipients and returns them with what their queue needs to know. Returns no recipients if the store fails.
	 */
	async claim(permit: ClaimPermit): Promise<{readonly recipients: readonly Claimed[]; readonly result: ClaimResult}> {
		const {recipients: claimed, nextDue, warmedUp} = await this.#claimFromStore(permit);
		const recipients = claimed.filter(({id}) => this.#held.take(id));
		const nextDueMs = nextDue === null ? null : Date.parse(nextDue);
		const result = {
			count: recipients.length,
			nextDue: recipients.length < claimed.length ? this.#options.clock.now() : nextDueMs,
			warmedUp,
		};
		return {recipients, result};
	}

	/** Claims recipients past their lifetime so that they can be recorded. Returns an empty list if the store fails. */
	async claimAged(ids: readonly string[]): Promise<readonly Claimed[]> {
		try {
			return (await this.#options.claimAged(ids, this.#lastsMs)).filter(({id}) => this.#held.take(id));
		} catch (error) {
			this.#failed(error);
			return [];
		}
	}

	/** Resolves once the outcome of a claimed recipient is on stable storage, or another daemon has the recipient. */
	async record(recorded: JudgedAttempt): Promise<void> {
		const {observer} = this.#options;
		const isOurs = await this.#write(recorded);
		this.#held.end(recorded.recipient.id);
		// This is outside of the retries: an error here is not the store's, and the outcome must not be written again.
		try {
			if (isOurs) {
				observer.recorded(recorded);
			} else {
				observer.lost(recorded.recipient);
			}
		} catch (error) {
			observer.faulted(error, recorded.recipient);
		}
	}

	/** Releases unknown claims and returns their queues. Writes run one by one, so earlier claims are known by then. */
	async releaseUnknown(): Promise<readonly QueueKey[]> {
		return (await this.#held.releaseUnknown()) ?? [];
	}

	async #claimFromStore({queue, limit, asksNext, newestFirst, warmUp}: ClaimPermit): Promise<ClaimedNow> {
		const {writer, claimWrite, clock} = this.#options;
		const {destination, workspaceId, priority} = queue;
		try {
			const claim = {
				destination,
				workspaceId,
				priority,
				limit,
				newestFirst,
				lastsMs: this.#lastsMs,
				asksNext,
				warmUp,
			};
			return await writer.submit(claimWrite, claim);
		} catch (error) {
			this.#failed(error);
			return {recipients: [], nextDue: storeTime(clock.now() + storeRetryMs), warmedUp: null};
		}
	}

	/** Retries until the outcome is written. Returns `false` if another daemon has the recipient. */
	async #write(judged: JudgedAttempt): Promise<boolean> {
		const {writer, recordWrite, observer} = this.#options;
		for (let hasFailed = false; ; hasFailed = true) {
			try {
				const isOurs = await writer.submit(recordWrite, judged);
				this.#unwritten -= hasFailed ? 1 : 0;
				return isOurs;
			} catch (error) {
				this.#unwritten += hasFailed ? 0 : 1;
				observer.storeFailed(error);
				await delay(storeRetryMs);
			}
		}
	}

	get #lastsMs(): number {
		return this.#options.attemptDeadlineMs + claimMarginMs;
	}

	#failed(error: unknown): void {
		this.#options.observer.storeFailed(error);
		this.#held.markDoubtful();
	}
}
