import type {LaneKey, Route} from '../mail/route.ts';
import type {Moment} from '../pace/saved.ts';
import {createSentToday} from '../pace/warm-up.ts';
import {createToFind} from './find-routes.ts';
import {createGrants, type GrantsOptions} from './grants.ts';
import {createLaneRegistry, type Lane} from './lane.ts';
import {createRoom, type RoomOptions} from './room.ts';
import {createSiteRegistry, type Site, type SiteRegistryOptions} from './site.ts';

export type LanesOptions = SiteRegistryOptions & RoomOptions & GrantsOptions;

/**
 * Who may claim next: sites take turns, within a site its workspaces, and within a workspace its destinations, so that no
 * backlog stands before another one's mail. Each site gets what its pace allows. Knows nothing of the store: the scheduler
 * tells it what is due and what became of it.
 */
export function createLanes(options: LanesOptions) {
	const registry = createLaneRegistry();
	const sites = createSiteRegistry(options);
	const toFind = createToFind();
	const room = createRoom(options);
	const sentToday = createSentToday();
	let suspended: ReadonlySet<string> = new Set();

	/** Work of it is due: it waits for its turn, for its way to be found, or for the operator. */
	function wake(lane: Lane, now: Moment): void {
		if (lane.state === 'claiming') {
			lane.again = true;
			return;
		}
		if (lane.state === 'idle') {
			lane.since = now.monotonic;
			registry.waiting.add(lane);
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

	/** What it stood still for is over: others may be due by now. */
	function wakeAgain(lane: Lane, now: Moment): void {
		lane.state = 'idle';
		lane.asksNext = true;
		wake(lane, now);
	}

	/** It waits for its turn at the site where it is. */
	function queue(lane: Lane, site: Site, now: Moment): void {
		lane.state = 'ready';
		room.queue(lane, site, now);
	}

	/** The lane goes by this way from now on, or by what stands in for it today; where it is ready it waits for its turn there. */
	function place(lane: Lane, own: Route, now: Moment): void {
		unplace(lane);
		const route = own.warmUp && sentToday.left(own.warmUp, now.now) <= 0 ? own.warmUp.overflow : own;
		if (route !== null) {
			const site = sites.enter(route, now);
			lane.placed = {own, route, site, foundAt: now.monotonic};
			if (lane.state === 'ready') {
				queue(lane, site, now);
			}
		} else if (lane.state === 'ready') {
			lane.state = 'spent';
			lane.spent = own.warmUp;
			registry.waitUntil(lane, sentToday.endOfDay(now.now));
		}
	}

	function unplace(lane: Lane): void {
		if (!lane.placed) {
			return;
		}
		const {site} = lane.placed;
		lane.placed = null;
		toFind.remove(lane);
		room.unqueue(lane, site);
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
			registry.forget(lane);
		} else if (site) {
			sites.rest(lane, site);
		}
	}

	return {
		/** Mail for this lane was just accepted: it is due now. */
		arrived(key: LaneKey, now: Moment): void {
			const lane = registry.of(key);
			const isNews = !lane.fresh;
			lane.fresh = true;
			if (isNews || lane.state !== 'ready') {
				wake(lane, now);
			}
		},

		/** Whether its mail waits here: for its turn, or for the end of a claim. */
		isWaiting(key: LaneKey): boolean {
			const lane = registry.find(key);
			return lane?.state === 'ready' || (lane?.state === 'claiming' && lane.again);
		},

		/** The store holds mail that is due, accepted or left behind by another node. */
		noticed(key: LaneKey, now: Moment): void {
			const lane = registry.of(key);
			lane.fresh ||= lane.state === 'idle';
			wake(lane, now);
		},

		/** One copy of this lane is due at `at` (wall-clock milliseconds). */
		due(key: LaneKey, at: number, now: Moment): void {
			const lane = registry.of(key);
			if (at <= now.now) {
				wake(lane, now);
			} else {
				registry.waitUntil(lane, at);
			}
		},

		/** Of those in the store the first copy of this lane is due at `at`, others may follow. */
		found(key: LaneKey, at: number, now: Moment): void {
			const lane = registry.of(key);
			if (at <= now.now) {
				lane.asksNext = true;
				wake(lane, now);
			} else {
				registry.waitUntil(lane, at);
			}
		},

		/** Wakes what has become due. Of all that waits in a lane only the first time is known: its claim asks for the next. */
		advance(now: Moment): void {
			for (let lane = registry.nextDue(now.now); lane; lane = registry.nextDue(now.now)) {
				lane.asksNext = true;
				if (lane.state === 'spent') {
					lane.state = 'idle';
				}
				wake(lane, now);
			}
			room.advance(now);
		},

		...createGrants({...options, registry, sites, room, toFind, sentToday, place, wake, rest}),

		/** A lane whose way is to be found; `backlog`: also of what was tried before. The caller tells `placed`. */
		nextToFind: (backlog: boolean): Lane | undefined => toFind.next(backlog),

		/** The way of a lane is found, or found anew. */
		placed(lane: Lane, own: Route, now: Moment): void {
			if (lane.state === 'looking') {
				lane.state = 'ready';
				place(lane, own, now);
			} else if (lane.placed) {
				place(lane, own, now);
			}
		},

		/** Its way could not be found: it is to be looked for again. */
		unfound(lane: Lane): void {
			if (lane.state === 'looking') {
				toFind.again(lane);
			}
		},

		/** Ways may lead elsewhere from now on: all are found anew, and nothing more goes the former way, also where it waits. */
		renew(now: Moment): void {
			for (const lane of registry.all()) {
				sites.endRest(lane);
				unplace(lane);
				if (lane.state === 'ready') {
					toFind.seek(lane);
				} else if (lane.state === 'spent') {
					wakeAgain(lane, now);
				}
			}
		},

		/** From now on an operator lets nothing go to these destinations. */
		suspend(destinations: ReadonlySet<string>, now: Moment): void {
			suspended = destinations;
			for (const lane of registry.waiting) {
				const stops = suspended.has(lane.destination);
				if (stops && lane.state !== 'suspended') {
					toFind.remove(lane);
					unplace(lane);
					lane.state = 'suspended';
				} else if (!stops && lane.state === 'suspended') {
					wakeAgain(lane, now);
				}
			}
		},

		/** One copy may try each of these sites, where it is left alone. */
		probe(names: Iterable<string>, now: Moment): void {
			for (const name of names) {
				const site = sites.probe(name, now);
				if (site) {
					room.enlist(site, now);
				}
			}
		},

		/** Lanes with work that is due and not being claimed, the longest waiting first; then those of sites that are left alone. */
		*waiting(now: Moment): Iterable<Lane> {
			yield* registry.waiting;
			yield* sites.backingOff(now);
		},

		sites: sites.all,

		get inFlight(): number {
			return room.inFlight;
		},
	};
}

export type Lanes = ReturnType<typeof createLanes>;
