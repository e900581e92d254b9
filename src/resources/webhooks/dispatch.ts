import type {Clock, Moment} from '../../kit/clock.ts';
import {storeTime} from '../../kit/time.ts';
import {afterAttempt, putOff} from '../../mail/webhook.ts';
import type {EventWriter} from '../../outcome/outbox.ts';
import type {Writer} from '../../store/engine/writer.ts';
import {createHeldClaims, type HeldClaimsOptions, storeRetryMs} from '../../store/held-claims.ts';
import {EndpointQueues, type EndpointQueuesOptions, type Permit} from './endpoint-queues.ts';
import type {PostResult} from './post.ts';
import {type ClaimedDelivery, claimName, type EndpointWork} from './queue-store.ts';
import {createDispatchWrite, type DispatchResult, type FinishedAttempt, toBatchResults} from './turn.ts';

type DispatcherOptions = EndpointQueuesOptions &
	HeldClaimsOptions<unknown> & {
		readonly writer: Writer;
		/** Notifies endpoints that one was disabled. */
		readonly eventWriter: EventWriter;
		/** The id in this daemon's claims. */
		readonly boot: string;
		/** Reads the endpoints with pending deliveries from the store. */
		readonly readWork: () => Promise<readonly EndpointWork[]>;
		/** Makes one attempt, or returns `null` if none can start at present. Rejects only on an internal error. */
		readonly post: (delivery: ClaimedDelivery) => Promise<PostResult | null>;
		/** The wait after a failed attempt, in milliseconds. */
		readonly backoffMs: number;
		readonly clock: Clock;
		readonly observer: {
			/** Called once an attempt's result, or that it could not start, is on stable storage. */
			readonly posted: (attempted: FinishedAttempt) => void;
			readonly webhookProblem: (error: unknown) => void;
		};
	};

/** How precisely waiting deliveries come due, in milliseconds. */
const tickMs = 100;
const internalError: PostResult = {
	status: null,
	error: 'an internal error in mailctl',
	detail: null,
	answer: null,
	address: null,
	tls: null,
	ms: 0,
};

/**
 * Posts events to webhook endpoints. It relies on the deliveries in the store: one transaction after another stores the
 * results of attempts and claims new deliveries. Memory holds only attempts in progress and, for prompt endpoints, the
 * next few. A result that cannot be stored is retained, and nothing is claimed meanwhile. After a crash a delivery is
 * posted again, never lost.
 */
export class WebhookDispatcher {
	readonly #options: DispatcherOptions;
	readonly #endpoints: EndpointQueues<ClaimedDelivery>;
	readonly #turnWrite: ReturnType<typeof createDispatchWrite>;
	/** Finished, but not stored yet. */
	#ended: FinishedAttempt[] = [];
	/** Attempts in progress, and deliveries waiting in memory. */
	readonly #held: ReturnType<typeof createHeldClaims<unknown>>;
	readonly #idle: Array<() => void> = [];
	#state: 'idle' | 'running' | 'stopping' = 'idle';
	#timer: NodeJS.Timeout | undefined;
	#isBatching = false;

	constructor(options: DispatcherOptions) {
		this.#options = options;
		this.#endpoints = new EndpointQueues(options);
		this.#held = createHeldClaims(options);
		this.#turnWrite = createDispatchWrite(options.eventWriter);
	}

	/** Reports that deliveries to these endpoints were committed and are due now. */
	due(endpointIds: readonly string[]): void {
		const now = this.#options.clock.now();
		for (const endpointId of endpointIds) {
			this.#endpoints.due(endpointId, now, now);
		}
		this.#plan();
	}

	/** Reports that endpoints or deliveries may have changed, so that no attempt starts with old data. */
	recall(): void {
		this.#endpoints.recall(this.#moment());
		this.#plan();
	}

	/** Reads the store again, because something else changed what is due (the CLI, another node, the clock). */
	async rescan(): Promise<void> {
		const now = this.#options.clock.now();
		this.recall();
		for (const {endpointId, due, failingSince} of await this.#options.readWork()) {
			this.#endpoints.sync(endpointId, Date.parse(due), failingSince !== null, now);
		}
		this.#plan();
	}

