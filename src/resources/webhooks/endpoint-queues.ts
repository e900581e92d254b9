import type {Moment} from '../../kit/clock.ts';

/** The state of one endpoint with pending deliveries. */
type EndpointQueue<Item> = {
	readonly endpointId: string;
	/** When each attempt in progress started, in monotonic milliseconds. */
	readonly begun: number[];
	/** The number of slots granted, but not used yet. */
	granted: number;
	/** Claimed beyond its slots, in order. Each starts when an attempt ends. Only prompt endpoints have any. */
	ahead: Item[];
	/** Deliveries waiting in memory were returned to the store after the last grant. */
	hasReturned: boolean;
	/** When something is due (wall clock), or `null` if nothing is known to be. */
	due: number | null;
	/** Whether something came due during the store's query, so that its result may be outdated. */
	wasWoken: boolean;
	/** Whether the last attempt failed. Until the next success, only one attempt is made at a time. */
	isFailing: boolean;
	/** Whether its last attempt succeeded quickly, and none in progress is slow. */
	isPrompt: boolean;
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

export type EndpointQueuesOptions = {
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
export class EndpointQueues<Item> {
	readonly #perEndpoint: number;
	readonly #total: number;
	readonly #maxUnproven: number;
	readonly #endpoints = new Map<string, EndpointQueue<Item>>();
	/** Endpoints with something due and capacity of their own, in the order of their turns. */
	readonly #ready = new Set<EndpointQueue<Item>>();
	/** Deliveries that were claimed ahead, but must not start. */
	#returned: Item[] = [];
	#recalls = 0;
	#inFlight = 0;
	#unproven = 0;
	/** The number of deliveries claimed ahead, or granted to be. */
	#ahead = 0;

	constructor({perEndpoint, total}: EndpointQueuesOptions) {
		this.#perEndpoint = perEndpoint;
		this.#total = total;
		this.#maxUnproven = Math.max(1, Math.ceil(total * unprovenShare));
	}

	/** Reports that something of this endpoint is due at `at` (wall clock). */
	due(endpointId: string, at: number, now: number): void {
		this.#wake(this.#endpointOf(endpointId), at, now);
	}

	/** Reports what the store knows, at startup or after a change by others. */
	sync(endpointId: string, at: number, isFailing: boolean, now: number): void {
		const isNew = !this.#endpoints.has(endpointId);
		const endpoint = this.#endpointOf(endpointId);
		endpoint.isFailing = isNew ? isFailing : endpoint.isFailing;
		this.#wake(endpoint, at, now);
	}

	/** Notices what has come due and what has become slow. Must be called a few times a second. */
	advance({now, monotonic}: Moment): void {
		for (const endpoint of this.#endpoints.values()) {
			if (endpoint.isPrompt && endpoint.begun.some(at => monotonic - at > promptMs)) {
				this.#change(endpoint, () => {
					endpoint.isPrompt = false;
				});
			}
			this.#enlist(endpoint, now);
			if (endpoint.due === null && usedSlots(endpoint) === 0 && monotonic - endpoint.usedAt > rememberedMs) {
				this.#endpoints.delete(endpoint.endpointId);
			}
		}
	}

	/** Returns what may be claimed now. Its slots count as used until `claimed`. */
	permits(): Permit<Item>[] {
		const permits: Permit<Item>[] = [];
		// While other endpoints wait for a slot, an endpoint may not keep its own by claiming more.
		const waiting = [...this.#ready].filter(endpoint => this.#isWaiting(endpoint));
		const mayKeep = this.#total - this.#inFlight >= waiting.length;
		for (const endpoint of [...this.#ready]) {
			const free = this.#total - this.#inFlight;
			// If capacity is scarce, a turn is a single slot, so that every endpoint gets one.
			const share = Math.min(this.#room(endpoint), free, Math.max(1, Math.floor(free / this.#ready.size)));
			const places = Math.max(0, endpoint.isPrompt ? share : Math.min(share, this.#maxUnproven - this.#unproven));
			// A waiting delivery needs an attempt before it, whose slot it takes over.
			const hasPlace = places > 0 || (mayKeep && usedSlots(endpoint) > 0);
			const ahead = hasPlace ? Math.min(this.#roomAhead(endpoint), this.#total - this.#ahead) : 0;
			if (places + ahead > 0) {
				this.#ready.delete(endpoint);
				endpoint.wasWoken = false;
				endpoint.hasReturned = false;
				this.#ahead += ahead;
				this.#change(endpoint, () => {
					endpoint.granted += places;
				});
				permits.push({endpoint, places, limit: places + ahead, recalls: this.#recalls});
			}
		}
		return permits;
	}

	/**
	 * Accepts claimed deliveries and returns those to start. `nextDue` (wall clock) is when the next one is due.
	 */
	claimed(permit: Permit<Item>, items: readonly Item[], nextDue: number | null, at: Moment): Item[] {
		const {endpoint, places, limit} = permit;
		const isRecalled = permit.recalls !== this.#recalls;
		endpoint.usedAt = at.monotonic;
		this.#ahead += items.length - limit + places;
		this.#change(endpoint, () => {
			endpoint.granted -= places;
		});
		endpoint.ahead.push(...items);
		const max = endpoint.isPrompt && !isRecalled ? this.#perEndpoint : places;
		// Returned deliveries are due before these.
		const started = endpoint.hasReturned ? [] : this.#next(endpoint, max, at.monotonic);
		endpoint.due = endpoint.wasWoken ? Math.min(endpoint.due ?? at.now, nextDue ?? at.now) : nextDue;
		if (isRecalled || endpoint.hasReturned || usedSlots(endpoint) === 0) {
			this.#giveBack(endpoint, at.now);
		}
		this.#enlist(endpoint, at.now);
		return started;
	}

	/** Whether the endpoint's last known attempt failed. */
	isFailing(endpointId: string): boolean {
		return this.#endpoints.get(endpointId)?.isFailing === true;
	}

	/** Reports that the attempt started at `begun` has finished. Returns the deliveries that start in its place. */
	ended(endpointId: string, begun: number, isAcknowledged: boolean, ms: number, {now, monotonic}: Moment): Item[] {
		const endpoint = this.#endpointOf(endpointId);
		this.#change(endpoint, () => {
			const index = endpoint.begun.indexOf(begun);
			endpoint.begun.splice(index, index === -1 ? 0 : 1);
			endpoint.isPrompt = isAcknowledged && ms <= promptMs;
		});
		endpoint.isFailing = !isAcknowledged;
		const max = endpoint.isPrompt ? this.#perEndpoint : this.#maxUnproven - this.#unproven;
		const started = this.#next(endpoint, max, monotonic);
		if (usedSlots(endpoint) === 0) {
			this.#giveBack(endpoint, now);
		}
		this.#enlist(endpoint, now);
		return started;
	}

	/** Returns all waiting deliveries to the store, including those just being claimed to wait. */
	recall({now}: Moment): void {
		this.#recalls++;
		for (const endpoint of this.#endpoints.values()) {
			this.#giveBack(endpoint, now);
		}
	}

	/** Takes the claimed deliveries that must be returned to the store. */
	takeReturned(): Item[] {
		const items = this.#returned;
		this.#returned = [];
		return items;
	}

	get inFlight(): number {
		return this.#inFlight;
	}

	#endpointOf(endpointId: string): EndpointQueue<Item> {
		const known = this.#endpoints.get(endpointId);
		if (known) {
			return known;
		}
		const state = {due: null, wasWoken: false, isFailing: false, isPrompt: false, usedAt: Number.POSITIVE_INFINITY};
		const endpoint = {endpointId, begun: [], granted: 0, ahead: [], hasReturned: false, ...state};
		this.#endpoints.set(endpointId, endpoint);
		return endpoint;
	}

	/** Changes an endpoint's slots or whether it is prompt, and updates the totals. */
	#change(endpoint: EndpointQueue<Item>, apply: () => void): void {
		this.#inFlight -= usedSlots(endpoint);
		this.#unproven -= endpoint.isPrompt ? 0 : usedSlots(endpoint);
		apply();
		this.#inFlight += usedSlots(endpoint);
		this.#unproven += endpoint.isPrompt ? 0 : usedSlots(endpoint);
	}

	/** Returns an endpoint's waiting deliveries to the store. */
	#giveBack(endpoint: EndpointQueue<Item>, now: number): void {
		if (endpoint.ahead.length > 0) {
			this.#ahead -= endpoint.ahead.length;
			this.#returned = this.#returned.concat(endpoint.ahead);
			endpoint.ahead = [];
			endpoint.hasReturned = true;
			this.#wake(endpoint, now, now);
		}
	}

	/** Starts the first waiting deliveries. */
	#next(endpoint: EndpointQueue<Item>, max: number, monotonic: number): Item[] {
		const count = Math.min(max, this.#room(endpoint), this.#total - this.#inFlight);
		const items = endpoint.ahead.splice(0, Math.max(0, count));
		this.#ahead -= items.length;
		this.#change(endpoint, () => endpoint.begun.push(...items.map(() => monotonic)));
		return items;
	}

	#enlist(endpoint: EndpointQueue<Item>, now: number): void {
		const isDue = endpoint.due !== null && endpoint.due <= now;
		if (isDue && (this.#room(endpoint) > 0 || this.#roomAhead(endpoint) > 0)) {
			this.#ready.add(endpoint);
		} else {
			this.#ready.delete(endpoint);
		}
	}

	#wake(endpoint: EndpointQueue<Item>, at: number, now: number): void {
		endpoint.due = endpoint.due === null ? at : Math.min(endpoint.due, at);
		endpoint.wasWoken = true;
		this.#enlist(endpoint, now);
	}

	#room(endpoint: EndpointQueue<Item>): number {
		return (endpoint.isFailing ? 1 : this.#perEndpoint) - usedSlots(endpoint);
	}

	/** Whether the endpoint lacks only a slot. */
	#isWaiting(endpoint: EndpointQueue<Item>): boolean {
		return this.#room(endpoint) > 0 && (endpoint.isPrompt || this.#unproven < this.#maxUnproven);
	}

	#roomAhead(endpoint: EndpointQueue<Item>): number {
		return endpoint.isPrompt ? Math.max(0, this.#maxAhead() - endpoint.ahead.length) : 0;
	}

	/** If there are few endpoints, each may have more in memory, so that one transaction serves more deliveries. */
	#maxAhead(): number {
		const share = Math.floor(this.#total / this.#endpoints.size);
		return Math.max(this.#perEndpoint, Math.min(aheadTimes * this.#perEndpoint, share));
	}
}

function usedSlots({begun, granted}: EndpointQueue<unknown>): number {
	return begun.length + granted;
}
