import type {Moment} from '../kit/clock.ts';
import type {Priority} from '../mail/message.ts';
import {maxWait, type Retry} from '../mail/retry.ts';
import type {QueueKey, Route} from '../mail/route.ts';
import type {SavedSite} from '../mail/saved-site.ts';
import type {Timed} from './agenda.ts';
import type {ClaimPermit} from './claim-permit.ts';
import type {Lane} from './lanes.ts';
import {
	connectionsOf,
	isBackingOff,
	isProbing,
	mailsAllowed,
	newSite,
	probeNow,
	restoredSite,
	type SiteShare,
	type SiteState,
	setPace,
} from './pace/site-state.ts';
import {isHighRank, type Rank} from './ranks.ts';

/**
 * The state of a queue:
 * - `idle`: no mail is known to be due now
 * - `looking`: its route is being looked up
 * - `ready`: it waits for its turn at its provider
 * - `claiming`: a claim is under way
 * - `suspended`: an operator suspended it
 * - `spent`: today's warm-up share of its source address is used up
 */
type QueueState = 'idle' | 'looking' | 'ready' | 'claiming' | 'suspended' | 'spent';

/** One workspace's mail of one priority for one destination. `at` is the next known due time by the wall clock. */
export type DestinationQueue = Timed &
	QueueKey & {
		readonly priority: Priority;
		state: QueueState;
		/** Its own route, the route in use (that one or its overflow) and the provider; `null` until they are found. */
		placed: {
			readonly own: Route;
			readonly route: Omit<Route, 'warmUp'>;
			readonly site: Site;
			foundAt: number;
		} | null;
		/** Its last provider while all its mail is due later; `null` if that is unknown or the queue is placed. */
		restsAt: Site | null;
		inFlight: number;
		/** The warm-up share that is used up while the state is `spent`. */
		spent: Route['warmUp'];
		/** Whether mail was just accepted for it. */
		hasNewMail: boolean;
		/** Whether more than the known recipient may be due, so that the next claim reads the next due time. */
		asksNext: boolean;
		/** Whether work arrived during a claim, so that the queue is checked again after it. */
		shouldRecheck: boolean;
		/** The time from which due work has been waiting to be claimed, in monotonic milliseconds. */
		since: number;
	};

export function newQueue({destination, workspaceId, priority = 'normal'}: QueueKey): DestinationQueue {
	return {
		at: null,
		index: 0,
		destination,
		workspaceId,
		priority,
		state: 'idle',
		placed: null,
		restsAt: null,
		inFlight: 0,
		spent: null,
		hasNewMail: false,
		asksNext: false,
		shouldRecheck: false,
		since: 0,
	};
}

/**
 * The pool in which a recipient under way counts:
 * - `proven`: its provider replied at the last attempt
 * - `unproven`: it is not known whether the provider replies
 * - `silent`: the provider did not reply at the last attempt
 * - `waiting`: the provider has not replied for seconds during this attempt
 */
export type Pool = 'proven' | 'unproven' | 'silent' | 'waiting';

/** A provider: the destination queues that share limits. `at` is the time at which it may start something again. */
export type Site = Timed & {
	readonly name: string;
	provider: string;
	readonly state: SiteState;
	/** Recipients in flight per connection: being rendered, waiting for the connection, or being recorded. */
	recipientsPerConnection: number;
	/** Recipients that are claimed or being claimed and not yet done, and those of them with high priority. */
	inFlight: number;
	highInFlight: number;
	/** The number that were claimed while the provider was not proven, by claim. */
	readonly unheard: Map<ClaimPermit, number>;
	/** By workspace, in the order of their turns. */
	readonly lanes: Map<string, Lane>;
	/** Until when a connection is reserved for more high-priority mail, by workspace (monotonic ms), earliest first. */
	readonly reservedUntil: Map<string, number>;
	/** The number of queues placed here that are ready or have recipients in flight. */
	queues: number;
	/** Queues that were last placed here and whose mail is due later. */
	readonly resting: Set<DestinationQueue>;
	/** Whether the store has a row for it. */
	isSaved: boolean;
};

/** A relay accepts mail as fast as it arrives and needs a larger supply. */
const recipientsPerConnection = {mx: 4, relay: 13};
const maxClaim = 100;
export function createSite(route: Omit<Route, 'warmUp'>, state: SiteState, isSaved: boolean): Site {
	return {
		at: null,
		index: 0,
		name: route.site,
		provider: route.provider,
		state,
		recipientsPerConnection: recipientsPerConnection[route.terms.nextHop.kind],
		inFlight: 0,
		highInFlight: 0,
		unheard: new Map(),
		lanes: new Map(),
		reservedUntil: new Map(),
		queues: 0,
		resting: new Set(),
		isSaved,
	};
}

/** Whether a mail server replied at the last attempt. At a silent provider every attempt waits for a timeout. */
export const isProven = ({state}: Site): boolean => state.isResponding === true;

