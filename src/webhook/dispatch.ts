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
		/** Announces to endpoints that one was disabled. */
		readonly eventWriter: EventWriter;
		/** The daemon's claims have this id. */
		readonly boot: string;
		/** Endpoints with something to do, as the store says. */
		readonly readWork: () => Promise<readonly EndpointWork[]>;
		/**
		 * Makes one attempt; rejects only by a fault of ours, then the attempt has failed. Null: it could not begin,
		 * for any endpoint; it does not count and is made later.
		 */
		readonly post: (delivery: ClaimedDelivery) => Promise<PostEnd | null>;
		/** Wait after the end of a failed attempt, milliseconds. */
		readonly backoffMs: number;
		readonly clock: Clock;
		readonly observer: {
			/** After the end of an attempt is on stable storage, or that it could not begin. */
			readonly posted: (attempted: Attempted) => void;
			readonly webhookFault: (error: unknown) => void;
		};
	};

/** How exactly waiting deliveries come due, milliseconds. */
const tickMs = 100;
const ourFault: PostEnd = {
	status: null,
	error: 'a fault of this server',
	detail: null,
	answer: null,
	address: null,
	tls: null,
	ms: 0,
};

/**
 * Posts what is due. One transaction after the other stores the attempts that have ended and claims what may start in
 * their place; in memory is what is being tried and, for endpoints that answer at once, the next few. If an end cannot
 * be stored it is kept, and nothing is claimed: both are one transaction.
 */
export class WebhookDispatcher {
	readonly #options: DispatcherOptions;
	readonly #endpoints: ReturnType<typeof createEndpointQueues<ClaimedDelivery>>;
	readonly #turnWrite: ReturnType<typeof createTurnWrite>;
	/** Ended, and not stored yet. */
	#ended: Attempted[] = [];
	/** What is being tried, or waits for it. */
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

	/** Something for these endpoints was committed and is due now. */
	due(endpointIds: readonly string[]): void {
		const now = this.#options.clock.now();
		for (const endpointId of endpointIds) {
			this.#endpoints.due(endpointId, now, now);
		}
		this.#plan();
	}

	/** Endpoints or deliveries may have been changed: nothing begins any more as it was. */
	recall(): void {
		this.#endpoints.recall(this.#moment());
		this.#plan();
	}

	/** Something else changed what is due (the CLI, another node, the clock): looks at the store again. */
	async rescan(): Promise<void> {
		const now = this.#options.clock.now();
		this.recall();
		for (const {endpointId, due, failingSince} of await this.#options.readWork()) {
			this.#endpoints.found(endpointId, Date.parse(due), failingSince !== null, now);
		}
		this.#plan();
	}

	/** Reads what is waiting in the store and begins. */
	async start(): Promise<void> {
		this.#state = 'running';
		this.#timer = setInterval(() => {
			this.#endpoints.advance(this.#moment());
			this.#plan();
		}, tickMs);
		await this.rescan();
	}

	/** Starts nothing more; resolves when every attempt under way has ended and is stored. */
	async stop(): Promise<void> {
		this.#state = 'stopping';
		this.#endpoints.recall(this.#moment());
		clearInterval(this.#timer);
		await new Promise<void>(resolve => {
			this.#idle.push(resolve);
			this.#plan();
		});
	}

	/** Attempts granted or under way. */
	get inFlight(): number {
		return this.#endpoints.inFlight;
	}

	#moment(): {now: number; monotonic: number} {
		return {now: this.#options.clock.now(), monotonic: this.#options.clock.monotonic()};
	}

	#plan(): void {
		if (!this.#turning && this.#state !== 'idle') {
			this.#turning = true;
			// What ends or comes due in the same turn of the event loop shares the transaction.
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

	/** False: the store could not be written, and everything is as before. */
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
		// Its place is free from here on: for the next that waits, or for what the transaction claims that stores this
		// end.
		this.#start(this.#endpoints.ended(delivery.endpointId, monotonic, acknowledged, end?.ms ?? 0, when), when);
		this.#ended.push({delivery, end, began, ended: when.now, after, wasFailing});
		this.#plan();
	}
}

function longOf({retry, ...delivery}: ClaimedDelivery, {status, retryAfterMs = 0}: PostEnd, began: number) {
	const firstAt = Date.parse(delivery.firstAt ?? storeTime(began));
	return retry === 'long' ? {firstAt, failingSince: delivery.failingSince, status, retryAfterMs} : null;
}

/** What is known of one endpoint with work. */
type EndpointQueue<Item> = {
	readonly endpointId: string;
	/** When each attempt under way began, monotonic milliseconds. */
	readonly begun: number[];
	/** Places that are granted, and not yet begun. */
	granted: number;
	/** Claimed beyond its places, in order: each begins as soon as an attempt ends. Only prompt endpoints get some. */
	ahead: Item[];
	/** Some of what waited in memory went back since its last grant. */
	wentBack: boolean;
	/** When something is due, wall clock; null: nothing that we know of. */
	due: number | null;
	/** Something came due while the store was asked: what it says may be old. */
	woken: boolean;
	/** After a failure, until an attempt succeeds: one at a time. */
	failing: boolean;
	/** Its last attempt succeeded soon, and none takes long now. */
	prompt: boolean;
	/** When an attempt last began or ended, monotonic milliseconds. */
	usedAt: number;
};

/** How many may be claimed; the first of them, at most `places`, begin now. */
export type Permit<Item> = {
	readonly endpoint: EndpointQueue<Item>;
	readonly places: number;
	readonly limit: number;
	/** How often all was recalled before it. */
	readonly recalls: number;
};

