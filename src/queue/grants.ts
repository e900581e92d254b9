import type {Route} from '../mail/route.ts';
import type {Moment} from '../pace/saved.ts';
import {connectionsOf, type SiteChange, type SiteEnd, type SiteState, spend, tried} from '../pace/site.ts';
import type {SentToday, WarmUpDay} from '../pace/warm-up.ts';
import {firstTurn, type Turn, takeTurn} from './fair-ring.ts';
import type {ToFind} from './find-routes.ts';
import type {Lane, LaneRegistry} from './lane.ts';
import type {Room} from './room.ts';
import {isProven, ownRoom, type Rank, rankAt, ranks, readyLanes, type Site, type SiteRegistry} from './site.ts';

/** A claim to be made now: at most `limit` copies of this lane, and where it `asksNext`, when the next one is due. */
export type Grant = {
	readonly lane: Lane;
	readonly site: Site;
	readonly route: Omit<Route, 'warmUp'>;
	readonly rank: Rank;
	readonly limit: number;
	readonly asksNext: boolean;
	/** Mail was just accepted where other mail is due. */
	readonly newestFirst: boolean;
	/** Its copies count in this day of a new source; null: in none. */
	readonly warmUp: WarmUpDay | null;
};

/** What a claim brought. */
export type ClaimResult = {
	readonly count: number;
	/** When the next copy of the lane is due (null: none, or it was not asked). */
	readonly nextDue: number | null;
	/** Copies of the warm-up's day, these included; null: there is none. */
	readonly warmedUp: number | null;
};

/** How a copy may travel now. */
export type TravelTerms = {readonly route: Omit<Route, 'warmUp'>; readonly connections: number};

export type GrantsOptions = {
	/** Copies claimed and not yet done, in all. */
	readonly maxInFlight: number;
	/** No site waits longer for its next try, milliseconds. */
	readonly longestWait: () => number;
	/** A site's pace changed. */
	readonly onSite: (site: Site, changes: readonly SiteChange[]) => void;
};

/** The lanes and their sites, and the steps of a lane's life that come before a grant and after it. */
type Around = {
	readonly registry: LaneRegistry;
	readonly sites: SiteRegistry;
	readonly room: Room;
	readonly toFind: ToFind;
	readonly sentToday: SentToday;
	readonly place: (lane: Lane, own: Route, now: Moment) => void;
	readonly wake: (lane: Lane, now: Moment) => void;
	readonly rest: (lane: Lane) => void;
};

/** A way is found anew after so long, milliseconds. */
const renewMs = 60_000;

