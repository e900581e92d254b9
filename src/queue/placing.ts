import type {Way} from '../mail/way.ts';
import type {Moment} from '../pace/saved.ts';
import type {Lane} from './lane.ts';
import type {LaneRegistry} from './lane-registry.ts';
import type {Site} from './site.ts';
import type {SiteRegistry} from './site-registry.ts';
import type {SiteTurns} from './site-turns.ts';
import type {ToFind} from './to-find.ts';
import type {WarmUp} from './warm-up.ts';

export type PlacingOptions = {
	readonly registry: LaneRegistry;
	readonly sites: SiteRegistry;
	readonly turns: SiteTurns;
	readonly toFind: ToFind;
	readonly warmUp: WarmUp;
};

/** At which site a lane's mail is: where its way leads, or what stands in for that way today. */
export function createPlacing({registry, sites, turns, toFind, warmUp}: PlacingOptions) {
	function queue(lane: Lane, site: Site, now: Moment): void {
		lane.state = 'ready';
		turns.queue(lane, site, now);
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

	return {
		/** Its work is due: it waits for its turn at the site where it is. */
		queue,

		/** The lane goes by this way from now on; where it is ready it waits for its turn there. */
		place(lane: Lane, own: Way, now: Moment): void {
			unplace(lane);
			const way = own.warmUp && warmUp.left(own.warmUp, now.now) <= 0 ? own.warmUp.overflow : own;
			if (way !== null) {
				const site = sites.enter(way, now);
				lane.placed = {own, way, site, foundAt: now.monotonic};
				if (lane.state === 'ready') {
					queue(lane, site, now);
				}
			} else if (lane.state === 'ready') {
				lane.state = 'spent';
				lane.spent = own.warmUp;
				registry.waitUntil(lane, warmUp.endOfDay(now.now));
			}
		},

		unplace,

		/** Where nothing is under way the way is found anew next time, and without work the lane is forgotten. */
		rest(lane: Lane): void {
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
		},
	};
}

export type Placing = ReturnType<typeof createPlacing>;
