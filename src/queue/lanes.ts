import type {SavedSite} from '../mail/saved-site.ts';
import {type LaneKey, laneText, type Way} from '../mail/way.ts';
import {type Moment, restoredSite} from '../pace/saved.ts';
import {
	connectionsOf,
	isLeftAlone,
	newSite,
	opensAt,
	probeNow,
	type SiteChange,
	type SiteEnd,
	setPace,
	spend,
	tried,
} from '../pace/site.ts';
import {createAgenda} from './agenda.ts';
import {type Lane, newLane} from './lane.ts';
import {createRoom, type Turn} from './room.ts';
import {inFlightOf, isProven, newSiteOf, ownRoom, type Rank, rankAt, ranks, type Site} from './site.ts';
import {addTurn, hasTurn, hasTurns, removeTurn, type Turns, takeTurn} from './turns.ts';
import {createWarmUp, type WarmUpDay} from './warm-up.ts';

/** A claim to be made now: at most `limit` copies of this lane, and where it `asksNext`, when the next one is due. */
export type Grant = {
	readonly lane: Lane;
	readonly site: Site;
	readonly way: Omit<Way, 'warmUp'>;
	readonly rank: Rank;
	readonly limit: number;
	readonly asksNext: boolean;
	/** Mail was just accepted where other mail is due. */
	readonly newestFirst: boolean;
	/** Its copies count in this day of a new source; null: in none. */
	readonly warmUp: WarmUpDay | null;
};

/** What a claim brought. */
export type Brought = {
	readonly count: number;
	/** When the next copy of the lane is due (null: none, or it was not asked). */
	readonly nextDue: number | null;
	/** Copies of the warm-up's day, these included; null: there is none. */
	readonly warmedUp: number | null;
};

/** How a copy may travel now. */
export type Lent = {readonly way: Omit<Way, 'warmUp'>; readonly connections: number};

export type LanesOptions = {
	/** Copies claimed and not yet settled, in all. */
	readonly maxInFlight: number;
	/** Those of them for sites of which it is not known that they answer; at most half of these for what was tried before. */
	readonly maxUnproven: number;
	/** No site waits longer for its next try, milliseconds. */
	readonly longestWait: () => number;
	/** What is remembered of a site. */
	readonly remembered: (site: string) => SavedSite | undefined;
	/** A site's pace changed. */
	readonly onSite: (site: Site, changes: readonly SiteChange[]) => void;
};

/** A way is found anew after so long, milliseconds. */
const renewMs = 60_000;
/** Sites without work of which it is remembered how they did. */
const mostIdleSites = 10_000;

/**
 * Who may claim next: sites take turns, within a site its workspaces, and within a workspace its destinations, so that no
 * backlog stands before another one's mail. Each site gets what its pace allows. Knows nothing of the store: the scheduler
 * tells it what is due and what became of it.
 */