	/** Reads the pending deliveries from the store and starts posting. */
	async start(): Promise<void> {
		this.#state = 'running';
		this.#timer = setInterval(() => {
			this.#endpoints.advance(this.#moment());
			this.#plan();
		}, tickMs);
		await this.rescan();
	}

	/** Starts no more attempts. Resolves when all attempts in progress have finished and are stored. */
	async stop(): Promise<void> {
		this.#state = 'stopping';
		this.#endpoints.recall(this.#moment());
		clearInterval(this.#timer);
		await new Promise<void>(resolve => {
			this.#idle.push(resolve);
			this.#plan();
		});
	}

	/** Attempts granted or in progress. */
	get inFlight(): number {
		return this.#endpoints.inFlight;
	}

	#moment(): {now: number; monotonic: number} {
		return {now: this.#options.clock.now(), monotonic: this.#options.clock.monotonic()};
	}

	#plan(): void {
		if (!this.#isBatching && this.#state !== 'idle') {
			this.#isBatching = true;
			// Everything that finishes or comes due in the same turn of the event loop shares a transaction.
			setImmediate(() => void this.#runBatches());
		}
	}

	async #runBatches(): Promise<void> {
		for (;;) {
			for (const delivery of this.#endpoints.takeReturned()) {
				this.#held.end(claimName(delivery));
				this.#held.markDoubtful();
			}
			if (this.#held.isDoubtful && (this.#state === 'running' || this.#ended.length > 0)) {
				await this.#held.releaseUnknown();
				continue;
			}
			const permits = this.#state === 'running' ? this.#endpoints.permits() : [];
			const attempted = this.#ended;
			this.#ended = [];
			if (permits.length === 0 && attempted.length === 0) {
				break;
			}
			if (!(await this.#runBatch(permits, attempted))) {
				await new Promise(resolve => setTimeout(resolve, storeRetryMs));
			}
		}
		this.#isBatching = false;
		if (this.#state === 'stopping' && this.#endpoints.inFlight === 0) {
			for (const resolve of this.#idle.splice(0)) {
				resolve();
			}
		}
	}

	/** Returns `false` if the store could not be written. Then nothing has changed. */
	async #runBatch(
		permits: readonly Permit<ClaimedDelivery>[],
		attempted: readonly FinishedAttempt[],
	): Promise<boolean> {
		const now = this.#options.clock.now();
		let result: DispatchResult;
		try {
			result = await this.#options.writer.submit(this.#turnWrite, {
				boot: this.#options.boot,
				...toBatchResults(attempted),
				permits: permits.map(({endpoint, limit}) => ({endpointId: endpoint.endpointId, limit})),
				now: storeTime(now),
			});
		} catch (error) {
			this.#options.onStoreError(error);
			this.#held.markDoubtful();
			this.#ended = [...attempted, ...this.#ended];
			const when = this.#moment();
			for (const permit of permits) {
				this.#start(this.#endpoints.claimed(permit, [], now, when), when);
			}
			return false;
		}
		for (const attempt of attempted) {
			this.#conclude(attempt, result.moved.has(attempt.delivery.id));
		}
		this.#begin(permits, result);
		return true;
	}

	#conclude(attempted: FinishedAttempt, hasMoved: boolean): void {
		const {delivery, after} = attempted;
		this.#held.end(claimName(delivery));
		if (hasMoved && after.nextAttemptAt !== null) {
			this.#endpoints.due(delivery.endpointId, after.nextAttemptAt, this.#options.clock.now());
		}
		this.#options.observer.posted(attempted);
	}

	#begin(permits: readonly Permit<ClaimedDelivery>[], {deliveries, nextDue}: DispatchResult): void {
		const claimedByEndpoint = new Map<string, ClaimedDelivery[]>();
		for (const delivery of deliveries) {
			if (this.#held.take(claimName(delivery))) {
				const claimed = claimedByEndpoint.get(delivery.endpointId) ?? [];
				claimedByEndpoint.set(delivery.endpointId, [...claimed, delivery]);
			}
		}
		const when = this.#moment();
		for (const permit of permits) {
			const {endpointId} = permit.endpoint;
			const claimed = claimedByEndpoint.get(endpointId) ?? [];
			const due = nextDue.get(endpointId);
			this.#start(
				this.#endpoints.claimed(permit, claimed, due === undefined ? null : Date.parse(due), when),
				when,
			);
		}
	}

	#start(deliveries: readonly ClaimedDelivery[], when: Moment): void {
		for (const delivery of deliveries) {
			void this.#attempt(delivery, when);
		}
	}

	async #attempt(delivery: ClaimedDelivery, {now: began, monotonic}: Moment): Promise<void> {
		const end = await this.#options.post(delivery).catch(error => {
			this.#options.observer.webhookProblem(error);
			return internalError;
		});
		const when = this.#moment();
		const isAcknowledged = end !== null && end.error === null;
		const {backoffMs} = this.#options;
		const after =
			end === null
				? putOff(delivery.attempts, when.now, backoffMs)
				: afterAttempt(delivery.attempts, isAcknowledged, when.now, backoffMs, longRetry(delivery, end, began));
		const wasFailing = this.#endpoints.isFailing(delivery.endpointId);
		if (after.disables !== undefined) {
			this.#endpoints.recall(when);
		}
		// Its slot is free from here on: for a waiting delivery, or for a claim of the transaction that stores this.
		this.#start(this.#endpoints.ended(delivery.endpointId, monotonic, isAcknowledged, end?.ms ?? 0, when), when);
		this.#ended.push({delivery, end, began, ended: when.now, after, wasFailing});
		this.#plan();
	}
}

function longRetry({retry, ...delivery}: ClaimedDelivery, {status, retryAfterMs = 0}: PostResult, began: number) {
	const firstAt = Date.parse(delivery.firstAt ?? storeTime(began));
	return retry === 'long' ? {firstAt, failingSince: delivery.failingSince, status, retryAfterMs} : null;
}
