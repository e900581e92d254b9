import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {afterAttempt, putOff} from '../mail/webhook.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import type {Writer} from '../store/engine/writer.ts';
import {createHeldClaims, type HeldClaimsOptions, storeRetryMs} from '../store/held-claims.ts';
import {type ClaimedDelivery, claimName, type EndpointWork} from '../store/webhook-queue.ts';
import type {PostEnd} from './post.ts';
import {type Attempted, createTurnWrite, endsOf, type Turned} from './turn.ts';

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
		readonly post: (delivery: ClaimedDelivery) => Promise<PostEnd | null>;
		/** The wait after a failed attempt, in milliseconds. */
		readonly backoffMs: number;
		readonly clock: Clock;
		readonly observer: {
			/** Called once an attempt's result, or that it could not start, is on stable storage. */
			readonly posted: (attempted: Attempted) => void;
			readonly webhookFault: (error: unknown) => void;
		};
	};

/** How precisely waiting deliveries come due, in milliseconds. */
const tickMs = 100;
const ourFault: PostEnd = {
	status: null,
	error: 'an internal error of this server',
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
	readonly #endpoints: ReturnType<typeof createEndpointQueues<ClaimedDelivery>>;
	readonly #turnWrite: ReturnType<typeof createTurnWrite>;
	/** Finished, but not stored yet. */
	#ended: Attempted[] = [];
	/** Attempts in progress, and deliveries waiting in memory. */
	readonly #held: ReturnType<typeof createHeldClaims<unknown>>;
	readonly #idle: Array<() => void> = [];
	#state: 'idle' | 'running' | 'stopping' = 'idle';
	#timer: NodeJS.Timeout | undefined;
	#turning = false;

	constructor(options: DispatcherOptions) {
		this.#options = options;
		this.#endpoints = createEndpointQueues<ClaimedDelivery>(options);
		this.#held = createHeldClaims(options);
		this.#turnWrite = createTurnWrite(options.eventWriter);
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
			this.#endpoints.found(endpointId, Date.parse(due), failingSince !== null, now);
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
		if (!this.#turning && this.#state !== 'idle') {
			this.#turning = true;
			// Everything that finishes or comes due in the same turn of the event loop shares a transaction.
			setImmediate(() => void this.#turns());
		}
	}

	async #turns(): Promise<void> {
		for (;;) {
			for (const delivery of this.#endpoints.takeReturned()) {
				this.#held.end(claimName(delivery));
				this.#held.doubt();
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
			if (!(await this.#turn(permits, attempted))) {
				await new Promise(resolve => setTimeout(resolve, storeRetryMs));
			}
		}
		this.#turning = false;
		if (this.#state === 'stopping' && this.#endpoints.inFlight === 0) {
			for (const resolve of this.#idle.splice(0)) {
				resolve();
			}
		}
	}

	/** Returns `false` if the store could not be written. Then nothing has changed. */
	async #turn(permits: readonly Permit<ClaimedDelivery>[], attempted: readonly Attempted[]): Promise<boolean> {
		const now = this.#options.clock.now();
		let turned: Turned;
		try {
			turned = await this.#options.writer.submit(this.#turnWrite, {
				boot: this.#options.boot,
				...endsOf(attempted),
				permits: permits.map(({endpoint, limit}) => ({endpointId: endpoint.endpointId, limit})),
				now: storeTime(now),
			});
		} catch (error) {
			this.#options.onStoreError(error);
			this.#held.doubt();
			this.#ended = [...attempted, ...this.#ended];
			const when = this.#moment();
			for (const permit of permits) {
				this.#start(this.#endpoints.claimed(permit, [], now, when), when);
			}
			return false;
		}
		for (const one of attempted) {
			this.#conclude(one, turned.moved.has(one.delivery.id));
		}
		this.#begin(permits, turned);
		return true;
	}

	#conclude(attempted: Attempted, moved: boolean): void {
		const {delivery, after} = attempted;
		this.#held.end(claimName(delivery));
		if (moved && after.nextAttemptAt !== null) {
			this.#endpoints.due(delivery.endpointId, after.nextAttemptAt, this.#options.clock.now());
		}
		this.#options.observer.posted(attempted);
	}

	#begin(permits: readonly Permit<ClaimedDelivery>[], {deliveries, nextDue}: Turned): void {
		const fresh = new Map<string, ClaimedDelivery[]>();
		for (const delivery of deliveries) {
			if (this.#held.take(claimName(delivery))) {
				fresh.set(delivery.endpointId, [...(fresh.get(delivery.endpointId) ?? []), delivery]);
			}
		}
		const when = this.#moment();
		for (const permit of permits) {
			const {endpointId} = permit.endpoint;
			const claimed = fresh.get(endpointId) ?? [];
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
			this.#options.observer.webhookFault(error);
			return ourFault;
		});
		const when = this.#moment();
		const acknowledged = end !== null && end.error === null;
		const {backoffMs} = this.#options;
		const after =
			end === null
				? putOff(delivery.attempts, when.now, backoffMs)
				: afterAttempt(delivery.attempts, acknowledged, when.now, backoffMs, longOf(delivery, end, began));
		const wasFailing = this.#endpoints.isFailing(delivery.endpointId);
		if (after.disables !== undefined) {
			this.#endpoints.recall(when);
		}
		// Its slot is free from here on: for a waiting delivery, or for a claim of the transaction that stores this.
		this.#start(this.#endpoints.ended(delivery.endpointId, monotonic, acknowledged, end?.ms ?? 0, when), when);
		this.#ended.push({delivery, end, began, ended: when.now, after, wasFailing});
		this.#plan();
	}
}

