/** What is known of one endpoint with work. */
export type Lane = {
	readonly endpointId: string;
	/** When each attempt under way began, monotonic milliseconds. */
	readonly begun: number[];
	/** Granted, and not yet begun. */
	granted: number;
	/** When something is due, wall clock; null: nothing that we know of. */
	due: number | null;
	/** Something came due while the store was asked: what it says may be old. */
	woken: boolean;
	/** After a failure, until an attempt succeeds: one at a time. */
	failing: boolean;
	/** Its last attempt succeeded soon, and none takes long now. */
	prompt: boolean;
	/** When an attempt last began or ended, monotonic milliseconds. */
	usedAt: number;
};

export type Grant = {readonly lane: Lane; readonly limit: number};

/** Wall clock and monotonic, milliseconds. */
export type Moment = {readonly now: number; readonly monotonic: number};

export type LanesOptions = {
	/** Attempts under way, per endpoint and in all. */
	readonly perEndpoint: number;
	readonly total: number;
};

/** An endpoint that takes longer for an answer is not prompt, milliseconds. */
const promptMs = 1000;
/** Endpoints that are slow, dead or not known share this part of the attempts: the rest is left to those that answer. */
const unprovenShare = 0.75;
/** So long is an endpoint remembered that has nothing to do, milliseconds. */
const rememberedMs = 600_000;

/**
 * Which endpoint may start how many attempts: they take turns, and those that are slow or dead never take all the room.
 * Decides only; it neither waits nor reads the store.
 */
export function createLanes({perEndpoint, total}: LanesOptions) {
	const lanes = new Map<string, Lane>();
	/** Lanes with something due and room of their own, in the order of their turns. */
	const ready = new Set<Lane>();
	const mostUnproven = Math.max(1, Math.ceil(total * unprovenShare));
	let inFlight = 0;
	let unproven = 0;

	const held = ({begun, granted}: Lane) => begun.length + granted;
	const room = (lane: Lane) => (lane.failing ? 1 : perEndpoint) - held(lane);

	function laneOf(endpointId: string): Lane {
		const known = lanes.get(endpointId);
		if (known) {
			return known;
		}
		const fresh = {due: null, woken: false, failing: false, prompt: false, usedAt: Number.POSITIVE_INFINITY};
		const lane = {endpointId, begun: [], granted: 0, ...fresh};
		lanes.set(endpointId, lane);
		return lane;
	}

	/** Changes what a lane holds, or whether it is prompt, and keeps the sums right. */
	function change(lane: Lane, apply: () => void): void {
		inFlight -= held(lane);
		unproven -= lane.prompt ? 0 : held(lane);
		apply();
		inFlight += held(lane);
		unproven += lane.prompt ? 0 : held(lane);
	}

	function settle(lane: Lane, now: number): void {
		if (lane.due !== null && lane.due <= now && room(lane) > 0) {
			ready.add(lane);
		} else {
			ready.delete(lane);
		}
	}

	function wake(lane: Lane, at: number, now: number): void {
		lane.due = lane.due === null ? at : Math.min(lane.due, at);
		lane.woken = true;
		settle(lane, now);
	}

	return {
		/** Something of this endpoint is due then (wall clock). */
		due(endpointId: string, at: number, now: number): void {
			wake(laneOf(endpointId), at, now);
		},

		/** As the store says, at a start or after a change by others. */
		found(endpointId: string, at: number, failing: boolean, now: number): void {
			const isNew = !lanes.has(endpointId);
			const lane = laneOf(endpointId);
			lane.failing = isNew ? failing : lane.failing;
			wake(lane, at, now);
		},

		/** Sees what has come due, and what takes long by now; to be called a few times a second. */
		advance({now, monotonic}: Moment): void {
			for (const lane of lanes.values()) {
				if (lane.prompt && lane.begun.some(at => monotonic - at > promptMs)) {
					change(lane, () => {
						lane.prompt = false;
					});
				}
				settle(lane, now);
				if (lane.due === null && held(lane) === 0 && monotonic - lane.usedAt > rememberedMs) {
					lanes.delete(lane.endpointId);
				}
			}
		},

		/** The attempts that may start now; they count as held until `claimed`. */
		grants(): Grant[] {
			const grants: Grant[] = [];
			for (const lane of [...ready]) {
				const left = total - inFlight;
				if (left <= 0) {
					break;
				}
				// Where room is scarce a turn is one attempt, so that the others have theirs.
				const turn = Math.min(room(lane), Math.max(1, Math.floor(left / ready.size)));
				const limit = Math.min(turn, lane.prompt ? left : Math.min(left, mostUnproven - unproven));
				if (limit > 0) {
					ready.delete(lane);
					lane.woken = false;
					change(lane, () => {
						lane.granted += limit;
					});
					grants.push({lane, limit});
				}
			}
			return grants;
		},

		/** The store gave so many for a grant; `nextDue` (wall clock) is that of the first that was not given, null: none. */
		claimed({lane, limit}: Grant, begun: readonly number[], nextDue: number | null, {now, monotonic}: Moment): void {
			lane.usedAt = monotonic;
			change(lane, () => {
				lane.granted -= limit;
				lane.begun.push(...begun);
			});
			lane.due = lane.woken ? Math.min(lane.due ?? now, nextDue ?? now) : nextDue;
			settle(lane, now);
		},

		/** An attempt that began then has ended. */
		ended(endpointId: string, begun: number, acknowledged: boolean, ms: number, now: number): void {
			const lane = laneOf(endpointId);
			change(lane, () => {
				const index = lane.begun.indexOf(begun);
				lane.begun.splice(index, index === -1 ? 0 : 1);
				lane.prompt = acknowledged && ms <= promptMs;
			});
			lane.failing = !acknowledged;
			settle(lane, now);
		},

		/** Attempts granted or under way. */
		get inFlight(): number {
			return inFlight;
		},
	};
}
