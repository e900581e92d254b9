import type {Moment} from '../pace/saved.ts';
import type {Lane} from './lane.ts';
import type {LaneRegistry} from './lane-registry.ts';
import type {Placing} from './placing.ts';
import type {SiteRegistry} from './site-registry.ts';
import type {ToFind} from './to-find.ts';

export type WakingOptions = {
	readonly registry: LaneRegistry;
	readonly sites: SiteRegistry;
	readonly toFind: ToFind;
	readonly placing: Placing;
};

/** Work of a lane becomes due: it waits for its turn, for its way to be found, or for the operator. */
export function createWaking({registry, sites, toFind, placing}: WakingOptions) {
	const {waiting} = registry;
	let suspended: ReadonlySet<string> = new Set();

	function wake(lane: Lane, now: Moment): void {
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
			placing.queue(lane, lane.placed.site, now);
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

	return {
		wake,
		wakeAgain,

		/** From now on an operator lets nothing go to these destinations. */
		suspend(destinations: ReadonlySet<string>, now: Moment): void {
			suspended = destinations;
			for (const lane of waiting) {
				const stops = suspended.has(lane.destination);
				if (stops && lane.state !== 'suspended') {
					toFind.remove(lane);
					placing.unplace(lane);
					lane.state = 'suspended';
				} else if (!stops && lane.state === 'suspended') {
					wakeAgain(lane, now);
				}
			}
		},
	};
}

export type Waking = ReturnType<typeof createWaking>;
