import type {LaneKey, Way} from '../mail/way.ts';
import type {Moment} from '../pace/saved.ts';
import type {SiteChange} from '../pace/site.ts';
import {createGranting} from './granting.ts';
import type {Lane} from './lane.ts';
import {createLaneRegistry} from './lane-registry.ts';
import {createPlacing} from './placing.ts';
import {createRoom} from './room.ts';
import {createSettling} from './settling.ts';
import type {Site} from './site.ts';
import {createSiteRegistry, type SiteRegistryOptions} from './site-registry.ts';
import {createSiteTurns} from './site-turns.ts';
import {createToFind} from './to-find.ts';
import {createWaking} from './waking.ts';
import {createWarmUp} from './warm-up.ts';

export type LanesOptions = SiteRegistryOptions & {
	/** Copies claimed and not yet settled, in all. */
	readonly maxInFlight: number;
	/** Those of them for sites of which it is not known that they answer; at most half of these for what was tried before. */
	readonly maxUnproven: number;
	/** A site's pace changed. */
	readonly onSite: (site: Site, changes: readonly SiteChange[]) => void;
};

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
	const turns = createSiteTurns({room, maxInFlight: options.maxInFlight});
	const warmUp = createWarmUp();
	const placing = createPlacing({registry, sites, turns, toFind, warmUp});
	const waking = createWaking({registry, sites, toFind, placing});
	const {wake, wakeAgain} = waking;
	const parts = {room, sites, turns, registry, placing, waking, toFind, warmUp};

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
			turns.advance(now);
		},

		/** The claims to be made now; their room is taken until `claimed`. */
		grants: createGranting({...parts, maxInFlight: options.maxInFlight}),

		...createSettling({...parts, longestWait: options.longestWait, onSite: options.onSite}),

		/** A lane whose way is to be found; `backlog`: also of what was tried before. The caller tells `placed`. */
		nextToFind: (backlog: boolean): Lane | undefined => toFind.next(backlog),

		/** The way of a lane is found, or found anew. */
		placed(lane: Lane, own: Way, now: Moment): void {
			if (lane.state === 'looking') {
				lane.state = 'ready';
				placing.place(lane, own, now);
			} else if (lane.placed) {
				placing.place(lane, own, now);
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
				placing.unplace(lane);
				if (lane.state === 'ready') {
					toFind.seek(lane);
				} else if (lane.state === 'spent') {
					wakeAgain(lane, now);
				}
			}
		},

		/** From now on an operator lets nothing go to these destinations. */
		suspend: waking.suspend,

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
			yield* registry.waiting;
			yield* sites.leftAlone(now);
		},

		sites: sites.all,

		get inFlight(): number {
			return room.inFlight;
		},
	};
}

export type Lanes = ReturnType<typeof createLanes>;
