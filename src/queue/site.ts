import type {Moment} from '../kit/clock.ts';
import type {Priority} from '../mail/message.ts';
import {maxWait, type Retry} from '../mail/retry.ts';
import type {QueueKey, Route} from '../mail/route.ts';
import type {SavedSite} from '../mail/saved-site.ts';
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
} from '../pace/site-state.ts';
import type {Timed} from './agenda.ts';
import type {ClaimPermit} from './claim-permit.ts';
import type {Lane} from './lanes.ts';
import {isHighRank, type Rank} from './ranks.ts';

/**
 * `idle`: no mail is known to be due now. `looking`: its route is being found. `ready`: it waits for its turn at its
 * site. `claiming`: a claim is under way. `suspended`: by an operator. `spent`: the day's share of a new source is used
 * up.
 */
type QueueState = 'idle' | 'looking' | 'ready' | 'claiming' | 'suspended' | 'spent';

/**
 * One workspace's mail of one priority for one destination. `at`: when the next recipient known to be due later is due,
 * wall clock.
 */
export type DestinationQueue = Timed &
	QueueKey & {
		readonly priority: Priority;
		state: QueueState;
		/** Its route, the one used now (its own or the overflow of it) and the site; null: not found yet. */
		placed: {
			readonly own: Route;
			readonly route: Omit<Route, 'warmUp'>;
			readonly site: Site;
			foundAt: number;
		} | null;
		/** Its last site, while all its mail is due later; null: it is at another one, or the site is unknown. */
		restsAt: Site | null;
		/** Recipients claimed and not yet done. */
		inFlight: number;
		/** While it is `spent`: the share that is used up. */
		spent: Route['warmUp'];
		/** Mail was just accepted for it. */
		fresh: boolean;
		/** Whether more may be due than the recipient that was known: the next claim asks the store. */
		asksNext: boolean;
		/** Work arrived during a claim: look once more after it. */
		again: boolean;
		/** Since when due work was not claimed, monotonic milliseconds. */
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
		fresh: false,
		asksNext: false,
		again: false,
		since: 0,
	};
}

/**
 * What a recipient under way counts as. `proven`: its site replied at the last try. `unproven`: nobody knows. `silent`:
 * it did not reply at the last try. `waiting`: it has not replied for seconds in this one.
 */
export type Pool = 'proven' | 'unproven' | 'silent' | 'waiting';

/**
 * The destination queues that share a pace: one set of mail hosts, or a smarthost. `at`: when it may start something
 * again.
 */
export type Site = Timed & {
	readonly name: string;
	provider: string;
	readonly state: SiteState;
	/** Recipients in hand per connection: being rendered, waiting for it, being recorded. */
	recipientsPerConnection: number;
	/** Recipients claimed, or being claimed, and not yet done; those of high priority. */
	inFlight: number;
	highInFlight: number;
	/** Those that were claimed while the site was not proven, by the claim. */
	readonly unheard: Map<ClaimPermit, number>;
	/** By workspace, the next one first. */
	readonly lanes: Map<string, Lane>;
	/**
	 * Until when a connection is kept for high mail that may follow, by workspace, monotonic. The first to end is
	 * first.
	 */
	readonly keepsUntil: Map<string, number>;
	/** Queues placed here, ready or with recipients in flight. */
	queues: number;
	/** Queues that were placed here last and have mail due later. */
	readonly resting: Set<DestinationQueue>;
	/** Whether the store has a row of it. */
	saved: boolean;
};

/** A smarthost takes mail as fast as it comes, and has to be kept fed. */
const recipientsPerConnection = {mx: 4, relay: 13};
const largestClaim = 100;
export function newSiteOf(route: Omit<Route, 'warmUp'>, state: SiteState, saved: boolean): Site {
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
		keepsUntil: new Map(),
		queues: 0,
		resting: new Set(),
		saved,
	};
}

/** Whether a host replied at the last try. At a silent site every try waits for a timeout. */
export const isProven = ({state}: Site): boolean => state.answers === true;

/** What a recipient counts as that is claimed for the site now. */
export const poolOf = ({state}: Site): Exclude<Pool, 'waiting'> =>
	state.answers === null ? 'unproven' : state.answers ? 'proven' : 'silent';

