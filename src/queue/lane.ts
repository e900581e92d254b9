import {type LaneKey, laneText, type Route} from '../mail/route.ts';
import {createAgenda, type Timed} from './agenda.ts';
import type {Site} from './site.ts';

/**
 * `idle`: nothing is known to be due now. `looking`: its way is being found. `ready`: it waits for its turn at its site.
 * `claiming`: the store is asked. `suspended`: by an operator. `spent`: the day's share of a new source is used up.
 */
export type LaneState = 'idle' | 'looking' | 'ready' | 'claiming' | 'suspended' | 'spent';

/** One workspace's mail for one destination. Its time is when the next copy known to be due later is due, wall clock. */
export type Lane = Timed &
	LaneKey & {
		state: LaneState;
		/** The way that it goes now, its own or the overflow of it, and where that leads; null: not found yet. */
		placed: {readonly own: Route; readonly route: Omit<Route, 'warmUp'>; readonly site: Site; foundAt: number} | null;
		/** Where it was last, while all its mail is due later; null: elsewhere, or not known. */
		restsAt: Site | null;
		/** Copies claimed and not yet done. */
		inFlight: number;
		/** Where it is `spent`: what is used up. */
		spent: Route['warmUp'];
		/** Mail was just accepted for it. */
		fresh: boolean;
		/** Whether others may be due after the one that was known: the next claim asks the store. */
		asksNext: boolean;
		/** Work arrived while a claim was under way: look once more after it. */
		again: boolean;
		/** Since when work that is due was not claimed, monotonic milliseconds. */
		since: number;
	};

export function newLane({destination, workspaceId}: LaneKey): Lane {
	return {
		at: null,
		place: 0,
		destination,
		workspaceId,
		state: 'idle',
		placed: null,
		restsAt: null,
		inFlight: 0,
		spent: null,
		fresh: false,
		asksNext: false,
		again: false,
		since: 0,
	};
}

/** The lanes that have work, or of which it is known when the next copy is due. */
export function createLaneRegistry() {
	const lanes = new Map<string, Lane>();
	const dueLater = createAgenda<Lane>();

	return {
		/** Lanes with work due that is not being claimed, the longest waiting first. */
		waiting: new Set<Lane>(),

		of(key: LaneKey): Lane {
			const text = laneText(key);
			let lane = lanes.get(text);
			if (!lane) {
				lane = newLane(key);
				lanes.set(text, lane);
			}
			return lane;
		},

		find: (key: LaneKey): Lane | undefined => lanes.get(laneText(key)),

		/** More of it is due at `at` (wall-clock milliseconds), if nothing is before. */
		waitUntil(lane: Lane, at: number): void {
			if (lane.at === null || at < lane.at) {
				dueLater.set(lane, at);
			}
		},

		/** Takes the next lane of which a copy has become due; undefined: none. */
		nextDue: (now: number): Lane | undefined => dueLater.next(now),

		forget: (lane: Lane): void => void lanes.delete(laneText(lane)),

		all: (): Iterable<Lane> => lanes.values(),
	};
}

export type LaneRegistry = ReturnType<typeof createLaneRegistry>;