/** The pool in which a recipient counts that is claimed for the provider now. */
export const poolOf = ({state}: Site): Exclude<Pool, 'waiting'> =>
	state.isResponding === null ? 'unproven' : state.isResponding ? 'proven' : 'silent';

/** Returns how many recipients the provider may have claimed at once: one per connection until it replies. */
export function windowOf(site: Site, monotonic: number): number {
	const connections = connectionsOf(site.state, monotonic);
	const isHealthy = isProven(site) && !isProbing(site.state, monotonic);
	return isHealthy ? connections * site.recipientsPerConnection : connections;
}

/** How long a provider reserves a connection after high-priority mail (ms), and for how many workspaces. */
const reserveMs = 60 * 60_000;
const maxRetained = 1000;

/**
 * Returns how many connections this mail must leave to high-priority mail of its workspace: one of several.
 * Low-priority mail always leaves one, normal mail only while high-priority mail has been arriving.
 */
export function reservedFrom(site: Site, {priority, workspaceId}: DestinationQueue, monotonic: number): 0 | 1 {
	const shouldReserve =
		priority === 'low' || (priority === 'normal' && monotonic < (site.reservedUntil.get(workspaceId) ?? monotonic));
	return shouldReserve && connectionsOf(site.state, monotonic) > 1 ? 1 : 0;
}

/** Reserves a connection for more high-priority mail of the workspace, some of which just arrived. */
export function reserveForHigh({reservedUntil}: Site, workspaceId: string, monotonic: number): void {
	reservedUntil.delete(workspaceId);
	reservedUntil.set(workspaceId, monotonic + reserveMs);
	for (const [oldest, until] of reservedUntil) {
		if (until > monotonic && reservedUntil.size <= maxRetained) {
			return;
		}
		reservedUntil.delete(oldest);
	}
}

/**
 * Returns how many recipients of this rank the provider's own limits allow to be claimed. Few large claims cost less
 * than many small ones, so a claim waits until a quarter of the window is free unless it is owed (`isOwed`).
 * High-priority mail may be claimed for one more connection, to be ready when one becomes free.
 */
export function ownCapacity(site: Site, rank: Rank, max: number, monotonic: number, isOwed = false): number {
	const window = Math.min(windowOf(site, monotonic), max);
	const connections = connectionsOf(site.state, monotonic);
	const extra = isProbing(site.state, monotonic) ? 0 : Math.ceil(window / Math.max(1, connections));
	const isHigh = isHighRank(rank) && extra > 0;
	const inFlight = site.inFlight - (isHigh ? extra : Math.min(extra, site.highInFlight));
	const capacity = Math.min(window - inFlight, maxClaim);
	const minClaim = isHigh || isOwed ? 1 : Math.max(1, Math.floor(window / 4));
	return capacity >= minClaim ? Math.min(capacity, mailsAllowed(site.state, monotonic)) : 0;
}

/**
 * Returns the rank that mail has here now: `backlog` if the provider is silent, `fresh` for `mixed` if it is proven.
 */
export function rankAt(site: Site, rank: Rank): Rank {
	if (site.state.isResponding === false) {
		return rank === 'low' ? 'low' : 'backlog';
	}
	return rank === 'mixed' && isProven(site) ? 'fresh' : rank;
}

/** The longest backoff, in milliseconds. All destinations share a relay, so the rules of one do not apply to it. */
export function maxWaitOf({retry, terms}: Pick<Route, 'retry' | 'terms'>, {schedule}: Retry): number {
	return maxWait((terms.nextHop.kind === 'mx' ? retry.schedule : null) ?? schedule);
}

export type SitesOptions = {
	readonly retry: () => Retry;
	/** What the store remembers about a provider. */
	readonly remembered: (site: string) => SavedSite | undefined;
	readonly shares: Shares;
};

/** How many providers without work are retained. */
const maxIdleSites = 10_000;

/** The providers that have queues now or had some recently. */
export class Sites {
	readonly #options: SitesOptions;
	readonly #sites = new Map<string, Site>();
	readonly #idle = new Set<Site>();
	readonly #backedOff = new Set<Site>();
	/** Providers that are to be probed but are not in use yet. */
	readonly #toProbe = new Set<string>();

	constructor(options: SitesOptions) {
		this.#options = options;
	}

	all(): Iterable<Site> {
		return this.#sites.values();
	}

	find(name: string): Site | undefined {
		return this.#sites.get(name);
	}

	/** Returns the provider of a route and counts one more queue there. */
	enter(route: Omit<Route, 'warmUp'>, now: Moment): Site {
		const site = this.#sites.get(route.site) ?? this.#create(route, now);
		setPace(site.state, route.pace, now.monotonic);
		site.provider = route.provider;
		site.queues++;
		this.#idle.delete(site);
		return site;
	}

