import type {Route} from '../mail/route.ts';
import type {SavedSite} from '../mail/saved-site.ts';
import {type Moment, restoredSite} from '../pace/saved.ts';
import {
	connectionsOf,
	isBackingOff,
	isProbing,
	mailsAllowed,
	newSite,
	probeNow,
	type SiteState,
	setPace,
} from '../pace/site.ts';
import type {SiteShare} from '../pace/site-share.ts';
import type {Timed} from './agenda.ts';
import type {DestinationQueue} from './destination-queue.ts';
import type {FairRing} from './fair-ring.ts';

/**
 * In the order of their turns. `fresh`: mail just accepted, for a site that is not known to be silent. `mixed`: such mail
 * where other mail was found waiting, which nobody took yet. `backlog`: what was tried before, or found in the store.
 */
export const ranks = ['fresh', 'mixed', 'backlog'] as const;
export type Rank = (typeof ranks)[number];

/** What shares a pace: the mail hosts of some destinations, or a smarthost. Its time is when it may start something again. */
export type Site = Timed & {
	readonly name: string;
	provider: string;
	readonly state: SiteState;
	/** Copies that one connection may have in hand: being made, waiting for it, being recorded. */
	recipientsPerConnection: number;
	/** The most copies claimed and not yet done since this was last asked. */
	peak: number;
	/** Copies claimed, or being claimed, and not yet done. */
	readonly inFlight: Record<Rank, number>;
	/** Lanes with work due now, by workspace. */
	readonly ready: Record<Rank, FairRing<DestinationQueue>>;
	/** Lanes that are here, ready or with copies under way. */
	queues: number;
	/** Lanes that were here last, whose mail is due later. */
	readonly resting: Set<DestinationQueue>;
	/** Whether something is remembered of it in the store. */
	saved: boolean;
};

/** Sites without work of which it is remembered how they did. */
const mostIdleSites = 10_000;
/** A smarthost takes mail as fast as it comes, and has to be kept fed. */
const recipientsPerConnection = {mx: 4, relay: 13};
const largestClaim = 100;
/** Workspaces whose turn may bring the site's, at most: all with lanes there come by in turn. */
const mostWorkspaces = 16;

export function newSiteOf(route: Omit<Route, 'warmUp'>, state: SiteState, saved: boolean): Site {
	return {
		at: null,
		place: 0,
		name: route.site,
		provider: route.provider,
		state,
		recipientsPerConnection: recipientsPerConnection[route.terms.nextHop.kind],
		peak: 0,
		inFlight: {fresh: 0, mixed: 0, backlog: 0},
		ready: {fresh: new Map(), mixed: new Map(), backlog: new Map()},
		queues: 0,
		resting: new Set(),
		saved,
	};
}

export const inFlightOf = ({inFlight}: Site): number => inFlight.fresh + inFlight.mixed + inFlight.backlog;

/** Whether a host spoke at the last try. Where none may, every try waits for a time-out. */
export const isProven = ({state}: Site): boolean => state.answers === true;

/** Copies that the site may have claimed at once. Until it answers, no more than it could have under way at once. */
export function windowOf(site: Site, monotonic: number): number {
	const connections = connectionsOf(site.state, monotonic);
	const spare = isProven(site) && !isProbing(site.state, monotonic);
	return spare ? connections * site.recipientsPerConnection : connections;
}

/**
 * What the site may claim now by its own limits. Few large claims cost less than many small ones: it waits until a quarter
 * of its window is free.
 */
export function ownCapacity(site: Site, most: number, monotonic: number): number {
	const window = Math.min(windowOf(site, monotonic), most);
	const capacity = Math.min(window - inFlightOf(site), largestClaim);
	return capacity >= Math.max(1, Math.floor(window / 4)) ? Math.min(capacity, mailsAllowed(site.state, monotonic)) : 0;
}

/** The rank that a site's lanes of this rank have now: all of a silent one's are backlog, and nothing is mixed that is taken. */
export function rankAt(site: Site, rank: Rank): Rank {
	if (site.state.answers === false) {
		return 'backlog';
	}
	return rank === 'mixed' && isProven(site) ? 'fresh' : rank;
}

/** The lanes that wait for their turn at the site. */
export function readyQueues({ready}: Site): DestinationQueue[] {
	return ranks.flatMap(rank => [...ready[rank].values()].flatMap(queues => [...queues]));
}

/** The workspaces whose lanes at the site have this rank now, the next ones first. */
export function readyWorkspaces(site: Site, rank: Rank): Array<string | null> {
	const found = new Set<string | null>();
	for (const one of ranks) {
		for (const workspaceId of rankAt(site, one) === rank ? site.ready[one].keys() : []) {
			if (found.size === mostWorkspaces) {
				return [...found];
			}
			found.add(workspaceId);
		}
	}
	return [...found];
}

