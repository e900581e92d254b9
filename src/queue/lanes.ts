import {type LaneKey, laneText, type Way} from '../mail/way.ts';
import type {Moment} from '../pace/saved.ts';
import {connectionsOf, type SiteChange, type SiteEnd, spend, tried} from '../pace/site.ts';
import {createAgenda} from './agenda.ts';
import type {Brought, Grant, Lent} from './grant.ts';
import {type Lane, newLane} from './lane.ts';
import {createRoom, type Turn} from './room.ts';
import {isProven, ownRoom, type Rank, rankAt, ranks, type Site} from './site.ts';
import {createSiteRegistry, type SiteRegistryOptions} from './site-registry.ts';
import {createSiteTurns} from './site-turns.ts';
import {createToFind} from './to-find.ts';
import {hasTurns, takeTurn} from './turns.ts';
import {createWarmUp} from './warm-up.ts';

export type LanesOptions = SiteRegistryOptions & {
	/** Copies claimed and not yet settled, in all. */
	readonly maxInFlight: number;
	/** Those of them for sites of which it is not known that they answer; at most half of these for what was tried before. */
	readonly maxUnproven: number;
	/** A site's pace changed. */
	readonly onSite: (site: Site, changes: readonly SiteChange[]) => void;
};

/** A way is found anew after so long, milliseconds. */
const renewMs = 60_000;

/**
 * Who may claim next: sites take turns, within a site its workspaces, and within a workspace its destinations, so that no
 * backlog stands before another one's mail. Each site gets what its pace allows. Knows nothing of the store: the scheduler
 * tells it what is due and what became of it.
 */
