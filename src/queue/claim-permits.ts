import type {Route} from '../mail/route.ts';
import type {Moment} from '../pace/saved.ts';
import {connectionsOf, type SiteChange, type SiteEnd, type SiteState, spend, tried} from '../pace/site.ts';
import type {SentToday, WarmUpDay} from '../pace/warm-up.ts';
import type {Capacity} from './capacity.ts';
import type {DestinationQueue, QueueRegistry} from './destination-queue.ts';
import {firstTurn, type Turn, takeTurn} from './fair-ring.ts';
import type {ToFind} from './find-routes.ts';
import {isProven, ownCapacity, type Rank, rankAt, ranks, readyQueues, type Site, type SiteRegistry} from './site.ts';

/** A claim to be made now: at most `limit` copies of this lane, and where it `asksNext`, when the next one is due. */
export type ClaimPermit = {
	readonly queue: DestinationQueue;
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

export type PermitsOptions = {
	/** Copies claimed and not yet done, in all. */
	readonly maxInFlight: number;
	/** No site waits longer for its next try, milliseconds. */
	readonly longestWait: () => number;
	/** A site's pace changed. */
	readonly onSite: (site: Site, changes: readonly SiteChange[]) => void;
};

/** The lanes and their sites, and the steps of a lane's life that come before a grant and after it. */
type Around = {
	readonly registry: QueueRegistry;
	readonly sites: SiteRegistry;
	readonly capacity: Capacity;
	readonly toFind: ToFind;
	readonly sentToday: SentToday;
	readonly place: (queue: DestinationQueue, own: Route, now: Moment) => void;
	readonly wake: (queue: DestinationQueue, now: Moment) => void;
	readonly rest: (queue: DestinationQueue) => void;
};

/** A way is found anew after so long, milliseconds. */
const renewMs = 60_000;

/** From a lane's turn to the end of its copies: who may claim how much, how each copy travels, what its end tells. */
export function createPermits(options: PermitsOptions & Around) {
	const {registry, sites, capacity, toFind, sentToday, place, wake, rest, maxInFlight, longestWait, onSite} = options;

	/** The lane whose turn it is; those whose share of the day is used up meanwhile go elsewhere. */
	function nextQueue({item: site, group}: Turn<Site>, rank: Rank, now: Moment): DestinationQueue | undefined {
		const workspaceId = group ?? undefined;
		for (;;) {
			const from = ranks.find(
				one => rankAt(site, one) === rank && firstTurn(site.ready[one], workspaceId) !== undefined,
			);
			const queue = from && takeTurn(site.ready[from], workspaceId);
			if (!queue?.placed) {
				return undefined;
			}
			const {own, route} = queue.placed;
			if (own.warmUp === null || route !== own || sentToday.left(own.warmUp, now.now) > 0) {
				return queue;
			}
			place(queue, own, now);
		}
	}

	function permit(queue: DestinationQueue, rank: Rank, most: number, now: Moment): ClaimPermit {
		const {own, route, site, foundAt} = queue.placed as NonNullable<DestinationQueue['placed']>;
		const counted = route === own ? own.warmUp : null;
		const limit = counted ? Math.min(most, sentToday.left(counted, now.now)) : most;
		const granted = {
			queue,
			site,
			route,
			rank,
			limit,
			asksNext: queue.asksNext,
			newestFirst: queue.fresh && queue.asksNext,
			warmUp: counted && sentToday.dayOf(counted, now.now),
		};
		queue.state = 'claiming';
		queue.asksNext = false;
		registry.waiting.delete(queue);
		capacity.take(site, rank, limit);
		spend(site.state, limit, now.monotonic);
		if (now.monotonic - foundAt > renewMs) {
			toFind.renew(queue);
		}
		return granted;
	}

	function permitsOf(rank: Rank, proven: boolean, now: Moment): ClaimPermit[] {
		const granted: ClaimPermit[] = [];
		for (const turn of capacity.turns(rank, proven)) {
			const site = turn.item;
			const own = ownCapacity(site, maxInFlight, now.monotonic);
			const limit = Math.min(own, capacity.left(rank, proven));
			if (own > 0 && limit < Math.min(own, capacity.smallestClaim(site, rank, proven, now.monotonic))) {
				break; // Those behind it would take what becomes free, and it would wait for ever.
			}
			capacity.served(turn, rank);
			const queue = own > 0 ? nextQueue(turn, rank, now) : undefined;
			if (queue) {
				granted.push(permit(queue, rank, limit, now));
			}
			capacity.enlist(site, now);
		}
		return granted;
	}

	/** What the site may have is changed. */
	function change(site: Site, how: (state: SiteState) => void): void {
		const before = isProven(site);
		how(site.state);
		sites.noteBackoff(site);
		if (isProven(site) !== before) {
			capacity.moved(site, before);
		}
	}

	return {
		/** The claims to be made now; their room is taken until `claimed`. */
		permits: (now: Moment): ClaimPermit[] => [
			...permitsOf('fresh', false, now),
			...permitsOf('fresh', true, now),
			...permitsOf('mixed', false, now),
			...permitsOf('backlog', false, now),
			...permitsOf('backlog', true, now),
		],

		/** A full claim means that more may be due. */
		claimed({queue, site, rank, limit, asksNext, warmUp: day}: ClaimPermit, result: ClaimResult, now: Moment): void {
			const free = limit - result.count;
			queue.state = 'idle';
			queue.inFlight += result.count;
			capacity.take(site, rank, -free);
			spend(site.state, -free, now.monotonic);
			const spent = day !== null && result.warmedUp !== null && sentToday.note(day, result.warmedUp);
			if (free === 0) {
				queue.asksNext ||= asksNext;
			} else if (result.nextDue !== null) {
				registry.waitUntil(queue, result.nextDue);
			}
			if (free === 0 || queue.again || spent) {
				queue.again = false;
				wake(queue, now);
			} else {
				queue.fresh = false;
				rest(queue);
			}
			capacity.enlist(site, now);
		},

		/** How a claimed copy may travel now; null: its site is left alone since. */
		travelTerms({site, route}: ClaimPermit, now: Moment): TravelTerms | null {
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
			capacity.enlist(site, now);
		},

		/** Other nodes have all of the site: its lanes here have no work until it is noticed again. */
		leave(site: Site): void {
			for (const queue of readyQueues(site)) {
				queue.state = 'idle';
				queue.fresh = false;
				registry.waiting.delete(queue);
				capacity.unqueue(queue, site);
				rest(queue);
			}
		},

		/** A claimed copy is done; `end`: what its try tells of the site, null where none was asked. */
		done({queue, site, rank}: ClaimPermit, end: SiteEnd | null, now: Moment): void {
			queue.inFlight--;
			capacity.take(site, rank, -1);
			if (end) {
				let changes: readonly SiteChange[] = [];
				change(site, state => {
					changes = tried(state, end, now.monotonic, longestWait());
				});
				if (changes.length > 0) {
					onSite(site, changes);
				}
			}
			capacity.enlist(site, now);
			rest(queue);
		},
	};
}