export function createLanes(options: LanesOptions) {
	const {maxInFlight, longestWait, onSite} = options;
	const lanes = new Map<string, Lane>();
	const sites = new Map<string, Site>();
	const idleSites = new Set<Site>();
	const leftAlone = new Set<Site>();
	/** Sites to be probed of which nothing but what is remembered is known yet. */
	const toProbe = new Set<string>();
	/** What is due later, and sites that may not start anything now. */
	const dueLater = createAgenda<Lane>();
	const openLater = createAgenda<Site>();
	/** Lanes with work due that is not being claimed, the longest waiting first. */
	const waiting = new Set<Lane>();
	/** Lanes whose way is to be found, workspaces in turn, and those of them that go on meanwhile. */
	const unplaced: Record<'fresh' | 'backlog', Turns<Lane>> = {fresh: new Map(), backlog: new Map()};
	const stale = new Set<Lane>();
	const room = createRoom(options);
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

	function siteOf(way: Omit<Way, 'warmUp'>, now: Moment): Site {
		let site = sites.get(way.site);
		if (!site) {
			const saved = options.remembered(way.site);
			const state = saved ? restoredSite(way.pace, saved, now, longestWait()) : newSite(way.pace);
			site = newSiteOf(way, state, saved !== undefined);
			sites.set(way.site, site);
			if (toProbe.delete(way.site)) {
				probeNow(state, now.monotonic);
			}
		}
		setPace(site.state, way.pace);
		site.provider = way.provider;
		return site;
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
			forgetRest(lane);
		} else if (lane.state !== 'ready' && lane.state !== 'looking') {
			return;
		}
		if (suspended.has(lane.destination)) {
			lane.state = 'suspended';
		} else if (lane.placed) {
			queue(lane, lane.placed.site, now);
		} else {
			seek(lane);
		}
	}

	function seek(lane: Lane): void {
		const isNew = lane.state !== 'looking';
		lane.state = 'looking';
		const rank = lane.fresh ? 'fresh' : 'backlog';
		if (isNew || (lane.fresh && hasTurn(unplaced.backlog, lane))) {
			removeTurn(unplaced.backlog, lane);
			addTurn(unplaced[rank], lane);
		}
	}

	function queue(lane: Lane, site: Site, now: Moment): void {
		const rank = lane.fresh ? (lane.asksNext ? 'mixed' : 'fresh') : 'backlog';
		lane.state = 'ready';
		if (!hasTurn(site.ready[rank], lane)) {
			unqueue(lane, site);
			addTurn(site.ready[rank], lane);
		}
		enlist(site, now);
	}

	function unqueue(lane: Lane, {ready}: Site): void {
		for (const rank of ranks) {
			removeTurn(ready[rank], lane);
		}
	}

	/** The site takes its turns while it has work and may start some; it keeps its place in the row. */
	function enlist(site: Site, {monotonic}: Moment): void {
		const {ready, state} = site;
		openLater.remove(site);
		if (state.suspension) {
			leftAlone.add(site);
		} else {
			leftAlone.delete(site);
		}
		const wants = new Set(ranks.filter(rank => ready[rank].size > 0).map(rank => rankAt(site, rank)));
		if (wants.size === 0) {
			room.delist(site);
			return;
		}
		const opens = opensAt(state, monotonic);
		if (opens > monotonic) {
			room.delist(site);
			openLater.set(site, opens);
		} else if (ownRoom(site, maxInFlight, monotonic) <= 0) {
			room.delist(site); // Until one of its copies is settled.
		} else {
			room.enlist(site, wants);
		}
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
		const site = siteOf(way, now);
		site.lanes++;
		idleSites.delete(site);
		lane.placed = {own, way, site, foundAt: now.monotonic};
	}

	function unplace(lane: Lane): void {
		if (!lane.placed) {
			return;
		}
		const {site} = lane.placed;
		lane.placed = null;
		stale.delete(lane);
		unqueue(lane, site);
		site.lanes--;
		if (site.lanes === 0 && !site.saved) {
			idleSites.add(site);
		}
		for (const idle of idleSites) {
			if (idleSites.size <= mostIdleSites) {
				break;
			}
			idleSites.delete(idle);
			// What is left alone, or has copies under way, is not to be taken for a new one.
			if (!idle.saved && idle.state.suspension === null && inFlightOf(idle) === 0) {
				sites.delete(idle.name);
			}
		}
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
			lane.restsAt = site;
			site.resting.add(lane);
		}
	}

	function forgetRest(lane: Lane): void {
		lane.restsAt?.resting.delete(lane);
		lane.restsAt = null;
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
			stale.add(lane);
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
			enlist(site, now);
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
			for (let site = openLater.next(now.monotonic); site; site = openLater.next(now.monotonic)) {
				enlist(site, now);
			}
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
			enlist(site, now);
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
				if (isProven(site) !== before) {
					room.moved(site, before);
				}
				if (changes.length > 0) {
					onSite(site, changes);
				}
			}
			enlist(site, now);
			rest(lane);
		},

		/** A lane whose way is to be found; `backlog`: also of what was tried before. The caller tells `placed`. */
		nextToFind(backlog: boolean): Lane | undefined {
			const [renewed] = stale;
			const lane = takeTurn(unplaced.fresh) ?? renewed ?? (backlog ? takeTurn(unplaced.backlog) : undefined);
			if (lane && lane === renewed) {
				stale.delete(lane);
			}
			return lane;
		},

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
				forgetRest(lane);
				if (lane.placed) {
					stale.add(lane);
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
				addTurn(unplaced[lane.fresh ? 'fresh' : 'backlog'], lane);
			}
		},

		/** From now on an operator lets nothing go to these destinations. */
		suspend(destinations: ReadonlySet<string>, now: Moment): void {
			suspended = destinations;
			for (const lane of waiting) {
				const stops = suspended.has(lane.destination);
				if (stops && lane.state !== 'suspended') {
					removeTurn(unplaced.fresh, lane);
					removeTurn(unplaced.backlog, lane);
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
				const site = sites.get(name);
				if (!site) {
					toProbe.add(name);
				} else if (probeNow(site.state, now.monotonic)) {
					enlist(site, now);
				}
			}
		},

		/** Lanes with work that is due and not being claimed, the longest waiting first; then those of sites that are left alone. */
		*waiting({monotonic}: Moment): Iterable<Lane> {
			yield* waiting;
			for (const {state, resting} of leftAlone) {
				if (isLeftAlone(state, monotonic)) {
					yield* resting;
				}
			}
		},

		sites: (): Iterable<Site> => sites.values(),

		get inFlight(): number {
			return room.inFlight;
		},
	};
}

export type Lanes = ReturnType<typeof createLanes>;