/** Recipients that the site may have claimed at once. Until it replies: one per connection. */
export function windowOf(site: Site, monotonic: number): number {
	const connections = connectionsOf(site.state, monotonic);
	const spare = isProven(site) && !isProbing(site.state, monotonic);
	return spare ? connections * site.recipientsPerConnection : connections;
}

/** How long after high mail a site keeps a connection for more, milliseconds, and for how many workspaces. */
const keepsMs = 60 * 60_000;
const maxRetained = 1000;

/** Connections that this mail leaves to high mail of its workspace: one of several, always or while such mail comes. */
export function keptFrom(site: Site, {priority, workspaceId}: DestinationQueue, monotonic: number): 0 | 1 {
	const keeps =
		priority === 'low' || (priority === 'normal' && monotonic < (site.keepsUntil.get(workspaceId) ?? monotonic));
	return keeps && connectionsOf(site.state, monotonic) > 1 ? 1 : 0;
}

/** High mail of the workspace came: a connection is kept for more. */
export function keepForHigh({keepsUntil}: Site, workspaceId: string, monotonic: number): void {
	keepsUntil.delete(workspaceId);
	keepsUntil.set(workspaceId, monotonic + keepsMs);
	for (const [first, until] of keepsUntil) {
		if (until > monotonic && keepsUntil.size <= maxRetained) {
			return;
		}
		keepsUntil.delete(first);
	}
}

/**
 * What the site may claim now of this rank by its own limits. Few large claims cost less than many small ones: it waits
 * until a quarter of its window is free, unless it is owed to (`isOwed`). High mail may be claimed for one connection
 * more: it is there when a connection becomes free.
 */
export function ownCapacity(site: Site, rank: Rank, most: number, monotonic: number, isOwed = false): number {
	const window = Math.min(windowOf(site, monotonic), most);
	const connections = connectionsOf(site.state, monotonic);
	const extra = isProbing(site.state, monotonic) ? 0 : Math.ceil(window / Math.max(1, connections));
	const isHigh = isHighRank(rank) && extra > 0;
	const inFlight = site.inFlight - (isHigh ? extra : Math.min(extra, site.highInFlight));
	const capacity = Math.min(window - inFlight, largestClaim);
	const least = isHigh || isOwed ? 1 : Math.max(1, Math.floor(window / 4));
	return capacity >= least ? Math.min(capacity, mailsAllowed(site.state, monotonic)) : 0;
}

/**
 * The rank that queues of this rank have now: at a silent site all but low are backlog, and at a proven one `mixed` is
 * fresh.
 */
export function rankAt(site: Site, rank: Rank): Rank {
	if (site.state.answers === false) {
		return rank === 'low' ? 'low' : 'backlog';
	}
	return rank === 'mixed' && isProven(site) ? 'fresh' : rank;
}

/**
 * No site backs off for longer, milliseconds. All destinations share a smarthost: the rules of one do not apply to it.
 */
export function maxWaitOf({retry, terms}: Pick<Route, 'retry' | 'terms'>, {schedule}: Retry): number {
	return maxWait((terms.nextHop.kind === 'mx' ? retry.schedule : null) ?? schedule);
}

export type SitesOptions = {
	/** The settings' rules as they are now. */
	readonly retry: () => Retry;
	/** What the store remembers of a site. */
	readonly remembered: (site: string) => SavedSite | undefined;
	readonly shares: Shares;
};

/** Sites without work that are kept. */
const maxIdleSites = 10_000;

/** The sites that have queues, or had some lately. */
export class Sites {
	readonly #options: SitesOptions;
	readonly #sites = new Map<string, Site>();
	readonly #idle = new Set<Site>();
	readonly #backedOff = new Set<Site>();
	/** Sites to be probed that are not in use yet. */
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

