import {type LaneKey, laneText} from '../mail/way.ts';
import {createAgenda} from './agenda.ts';
import {type Lane, newLane} from './lane.ts';

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