/** Wall clock and monotonic, milliseconds. */
type Moment = {readonly now: number; readonly monotonic: number};

type EndpointQueuesOptions = {
	/** Attempts under way, per endpoint and in all; as many may wait in memory to begin. */
	readonly perEndpoint: number;
	readonly total: number;
};

/** An endpoint that takes longer for an answer is not prompt, milliseconds. */
const promptMs = 1000;
/**
 * Endpoints that are slow, dead or not known share this part of the attempts: the rest is left to those that answer.
 */
const unprovenShare = 0.75;
/** At most this many times the requests in flight of an endpoint wait for it in memory. */
const aheadTimes = 4;
/** How long an idle endpoint is remembered, milliseconds. */
const rememberedMs = 600_000;

/**
 * Which endpoint may start how many attempts: they take turns, and those that are slow or dead never take all the
 * capacity. Those that answer at once get the next ones ahead: a transaction takes longer than they do, and on a busy
 * machine many times as long. Decides only; it neither waits nor reads the store.
 */
export function createEndpointQueues<Item>({perEndpoint, total}: EndpointQueuesOptions) {
	const endpoints = new Map<string, EndpointQueue<Item>>();
	/** Endpoint queues with something due and capacity of their own, in the order of their turns. */
	const ready = new Set<EndpointQueue<Item>>();
	const maxUnproven = Math.max(1, Math.ceil(total * unprovenShare));
	/** Claimed ahead, and not to begin. */
	let returned: Item[] = [];
	let recalls = 0;
	let inFlight = 0;
	let unproven = 0;
	/** Claimed ahead, or granted to be. */
	let ahead = 0;

	const held = ({begun, granted}: EndpointQueue<Item>) => begun.length + granted;
	const room = (endpoint: EndpointQueue<Item>) => (endpoint.failing ? 1 : perEndpoint) - held(endpoint);
	/** Only a place is missing. */
	const waits = (endpoint: EndpointQueue<Item>) => room(endpoint) > 0 && (endpoint.prompt || unproven < maxUnproven);
	/** Of few endpoints each may have more in memory: then a transaction serves more of what waits. */
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

	/** Changes what an endpoint holds, or whether it is prompt, and keeps the sums right. */
	function change(endpoint: EndpointQueue<Item>, apply: () => void): void {
		inFlight -= held(endpoint);
		unproven -= endpoint.prompt ? 0 : held(endpoint);
		apply();
		inFlight += held(endpoint);
		unproven += endpoint.prompt ? 0 : held(endpoint);
	}

	/** What waits in memory goes back to the store. */
	function giveBack(endpoint: EndpointQueue<Item>, now: number): void {
		if (endpoint.ahead.length > 0) {
			ahead -= endpoint.ahead.length;
			returned = returned.concat(endpoint.ahead);
			endpoint.ahead = [];
			endpoint.wentBack = true;
			wake(endpoint, now, now);
		}
	}

	/** The first that wait begin. */
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
		/** Something of this endpoint is due then (wall clock). */
		due(endpointId: string, at: number, now: number): void {
			wake(endpointOf(endpointId), at, now);
		},

		/** As the store says, at a start or after a change by others. */
		found(endpointId: string, at: number, failing: boolean, now: number): void {
			const isNew = !endpoints.has(endpointId);
			const endpoint = endpointOf(endpointId);
			endpoint.failing = isNew ? failing : endpoint.failing;
			wake(endpoint, at, now);
		},

		/** Sees what has come due, and what takes long by now; to be called a few times a second. */
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

		/** What may be claimed now; its places count as held until `claimed`. */
		permits(): Permit<Item>[] {
			const permits: Permit<Item>[] = [];
			// While endpoints wait for a slot, an endpoint may not keep its slot by claiming more.
			const mayKeep = total - inFlight >= [...ready].filter(waits).length;
			for (const endpoint of [...ready]) {
				const left = total - inFlight;
				// Where capacity is scarce a turn is one place, so that the others have theirs.
				const turn = Math.min(room(endpoint), left, Math.max(1, Math.floor(left / ready.size)));
				const places = Math.max(0, endpoint.prompt ? turn : Math.min(turn, maxUnproven - unproven));
				// What waits needs an attempt before it, and takes its slot.
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
		 * The store gave these for a grant; `nextDue` (wall clock) is that of the first that was not given, null: none.
		 * Answers those that begin now.
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
			// What went back is due before these.
			const begin = endpoint.wentBack ? [] : next(endpoint, most, at.monotonic);
			endpoint.due = endpoint.woken ? Math.min(endpoint.due ?? at.now, nextDue ?? at.now) : nextDue;
			if (isRecalled || endpoint.wentBack || held(endpoint) === 0) {
				giveBack(endpoint, at.now);
			}
			enlist(endpoint, at.now);
			return begin;
		},

		/** Whether its last attempt failed, as far as is known. */
		isFailing: (endpointId: string): boolean => endpoints.get(endpointId)?.failing === true,

		/** An attempt that began then has ended. Answers those that begin in its place. */
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

		/** What waits in memory is given back, of all, and what is being claimed to wait there. */
		recall({now}: Moment): void {
			recalls++;
			for (const endpoint of endpoints.values()) {
				giveBack(endpoint, now);
			}
		},

		/** What was claimed, and is not to begin: to be given back to the store. */
		takeReturned(): Item[] {
			const items = returned;
			returned = [];
			return items;
		},

		/** Attempts granted or under way. */
		get inFlight(): number {
			return inFlight;
		},
	};
}