	#create(route: Omit<Route, 'warmUp'>, now: Moment): Site {
		const {remembered, retry, shares} = this.#options;
		const saved = shares.pauseOf(route.site) ?? remembered(route.site);
		const share = shares.newShare(route.site);
		const state = saved
			? restoredSite(route.pace, saved, now, maxWaitOf(route, retry()), share)
			: newSite(route.pace, share, now.monotonic);
		const site = createSite(route, state, saved !== undefined);
		this.#sites.set(route.site, site);
		if (this.#toProbe.delete(route.site)) {
			probeNow(state, now.monotonic);
		}
		this.noteBackoff(site);
		return site;
	}

	/** Counts one queue fewer at the provider. Providers without queues are dropped when there are too many. */
	leave(site: Site): void {
		site.queues--;
		if (site.queues === 0 && !site.isSaved) {
			this.#idle.add(site);
		}
		for (const idle of this.#idle) {
			if (this.#idle.size <= maxIdleSites) {
				return;
			}
			this.#idle.delete(idle);
			// A provider that is backing off or has recipients in flight must not be mistaken for a new one later.
			if (!idle.isSaved && idle.state.backoff === null && idle.inFlight === 0) {
				this.#sites.delete(idle.name);
			}
		}
	}

	/** Call this when the provider may have started or stopped backing off. */
	noteBackoff(site: Site): void {
		if (site.state.backoff) {
			this.#backedOff.add(site);
		} else {
			this.#backedOff.delete(site);
		}
	}

	/** Yields queues that rest at providers that are backing off. */
	*backingOff({monotonic}: Moment): Generator<DestinationQueue> {
		for (const {state, resting} of this.#backedOff) {
			if (isBackingOff(state, monotonic)) {
				yield* resting;
			}
		}
	}

	/** Lets one recipient probe a backed-off provider. Returns the provider if it can start something sooner now. */
	probe(name: string, now: Moment): Site | undefined {
		const site = this.#sites.get(name);
		if (!site) {
			this.#toProbe.add(name);
		}
		return site && probeNow(site.state, now.monotonic) ? site : undefined;
	}
}

/** The state of a provider. Times are wall-clock milliseconds. */
export type SiteReport = {
	readonly site: string;
	readonly provider: string;
	/** The number of connections that it may have now, and the maximum. */
	readonly connections: number;
	readonly maxConnections: number;
	readonly inFlight: number;
	readonly suspendedUntil: number | null;
	/** Why it is backing off: after failures, or because a relay rejects us. */
	readonly waitsFor: 'suspension' | 'route' | null;
	/** The reply or failure that made it back off or slow down. */
	readonly reason: string | null;
	readonly slowUntil: number | null;
	/** `null` if there is no limit. */
	readonly perMinute: number | null;
	readonly mailsPerSession: number;
};

export function reportSites(sites: Iterable<Site>, now: Moment): SiteReport[] {
	return Array.from(sites, site => {
		const {name, provider, state} = site;
		const toWallClock = (at: number) => Math.round(now.now + at - now.monotonic);
		const connections = connectionsOf(state, now.monotonic);
		return {
			site: name,
			provider,
			connections,
			maxConnections: state.pace.connections,
			inFlight: site.inFlight,
			suspendedUntil: state.backoff && toWallClock(state.backoff.until),
			waitsFor: state.backoff?.waitsFor ?? null,
			reason: state.backoff?.reason ?? state.slow?.reason ?? null,
			slowUntil: state.slow && toWallClock(state.slow.until),
			perMinute: state.bucket?.perMinute ?? null,
			mailsPerSession: state.mailsPerSession,
		};
	});
}

/** The operations that shares need on this node's providers. */
export type SharedSites = {
	readonly sites: () => Iterable<Site>;
	readonly find: (name: string) => Site | undefined;
	/** Changes the provider's limits with `how`. */
	readonly regrade: (site: Site, how: (state: SiteState) => void) => void;
	/** Leaves the provider to other nodes, which have all of it. Its mail comes back if they do not send it. */
	readonly leave: (site: Site) => void;
	/** Reads what is waiting, because this node may have a share again of mail that it left to others. */
	readonly rescan: () => void;
};

/** What this node may use of each provider. `src/queue/` divides the limits between nodes that share a store. */
export type Shares = {
	/** Call this once, before anything else. */
	readonly join: (sites: SharedSites) => void;
	/** Returns the share of a provider that is new here, or `null` if no other node shares it. */
	readonly newShare: (site: string) => SiteShare | null;
	/** Returns what other nodes stored about a provider that is paused. */
	readonly pauseOf: (site: string) => SavedSite | undefined;
	/** Call this once a second, and await it before anything is claimed. */
	readonly renew: () => Promise<void>;
	/** Call this ten times a second. */
	readonly advance: () => void;
	/** Resolves when no renewal is in progress. */
	readonly settled: () => Promise<void>;
};

/** The shares of a node that is the only one on its store: everything. */
export const noOtherNodes: Shares = {
	join: () => undefined,
	newShare: () => null,
	pauseOf: () => undefined,
	renew: async () => undefined,
	advance: () => undefined,
	settled: async () => undefined,
};
