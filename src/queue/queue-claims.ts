import {setTimeout as delay} from 'node:timers/promises';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {claimMarginMs} from '../mail/retry.ts';
import type {QueueKey} from '../mail/route.ts';
import type {JudgedTry} from '../outcome/settle.ts';
import type {SiteChange} from '../pace/site-state.ts';
import type {GroupWrite, Writer} from '../store/engine/writer.ts';
import {createHeldClaims, storeRetryMs} from '../store/held-claims.ts';
import type {Claim, Claimed, ClaimedNow} from '../store/queue/claims.ts';
import type {ClaimPermit, ClaimResult} from './claim-permit.ts';
import type {Site} from './site.ts';

/** What the queue reports while it runs. */
export type QueueObserver = {
	/** An outcome is on stable storage. */
	readonly recorded: (recorded: JudgedTry) => void;
	/** An outcome was discarded: another daemon had taken the recipient meanwhile. */
	readonly lost: (recipient: JudgedTry['recipient']) => void;
	/** A fault of ours in judging an attempt or in this observer; the recipient has its outcome. */
	readonly faulted: (error: unknown, recipient: JudgedTry['recipient']) => void;
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
 * The claims of this process in the store: made by a permit, ended by recording an outcome, released if this process
 * does not know them. An outcome is kept until it can be written, because a sent mail must not be sent again.
 */
export class QueueClaims {
	readonly #options: ClaimsOptions;
	/** The recipients being tried, by id. */
	readonly #held: ReturnType<typeof createHeldClaims<readonly QueueKey[]>>;
	#unwritten = 0;

	constructor(options: ClaimsOptions) {
		this.#options = options;
		this.#held = createHeldClaims({...options, onStoreError: options.observer.storeFailed});
	}

	/** Whether an outcome waits for the store. */
	get failing(): boolean {
		return this.#unwritten > 0;
	}

	/** Whether the store may have claims of this daemon that this process does not know. */
	get isDoubtful(): boolean {
		return this.#held.isDoubtful;
	}

	/** The recipients to be tried, and what their queue learns; no recipients if the store fails. */
	async claim(permit: ClaimPermit): Promise<{readonly recipients: readonly Claimed[]; readonly result: ClaimResult}> {
		const {recipients: claimed, nextDue, warmedUp} = await this.#ask(permit);
		const recipients = claimed.filter(({id}) => this.#held.take(id));
		const next = nextDue === null ? null : Date.parse(nextDue);
		const result = {
			count: recipients.length,
			nextDue: recipients.length < claimed.length ? this.#options.clock.now() : next,
			warmedUp,
		};
		return {recipients, result};
	}

	/** Recipients past their lifetime, to be recorded; an empty list if the store fails. */
	async claimAged(ids: readonly string[]): Promise<readonly Claimed[]> {
		try {
			return (await this.#options.claimAged(ids, this.#lastsMs)).filter(({id}) => this.#held.take(id));
		} catch (error) {
			this.#failed(error);
			return [];
		}
	}

	/** Resolves once the outcome of a claimed recipient is on stable storage, or the recipient is another daemon's. */
	async record(recorded: JudgedTry): Promise<void> {
		const {observer} = this.#options;
		const isOurs = await this.#write(recorded);
		this.#held.end(recorded.recipient.id);
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
	}

	/** Releases them and answers their queues. Writes are serialised, so all earlier claims are known by then. */
	async releaseUnknown(): Promise<readonly QueueKey[]> {
		return (await this.#held.releaseUnknown()) ?? [];
	}

	async #ask({queue, limit, asksNext, newestFirst, warmUp}: ClaimPermit): Promise<ClaimedNow> {
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

	/** Retries until it is written; false: another daemon has taken the recipient. */
	async #write(recorded: JudgedTry): Promise<boolean> {
		const {writer, recordWrite, observer} = this.#options;
		for (let failed = false; ; failed = true) {
			try {
				const isOurs = await writer.submit(recordWrite, recorded);
				this.#unwritten -= failed ? 1 : 0;
				return isOurs;
			} catch (error) {
				this.#unwritten += failed ? 0 : 1;
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
		this.#held.doubt();
	}
}