export function createLanes(options: LanesOptions) {
	const {maxInFlight, longestWait, onSite} = options;
	const lanes = new Map<string, Lane>();
	const sites = createSiteRegistry(options);
	const dueLater = createAgenda<Lane>();
	/** Lanes with work due that is not being claimed, the longest waiting first. */
	const waiting = new Set<Lane>();
	const toFind = createToFind();
	const room = createRoom(options);
	const turns = createSiteTurns({room, maxInFlight});
	const warmUp = createWarmUp();
	let suspended: ReadonlySet<string> = new Set();

	function laneOf(key: LaneKey): Lane {
		const text = laneText(key);
		let lane = lanes.get(text);
		if (!lane) {
			lane = newLane(key);
			lanes.set(text, lane);
		}
		return lane;
	}

	function waitUntil(lane: Lane, at: number): void {
		if (lane.at === null || at < lane.at) {
			dueLater.set(lane, at);
		}
	}

	/** Work of the lane is due: it waits for its turn, once it is known where. */
	function makeReady(lane: Lane, now: Moment): void {
		if (lane.state === 'claiming') {
			lane.again = true;
			return;
		}
		if (lane.state === 'idle') {
			lane.since = now.monotonic;
			waiting.add(lane);
			sites.endRest(lane);
		} else if (lane.state !== 'ready' && lane.state !== 'looking') {
			return;
		}
		if (suspended.has(lane.destination)) {
			lane.state = 'suspended';
		} else if (lane.placed) {
			queue(lane, lane.placed.site, now);
		} else {
			toFind.seek(lane);
		}
	}

	function queue(lane: Lane, site: Site, now: Moment): void {
		lane.state = 'ready';
		turns.queue(lane, site, now);
	}

	/** The lane goes by this way from now on, or by what stands in for it today. */
	function place(lane: Lane, own: Way, now: Moment): void {
		unplace(lane);
		const way = own.warmUp && warmUp.left(own.warmUp, now.now) <= 0 ? own.warmUp.overflow : own;
		if (way === null) {
			if (lane.state === 'ready') {
				lane.state = 'spent';
				lane.spent = own.warmUp;
				waitUntil(lane, warmUp.endOfDay(now.now));
			}
			return;
		}
		lane.placed = {own, way, site: sites.enter(way, now), foundAt: now.monotonic};
	}

	function unplace(lane: Lane): void {
		if (!lane.placed) {
			return;
		}
		const {site} = lane.placed;
		lane.placed = null;
		toFind.remove(lane);
		turns.unqueue(lane, site);
		sites.leave(site);
	}

	/** Where nothing is under way the way is found anew next time, and without work the lane is forgotten. */
	function rest(lane: Lane): void {
		if (lane.state !== 'idle' || lane.inFlight > 0) {
			return;
		}
		const site = lane.placed?.site;
		unplace(lane);
		if (lane.at === null) {
			lanes.delete(laneText(lane));
		} else if (site) {
			sites.rest(lane, site);
		}
	}

	/** The lane whose turn it is; those whose share of the day is used up meanwhile go elsewhere. */
	function nextLane({site, workspaceId}: Turn, rank: Rank, now: Moment): Lane | undefined {
		for (;;) {
			const from = ranks.find(one => rankAt(site, one) === rank && hasTurns(site.ready[one], workspaceId));
			const lane = from && takeTurn(site.ready[from], workspaceId);
			if (!lane?.placed) {
				return undefined;
			}
			const {own, way} = lane.placed;
			if (own.warmUp === null || way !== own || warmUp.left(own.warmUp, now.now) > 0) {
				return lane;
			}
			replace(lane, own, now);
		}
	}

	function replace(lane: Lane, own: Way, now: Moment): void {
		place(lane, own, now);
		if (lane.placed && lane.state === 'ready') {
			queue(lane, lane.placed.site, now);
		}
	}

	function grant(lane: Lane, rank: Rank, most: number, now: Moment): Grant {
		const {own, way, site, foundAt} = lane.placed as NonNullable<Lane['placed']>;
		const counted = way === own ? own.warmUp : null;
		const limit = counted ? Math.min(most, warmUp.left(counted, now.now)) : most;
		const granted = {
			lane,
			site,
			way,
			rank,
			limit,
			asksNext: lane.asksNext,
			newestFirst: lane.fresh && lane.asksNext,
			warmUp: counted && warmUp.dayOf(counted, now.now),
		};
		lane.state = 'claiming';
		lane.asksNext = false;
		waiting.delete(lane);
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
			const {site} = turn;
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
			turns.enlist(site, now);
		}
		return granted;
	}

	return {
		/** Mail for this lane was just accepted: it is due now. */
		arrived(key: LaneKey, now: Moment): void {
			const lane = laneOf(key);
			const isNews = !lane.fresh;
			lane.fresh = true;
			if (isNews || lane.state !== 'ready') {
				makeReady(lane, now);
			}
		},

		/** The store holds mail that is due, accepted or left behind by another node. */
		noticed(key: LaneKey, now: Moment): void {
			const lane = laneOf(key);
			lane.fresh ||= lane.state === 'idle';
			makeReady(lane, now);
		},

		/** One copy of this lane is due at `at` (wall-clock milliseconds). */
		due(key: LaneKey, at: number, now: Moment): void {
			const lane = laneOf(key);
			if (at <= now.now) {
				makeReady(lane, now);
			} else {
				waitUntil(lane, at);
			}
		},

		/** Of those in the store the first copy of this lane is due at `at`, others may follow. */
		found(key: LaneKey, at: number, now: Moment): void {
			const lane = laneOf(key);
			if (at <= now.now) {
				lane.asksNext = true;
				makeReady(lane, now);
			} else {
				waitUntil(lane, at);
			}
		},

		/** Wakes what has become due. Of all that waits in a lane only the first time is known: its claim asks for the next. */
		advance(now: Moment): void {
			for (let lane = dueLater.next(now.now); lane; lane = dueLater.next(now.now)) {
				lane.asksNext = true;
				if (lane.state === 'spent') {
					lane.state = 'idle';
				}
				makeReady(lane, now);
			}
			turns.advance(now);
		},

		/** The claims to be made now; their room is taken until `claimed`. */
		grants: (now: Moment): Grant[] => [
			...grantsOf('fresh', false, now),
			...grantsOf('fresh', true, now),
			...grantsOf('mixed', false, now),
			...grantsOf('backlog', false, now),
			...grantsOf('backlog', true, now),
		],

		/** A full claim means that more may be due. */
		claimed({lane, site, rank, limit, asksNext, warmUp: day}: Grant, brought: Brought, now: Moment): void {
			const free = limit - brought.count;
			lane.state = 'idle';
			lane.inFlight += brought.count;
			room.take(site, rank, -free);
			spend(site.state, -free, now.monotonic);
			const spent = day !== null && brought.warmedUp !== null && warmUp.note(day, brought.warmedUp);
			if (free === 0) {
				lane.asksNext ||= asksNext;
			} else if (brought.nextDue !== null) {
				waitUntil(lane, brought.nextDue);
			}
			if (free === 0 || lane.again || spent) {
				lane.again = false;
				makeReady(lane, now);
			} else {
				lane.fresh = false;
				rest(lane);
			}
			turns.enlist(site, now);
		},

		/** How a claimed copy may travel now; null: its site is left alone since. */
		lend({site, way}: Grant, now: Moment): Lent | null {
			const connections = connectionsOf(site.state, now.monotonic);
			if (connections === 0) {
				return null;
			}
			const {mailsPerSession} = site.state;
			const lowered = mailsPerSession < way.terms.mailsPerSession;
			return {connections, way: lowered ? {...way, terms: {...way.terms, mailsPerSession}} : way};
		},

		/** A claimed copy is settled; `end`: what its try tells of the site, null where none was asked. */
		settled({lane, site, rank}: Grant, end: SiteEnd | null, now: Moment): void {
			lane.inFlight--;
			room.take(site, rank, -1);
			if (end) {
				const before = isProven(site);
				const changes = tried(site.state, end, now.monotonic, longestWait());
				sites.noteSuspension(site);
				if (isProven(site) !== before) {
					room.moved(site, before);
				}
				if (changes.length > 0) {
					onSite(site, changes);
				}
			}
			turns.enlist(site, now);
			rest(lane);
		},

		/** A lane whose way is to be found; `backlog`: also of what was tried before. The caller tells `placed`. */
		nextToFind: (backlog: boolean): Lane | undefined => toFind.next(backlog),

		/** The way of a lane is found, or found anew. */
		placed(lane: Lane, own: Way, now: Moment): void {
			if (lane.state === 'looking') {
				lane.state = 'ready';
				replace(lane, own, now);
			} else if (lane.placed) {
				replace(lane, own, now);
			}
		},

		/** Ways may lead elsewhere from now on: all are found anew, also where they lead to waits. */
		renew(now: Moment): void {
			for (const lane of lanes.values()) {
				sites.endRest(lane);
				if (lane.placed) {
					toFind.renew(lane);
				} else if (lane.state === 'spent') {
					lane.state = 'idle';
					lane.asksNext = true;
					makeReady(lane, now);
				}
			}
		},

		/** Its way could not be found: it is to be looked for again. */
		unfound(lane: Lane): void {
			if (lane.state === 'looking') {
				toFind.again(lane);
			}
		},

		/** From now on an operator lets nothing go to these destinations. */
		suspend(destinations: ReadonlySet<string>, now: Moment): void {
			suspended = destinations;
			for (const lane of waiting) {
				const stops = suspended.has(lane.destination);
				if (stops && lane.state !== 'suspended') {
					toFind.remove(lane);
					unplace(lane);
					lane.state = 'suspended';
				} else if (!stops && lane.state === 'suspended') {
					lane.state = 'idle';
					lane.asksNext = true;
					makeReady(lane, now);
				}
			}
		},

		/** One copy may try each of these sites, where it is left alone. */
		probe(names: Iterable<string>, now: Moment): void {
			for (const name of names) {
				const site = sites.probe(name, now);
				if (site) {
					turns.enlist(site, now);
				}
			}
		},

		/** Lanes with work that is due and not being claimed, the longest waiting first; then those of sites that are left alone. */
		*waiting(now: Moment): Iterable<Lane> {
			yield* waiting;
			yield* sites.leftAlone(now);
		},

		sites: sites.all,

		get inFlight(): number {
			return room.inFlight;
		},
	};
}

export type Lanes = ReturnType<typeof createLanes>;
