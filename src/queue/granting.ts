import type {Moment} from '../pace/saved.ts';
import {spend} from '../pace/site.ts';
import type {Grant} from './grant.ts';
import type {Lane} from './lane.ts';
import type {LaneRegistry} from './lane-registry.ts';
import type {Placing} from './placing.ts';
import type {Room, Turn} from './room.ts';
import {ownRoom, type Rank, rankAt, ranks} from './site.ts';
import type {SiteTurns} from './site-turns.ts';
import type {ToFind} from './to-find.ts';
import {hasTurns, takeTurn} from './turns.ts';
import type {WarmUp} from './warm-up.ts';

export type GrantingOptions = {
	readonly room: Room;
	readonly turns: SiteTurns;
	readonly registry: LaneRegistry;
	readonly placing: Placing;
	readonly toFind: ToFind;
	readonly warmUp: WarmUp;
	/** Copies claimed and not yet settled, in all. */
	readonly maxInFlight: number;
};

/** A way is found anew after so long, milliseconds. */
const renewMs = 60_000;

/** Who may claim now, and how much; answers the claims to be made. Their room is taken from then on. */
export function createGranting(options: GrantingOptions): (now: Moment) => Grant[] {
	const {room, turns, registry, placing, toFind, warmUp, maxInFlight} = options;

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
			placing.place(lane, own, now);
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

	return now => [
		...grantsOf('fresh', false, now),
		...grantsOf('fresh', true, now),
		...grantsOf('mixed', false, now),
		...grantsOf('backlog', false, now),
		...grantsOf('backlog', true, now),
	];
}