export type SiteRegistryOptions = {
	/** No site waits longer for its next try, milliseconds. */
	readonly longestWait: () => number;
	/** What is remembered of a site. */
	readonly remembered: (site: string) => SavedSite | undefined;
	/** What this node has of a site at first; absent: no other node shares the store. */
	readonly newShare?: () => SiteShare;
};

/** The sites that have lanes, or had some lately. */
export function createSiteRegistry({longestWait, remembered, newShare}: SiteRegistryOptions) {
	const sites = new Map<string, Site>();
	const idleSites = new Set<Site>();
	const backedOff = new Set<Site>();
	/** Sites to be probed of which nothing but what is remembered is known yet. */
	const toProbe = new Set<string>();

	function noteBackoff(site: Site): void {
		if (site.state.backoff) {
			backedOff.add(site);
		} else {
			backedOff.delete(site);
		}
	}

	function siteOf(route: Omit<Route, 'warmUp'>, now: Moment): Site {
		let site = sites.get(route.site);
		if (!site) {
			const saved = remembered(route.site);
			const state = saved
				? restoredSite(route.pace, saved, now, longestWait(), newShare?.())
				: newSite(route.pace, newShare?.(), now.monotonic);
			site = newSiteOf(route, state, saved !== undefined);
			sites.set(route.site, site);
			if (toProbe.delete(route.site)) {
				probeNow(state, now.monotonic);
			}
			noteBackoff(site);
		}
		setPace(site.state, route.pace, now.monotonic);
		site.provider = route.provider;
		return site;
	}

	function forgetIdle(): void {
		for (const idle of idleSites) {
			if (idleSites.size <= mostIdleSites) {
				return;
			}
			idleSites.delete(idle);
			// What is left alone, or has copies under way, is not to be taken for a new one.
			if (!idle.saved && idle.state.backoff === null && inFlightOf(idle) === 0) {
				sites.delete(idle.name);
			}
		}
	}

	return {
		/** A lane goes where this way leads. */
		enter(route: Omit<Route, 'warmUp'>, now: Moment): Site {
			const site = siteOf(route, now);
			site.queues++;
			idleSites.delete(site);
			return site;
		},

		/** A lane goes there no more. */
		leave(site: Site): void {
			site.queues--;
			if (site.queues === 0 && !site.saved) {
				idleSites.add(site);
			}
			forgetIdle();
		},

		/** The lane was there last, and its mail is due later. */
		rest(queue: DestinationQueue, site: Site): void {
			queue.restsAt = site;
			site.resting.add(queue);
		},

		/** The lane rests no more, or may rest elsewhere. */
		endRest(queue: DestinationQueue): void {
			queue.restsAt?.resting.delete(queue);
			queue.restsAt = null;
		},

		/** Its backoff may have begun or ended. */
		noteBackoff,

		/** Lanes that rest at sites which are left alone. */
		*backingOff({monotonic}: Moment): Generator<DestinationQueue> {
			for (const {state, resting} of backedOff) {
				if (isBackingOff(state, monotonic)) {
					yield* resting;
				}
			}
		},

		/** One copy may try the site, where it is left alone; answers it if it may start something sooner now. */
		probe(name: string, now: Moment): Site | undefined {
			const site = sites.get(name);
			if (!site) {
				toProbe.add(name);
			}
			return site && probeNow(site.state, now.monotonic) ? site : undefined;
		},

		all: (): Iterable<Site> => sites.values(),
	};
}

export type SiteRegistry = ReturnType<typeof createSiteRegistry>;

/** How a site is doing; times are wall clock, milliseconds. */
export type SiteReport = {
	readonly site: string;
	readonly provider: string;
	/** Connections that it may have now, and at most. */
	readonly connections: number;
	readonly mostConnections: number;
	/** Copies claimed and not yet done. */
	readonly inFlight: number;
	readonly suspendedUntil: number | null;
	/** Why it is left alone: after failures, or because a smarthost refuses us. */
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
			mostConnections: state.pace.connections,
			inFlight: inFlightOf(site),
			suspendedUntil: state.backoff && wall(state.backoff.until),
			waitsFor: state.backoff?.waitsFor ?? null,
			reason: state.backoff?.reason ?? null,
			slowUntil: state.slow && wall(state.slow.until),
			perMinute: state.bucket?.perMinute ?? null,
			mailsPerSession: state.mailsPerSession,
		};
	});
}