/** From a lane's turn to the end of its copies: who may claim how much, how each copy travels, what its end tells. */
export function createGrants(options: GrantsOptions & Around) {
	const {registry, sites, room, toFind, sentToday, place, wake, rest, maxInFlight, longestWait, onSite} = options;

	/** The lane whose turn it is; those whose share of the day is used up meanwhile go elsewhere. */
	function nextLane({item: site, group}: Turn<Site>, rank: Rank, now: Moment): Lane | undefined {
		const workspaceId = group ?? undefined;
		for (;;) {
			const from = ranks.find(
				one => rankAt(site, one) === rank && firstTurn(site.ready[one], workspaceId) !== undefined,
			);
			const lane = from && takeTurn(site.ready[from], workspaceId);
			if (!lane?.placed) {
				return undefined;
			}
			const {own, route} = lane.placed;
			if (own.warmUp === null || route !== own || sentToday.left(own.warmUp, now.now) > 0) {
				return lane;
			}
			place(lane, own, now);
		}
	}

	function grant(lane: Lane, rank: Rank, most: number, now: Moment): Grant {
		const {own, route, site, foundAt} = lane.placed as NonNullable<Lane['placed']>;
		const counted = route === own ? own.warmUp : null;
		const limit = counted ? Math.min(most, sentToday.left(counted, now.now)) : most;
		const granted = {
			lane,
			site,
			route,
			rank,
			limit,
			asksNext: lane.asksNext,
			newestFirst: lane.fresh && lane.asksNext,
			warmUp: counted && sentToday.dayOf(counted, now.now),
		};
		lane.state = 'claiming';
		lane.asksNext = false;
		registry.waiting.delete(lane);
		room.take(site, rank, limit);
		spend(site.state, limit, now.monotonic);
		if (now.monotonic - foundAt > renewMs) {
			toFind.renew(lane);
		}
		return granted;
	}

	function grantsOf(rank: Rank, proven: boolean, now: Moment): Grant[] {
		const granted: Grant[] = [];
		for (const turn of room.turns(rank, proven)) {
			const site = turn.item;
			const own = ownRoom(site, maxInFlight, now.monotonic);
			const limit = Math.min(own, room.left(rank, proven));
			if (own > 0 && limit < Math.min(own, room.smallestClaim(site, rank, proven, now.monotonic))) {
				break; // Those behind it would take what becomes free, and it would wait for ever.
			}
			room.served(turn, rank);
			const lane = own > 0 ? nextLane(turn, rank, now) : undefined;
			if (lane) {
				granted.push(grant(lane, rank, limit, now));
			}
			room.enlist(site, now);
		}
		return granted;
	}

	/** What the site may have is changed. */
	function change(site: Site, how: (state: SiteState) => void): void {
		const before = isProven(site);
		how(site.state);
		sites.noteBackoff(site);
		if (isProven(site) !== before) {
			room.moved(site, before);
		}
	}

	return {
		/** The claims to be made now; their room is taken until `claimed`. */
		grants: (now: Moment): Grant[] => [
			...grantsOf('fresh', false, now),
			...grantsOf('fresh', true, now),
			...grantsOf('mixed', false, now),
			...grantsOf('backlog', false, now),
			...grantsOf('backlog', true, now),
		],

		/** A full claim means that more may be due. */
		claimed({lane, site, rank, limit, asksNext, warmUp: day}: Grant, result: ClaimResult, now: Moment): void {
			const free = limit - result.count;
			lane.state = 'idle';
			lane.inFlight += result.count;
			room.take(site, rank, -free);
			spend(site.state, -free, now.monotonic);
			const spent = day !== null && result.warmedUp !== null && sentToday.note(day, result.warmedUp);
			if (free === 0) {
				lane.asksNext ||= asksNext;
			} else if (result.nextDue !== null) {
				registry.waitUntil(lane, result.nextDue);
			}
			if (free === 0 || lane.again || spent) {
				lane.again = false;
				wake(lane, now);
			} else {
				lane.fresh = false;
				rest(lane);
			}
			room.enlist(site, now);
		},

		/** How a claimed copy may travel now; null: its site is left alone since. */
		travelTerms({site, route}: Grant, now: Moment): TravelTerms | null {
			const connections = connectionsOf(site.state, now.monotonic);
			if (connections === 0) {
				return null;
			}
			const {mailsPerSession} = site.state;
			const lowered = mailsPerSession < route.terms.mailsPerSession;
			return {connections, route: lowered ? {...route, terms: {...route.terms, mailsPerSession}} : route};
		},

		/** Something other than a try here changed what the site may have. */
		regrade(site: Site, how: (state: SiteState) => void, now: Moment): void {
			change(site, how);
			room.enlist(site, now);
		},

		/** Other nodes have all of the site: its lanes here have no work until it is noticed again. */
		leave(site: Site): void {
			for (const lane of readyLanes(site)) {
				lane.state = 'idle';
				lane.fresh = false;
				registry.waiting.delete(lane);
				room.unqueue(lane, site);
				rest(lane);
			}
		},

		/** A claimed copy is done; `end`: what its try tells of the site, null where none was asked. */
		done({lane, site, rank}: Grant, end: SiteEnd | null, now: Moment): void {
			lane.inFlight--;
			room.take(site, rank, -1);
			if (end) {
				let changes: readonly SiteChange[] = [];
				change(site, state => {
					changes = tried(state, end, now.monotonic, longestWait());
				});
				if (changes.length > 0) {
					onSite(site, changes);
				}
			}
			room.enlist(site, now);
			rest(lane);
		},
	};
}