function longOf({retry, ...delivery}: ClaimedDelivery, {status, retryAfterMs = 0}: PostEnd, began: number) {
	const firstAt = Date.parse(delivery.firstAt ?? storeTime(began));
	return retry === 'long' ? {firstAt, failingSince: delivery.failingSince, status, retryAfterMs} : null;
}

/** The state of one endpoint with pending deliveries. */
type EndpointQueue<Item> = {
	readonly endpointId: string;
	/** When each attempt in progress started, in monotonic milliseconds. */
	readonly begun: number[];
	/** Slots granted, but not used yet. */
	granted: number;
	/** Claimed beyond its slots, in order. Each starts when an attempt finishes. Only prompt endpoints have any. */
	ahead: Item[];
	/** Deliveries waiting in memory were returned to the store after the last grant. */
	wentBack: boolean;
	/** When something is due (wall clock), or `null` if nothing is known to be. */
	due: number | null;
	/** Something came due during the store's query, so its result may be outdated. */
	woken: boolean;
	/** From a failure until the next success, only one attempt is made at a time. */
	failing: boolean;
	/** Its last attempt succeeded quickly, and none in progress is slow. */
	prompt: boolean;
	/** When an attempt last started or finished, in monotonic milliseconds. */
	usedAt: number;
};

/** How many deliveries may be claimed. The first of them, at most `places`, start now. */
export type Permit<Item> = {
	readonly endpoint: EndpointQueue<Item>;
	readonly places: number;
	readonly limit: number;
	/** The number of recalls before this permit. */
	readonly recalls: number;
};

/** Wall clock and monotonic time, in milliseconds. */
type Moment = {readonly now: number; readonly monotonic: number};

type EndpointQueuesOptions = {
	/** Attempts in progress, per endpoint and in total. As many may wait in memory. */
	readonly perEndpoint: number;
	readonly total: number;
};

/** An endpoint that takes longer to respond is not prompt, in milliseconds. */
const promptMs = 1000;
/** The share of attempts for slow, dead or unknown endpoints. The rest is reserved for prompt ones. */
const unprovenShare = 0.75;
/** How many deliveries may wait in memory per request that the endpoint may have in flight. */
const aheadTimes = 4;
/** How long an idle endpoint is remembered, in milliseconds. */
const rememberedMs = 600_000;

/**
 * Decides how many attempts each endpoint may start. Endpoints take turns, and slow or dead ones never use all the
 * capacity. Prompt ones have deliveries claimed ahead, because a transaction takes longer than their response. Never
 * waits or reads the store.
 */
