import type {Way} from '../mail/way.ts';
import {connectionsOf, isProbing, mailsAllowed, type SiteState} from '../pace/site.ts';
import type {Timed} from './agenda.ts';
import type {Lane} from './lane.ts';
import type {Turns} from './turns.ts';

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
	copiesPerConnection: number;
	/** Copies claimed, or being claimed, and not yet settled. */
	readonly inFlight: Record<Rank, number>;
	/** Lanes with work due now. */
	readonly ready: Record<Rank, Turns<Lane>>;
	/** Lanes that are here, ready or with copies under way. */
	lanes: number;
	/** Lanes that were here last, whose mail is due later. */
	readonly resting: Set<Lane>;
	/** Whether something is remembered of it in the store. */
	saved: boolean;
};

/** A smarthost takes mail as fast as it comes, and has to be kept fed. */
const copiesPerConnection = {mx: 4, relay: 13};
const largestClaim = 100;
/** Workspaces whose turn may bring the site's, at most: all with lanes there come by in turn. */
const mostWorkspaces = 16;

export function newSiteOf(way: Omit<Way, 'warmUp'>, state: SiteState, saved: boolean): Site {
	return {
		at: null,
		place: 0,
		name: way.site,
		provider: way.provider,
		state,
		copiesPerConnection: copiesPerConnection[way.terms.route.kind],
		inFlight: {fresh: 0, mixed: 0, backlog: 0},
		ready: {fresh: new Map(), mixed: new Map(), backlog: new Map()},
		lanes: 0,
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
	return spare ? connections * site.copiesPerConnection : connections;
}

/**
 * What the site may claim now by its own limits. Few large claims cost less than many small ones: it waits until a quarter
 * of its window is free.
 */
export function ownRoom(site: Site, most: number, monotonic: number): number {
	const window = Math.min(windowOf(site, monotonic), most);
	const room = Math.min(window - inFlightOf(site), largestClaim);
	return room >= Math.max(1, Math.floor(window / 4)) ? Math.min(room, mailsAllowed(site.state, monotonic)) : 0;
}

/** The rank that a site's lanes of this rank have now: all of a silent one's are backlog, and nothing is mixed that is taken. */
export function rankAt(site: Site, rank: Rank): Rank {
	if (site.state.answers === false) {
		return 'backlog';
	}
	return rank === 'mixed' && isProven(site) ? 'fresh' : rank;
}

/** The workspaces whose lanes at the site have this rank now, the next ones first. */
export function readyWorkspaces(site: Site, rank: Rank): string[] {
	const found = new Set<string>();
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