	/** The site of a route, with one queue more. */
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
		const site = newSiteOf(route, state, saved !== undefined);
		this.#sites.set(route.site, site);
		if (this.#toProbe.delete(route.site)) {
			probeNow(state, now.monotonic);
		}
		this.noteBackoff(site);
		return site;
	}

	/** One queue leaves the site. Sites without queues are forgotten once there are too many. */
	leave(site: Site): void {
		site.queues--;
		if (site.queues === 0 && !site.saved) {
			this.#idle.add(site);
		}
		for (const idle of this.#idle) {
			if (this.#idle.size <= maxIdleSites) {
				return;
			}
			this.#idle.delete(idle);
			// A site that backs off, or has recipients in flight, must not be taken for a new one.
			if (!idle.saved && idle.state.backoff === null && idle.inFlight === 0) {
				this.#sites.delete(idle.name);
			}
		}
	}

	/** Its backoff may have begun or ended. */
	noteBackoff(site: Site): void {
		if (site.state.backoff) {
			this.#backedOff.add(site);
		} else {
			this.#backedOff.delete(site);
		}
	}

	/** Queues that rest at sites that back off. */
	*backingOff({monotonic}: Moment): Generator<DestinationQueue> {
		for (const {state, resting} of this.#backedOff) {
			if (isBackingOff(state, monotonic)) {
				yield* resting;
			}
		}
	}

	/** Lets one recipient try the site, if it backs off; answers the site if it may start something sooner now. */
	probe(name: string, now: Moment): Site | undefined {
		const site = this.#sites.get(name);
		if (!site) {
			this.#toProbe.add(name);
		}
		return site && probeNow(site.state, now.monotonic) ? site : undefined;
	}
}

/** How a site is doing; times are wall clock, milliseconds. */
export type SiteReport = {
	readonly site: string;
	readonly provider: string;
	/** Connections that it may have now, and at most. */
	readonly connections: number;
	readonly maxConnections: number;
	/** Recipients claimed and not yet done. */
	readonly inFlight: number;
	readonly suspendedUntil: number | null;
	/** Why it backs off: after failures, or because a smarthost refuses us. */
	readonly waitsFor: 'suspension' | 'route' | null;
	readonly reason: string | null;
	readonly slowUntil: number | null;
	/** Null: no limit. */
	readonly perMinute: number | null;
	readonly mailsPerSession: number;
};

export function reportSites(sites: Iterable<Site>, now: Moment): SiteReport[] {
	return Array.from(sites, site => {
		const {name, provider, state} = site;
		const wall = (at: number) => Math.round(now.now + at - now.monotonic);
		const connections = connectionsOf(state, now.monotonic);
		return {
			site: name,
			provider,
			connections,
			maxConnections: state.pace.connections,
			inFlight: site.inFlight,
			suspendedUntil: state.backoff && wall(state.backoff.until),
			waitsFor: state.backoff?.waitsFor ?? null,
			reason: state.backoff?.reason ?? null,
			slowUntil: state.slow && wall(state.slow.until),
			perMinute: state.bucket?.perMinute ?? null,
			mailsPerSession: state.mailsPerSession,
		};
	});
}

/** The sites of this node, as shares change them. */
export type SharedSites = {
	readonly sites: () => Iterable<Site>;
	readonly find: (name: string) => Site | undefined;
	/** What the site may have changes by `how`. */
	readonly regrade: (site: Site, how: (state: SiteState) => void) => void;
	/** Other nodes have all of the site: its mail is left to them, and comes back if they do not take it. */
	readonly leave: (site: Site) => void;
	/** This node may have a part of mail that it left to others: it looks what there is. */
	readonly look: () => void;
};

/** What this node may use of each site. `src/cluster/` has what nodes that share a store do. */
export type Shares = {
	/** To be called once, before anything else. */
	readonly join: (sites: SharedSites) => void;
	/** For a site that is new here; null: no other node shares it. */
	readonly newShare: (site: string) => SiteShare | null;
	/** What other nodes noted of a site that is paused. */
	readonly pauseOf: (site: string) => SavedSite | undefined;
	/** To be called once a second, and awaited before anything is claimed. */
	readonly renew: () => Promise<void>;
	/** To be called ten times a second. */
	readonly advance: () => void;
	/** Resolves when nothing is being renewed. */
	readonly settled: () => Promise<void>;
};

/** Where one node has the store for itself: everything. */
export const noOtherNodes: Shares = {
	join: () => undefined,
	newShare: () => null,
	pauseOf: () => undefined,
	renew: async () => undefined,
	advance: () => undefined,
	settled: async () => undefined,
};