export function createEndpointQueues<Item>({perEndpoint, total}: EndpointQueuesOptions) {
	const endpoints = new Map<string, EndpointQueue<Item>>();
	/** Endpoints with something due and capacity of their own, in the order of their turns. */
	const ready = new Set<EndpointQueue<Item>>();
	const maxUnproven = Math.max(1, Math.ceil(total * unprovenShare));
	/** Claimed ahead, but not to be started. */
	let returned: Item[] = [];
	let recalls = 0;
	let inFlight = 0;
	let unproven = 0;
	/** Claimed ahead, or granted to be. */
	let ahead = 0;

	const held = ({begun, granted}: EndpointQueue<Item>) => begun.length + granted;
	const room = (endpoint: EndpointQueue<Item>) => (endpoint.failing ? 1 : perEndpoint) - held(endpoint);
	/** Whether the endpoint lacks only a slot. */
	const waits = (endpoint: EndpointQueue<Item>) => room(endpoint) > 0 && (endpoint.prompt || unproven < maxUnproven);
	/** If there are few endpoints, each may have more in memory, so that one transaction serves more deliveries. */
	const maxAhead = () =>
		Math.max(perEndpoint, Math.min(aheadTimes * perEndpoint, Math.floor(total / endpoints.size)));
	const roomAhead = (endpoint: EndpointQueue<Item>) =>
		endpoint.prompt ? Math.max(0, maxAhead() - endpoint.ahead.length) : 0;

	function endpointOf(endpointId: string): EndpointQueue<Item> {
		const known = endpoints.get(endpointId);
		if (known) {
			return known;
		}
		const fresh = {due: null, woken: false, failing: false, prompt: false, usedAt: Number.POSITIVE_INFINITY};
		const endpoint = {endpointId, begun: [], granted: 0, ahead: [], wentBack: false, ...fresh};
		endpoints.set(endpointId, endpoint);
		return endpoint;
	}

	/** Changes an endpoint's slots or whether it is prompt, and updates the totals. */
	function change(endpoint: EndpointQueue<Item>, apply: () => void): void {
		inFlight -= held(endpoint);
		unproven -= endpoint.prompt ? 0 : held(endpoint);
		apply();
		inFlight += held(endpoint);
		unproven += endpoint.prompt ? 0 : held(endpoint);
	}

	/** Returns an endpoint's waiting deliveries to the store. */
	function giveBack(endpoint: EndpointQueue<Item>, now: number): void {
		if (endpoint.ahead.length > 0) {
			ahead -= endpoint.ahead.length;
			returned = returned.concat(endpoint.ahead);
			endpoint.ahead = [];
			endpoint.wentBack = true;
			wake(endpoint, now, now);
		}
	}

	/** Starts the first waiting deliveries. */
	function next(endpoint: EndpointQueue<Item>, most: number, monotonic: number): Item[] {
		const items = endpoint.ahead.splice(0, Math.max(0, Math.min(most, room(endpoint), total - inFlight)));
		ahead -= items.length;
		change(endpoint, () => endpoint.begun.push(...items.map(() => monotonic)));
		return items;
	}

	function enlist(endpoint: EndpointQueue<Item>, now: number): void {
		if (endpoint.due !== null && endpoint.due <= now && (room(endpoint) > 0 || roomAhead(endpoint) > 0)) {
			ready.add(endpoint);
		} else {
			ready.delete(endpoint);
		}
	}

	function wake(endpoint: EndpointQueue<Item>, at: number, now: number): void {
		endpoint.due = endpoint.due === null ? at : Math.min(endpoint.due, at);
		endpoint.woken = true;
		enlist(endpoint, now);
	}

	return {
		/** Reports that something of this endpoint is due at `at` (wall clock). */
		due(endpointId: string, at: number, now: number): void {
			wake(endpointOf(endpointId), at, now);
		},

		/** Reports what the store knows, at startup or after a change by others. */
		found(endpointId: string, at: number, failing: boolean, now: number): void {
			const isNew = !endpoints.has(endpointId);
			const endpoint = endpointOf(endpointId);
			endpoint.failing = isNew ? failing : endpoint.failing;
			wake(endpoint, at, now);
		},

		/** Notices what has come due and what has become slow. Must be called a few times a second. */
		advance({now, monotonic}: Moment): void {
			for (const endpoint of endpoints.values()) {
				if (endpoint.prompt && endpoint.begun.some(at => monotonic - at > promptMs)) {
					change(endpoint, () => {
						endpoint.prompt = false;
					});
				}
				enlist(endpoint, now);
				if (endpoint.due === null && held(endpoint) === 0 && monotonic - endpoint.usedAt > rememberedMs) {
					endpoints.delete(endpoint.endpointId);
				}
			}
		},

		/** Returns what may be claimed now. Its slots count as used until `claimed`. */
		permits(): Permit<Item>[] {
			const permits: Permit<Item>[] = [];
			// While other endpoints wait for a slot, an endpoint may not keep its own by claiming more.
			const mayKeep = total - inFlight >= [...ready].filter(waits).length;
			for (const endpoint of [...ready]) {
				const left = total - inFlight;
				// If capacity is scarce, a turn is a single slot, so that every endpoint gets one.
				const turn = Math.min(room(endpoint), left, Math.max(1, Math.floor(left / ready.size)));
				const places = Math.max(0, endpoint.prompt ? turn : Math.min(turn, maxUnproven - unproven));
				// A waiting delivery needs an attempt before it, whose slot it takes over.
				const hasPlace = places > 0 || (mayKeep && held(endpoint) > 0);
				const more = hasPlace ? Math.min(roomAhead(endpoint), total - ahead) : 0;
				if (places + more > 0) {
					ready.delete(endpoint);
					endpoint.woken = false;
					endpoint.wentBack = false;
					ahead += more;
					change(endpoint, () => {
						endpoint.granted += places;
					});
					permits.push({endpoint, places, limit: places + more, recalls});
				}
			}
			return permits;
		},

		/**
		 * Accepts claimed deliveries and returns those to start. `nextDue` (wall clock) is when the next one is due.
		 */
		claimed(permit: Permit<Item>, items: readonly Item[], nextDue: number | null, at: Moment): Item[] {
			const {endpoint, places, limit} = permit;
			const isRecalled = permit.recalls !== recalls;
			endpoint.usedAt = at.monotonic;
			ahead += items.length - limit + places;
			change(endpoint, () => {
				endpoint.granted -= places;
			});
			endpoint.ahead.push(...items);
			const most = endpoint.prompt && !isRecalled ? perEndpoint : places;
			// Returned deliveries are due before these.
			const begin = endpoint.wentBack ? [] : next(endpoint, most, at.monotonic);
			endpoint.due = endpoint.woken ? Math.min(endpoint.due ?? at.now, nextDue ?? at.now) : nextDue;
			if (isRecalled || endpoint.wentBack || held(endpoint) === 0) {
				giveBack(endpoint, at.now);
			}
			enlist(endpoint, at.now);
			return begin;
		},

		/** Whether the endpoint's last known attempt failed. */
		isFailing: (endpointId: string): boolean => endpoints.get(endpointId)?.failing === true,

		/** Reports that the attempt started at `begun` has finished. Returns the deliveries that start in its place. */
		ended(endpointId: string, begun: number, acknowledged: boolean, ms: number, {now, monotonic}: Moment): Item[] {
			const endpoint = endpointOf(endpointId);
			change(endpoint, () => {
				const index = endpoint.begun.indexOf(begun);
				endpoint.begun.splice(index, index === -1 ? 0 : 1);
				endpoint.prompt = acknowledged && ms <= promptMs;
			});
			endpoint.failing = !acknowledged;
			const begin = next(endpoint, endpoint.prompt ? perEndpoint : maxUnproven - unproven, monotonic);
			if (held(endpoint) === 0) {
				giveBack(endpoint, now);
			}
			enlist(endpoint, now);
			return begin;
		},

		/** Returns all waiting deliveries to the store, including those just being claimed to wait. */
		recall({now}: Moment): void {
			recalls++;
			for (const endpoint of endpoints.values()) {
				giveBack(endpoint, now);
			}
		},

		/** Takes the claimed deliveries that must be returned to the store. */
		takeReturned(): Item[] {
			const items = returned;
			returned = [];
			return items;
		},

		get inFlight(): number {
			return inFlight;
		},
	};
}
