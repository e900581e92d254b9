/** What is known of one endpoint with work. */
export type Lane<Item> = {
	readonly endpointId: string;
	/** When each attempt under way began, monotonic milliseconds. */
	readonly begun: number[];
	/** Places that are granted, and not yet begun. */
	granted: number;
	/** Claimed beyond its places, in order: each begins as soon as an attempt ends. Only prompt lanes get some. */
	ahead: Item[];
	/** Some of what waited in memory went back since its last grant. */
	wentBack: boolean;
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

/** So many may be claimed; the first of them, at most `places`, begin now. */
export type Grant<Item> = {
	readonly lane: Lane<Item>;
	readonly places: number;
	readonly limit: number;
	/** How often all was recalled before it. */
	readonly recalls: number;
};

/** Wall clock and monotonic, milliseconds. */
export type Moment = {readonly now: number; readonly monotonic: number};

export type LanesOptions = {
	/** Attempts under way, per endpoint and in all; as many may wait in memory to begin. */
	readonly perEndpoint: number;
	readonly total: number;
};

/** An endpoint that takes longer for an answer is not prompt, milliseconds. */
const promptMs = 1000;
/** Endpoints that are slow, dead or not known share this part of the attempts: the rest is left to those that answer. */
const unprovenShare = 0.75;
/** So many times as many as may be under way to an endpoint may wait for it in memory, at most. */
const aheadTimes = 4;
/** So long is an endpoint remembered that has nothing to do, milliseconds. */
const rememberedMs = 600_000;

/**
 * Which endpoint may start how many attempts: they take turns, and those that are slow or dead never take all the room.
 * Those that answer at once get the next ones ahead: a transaction takes longer than they do, and on a busy machine many
 * times as long. Decides only; it neither waits nor reads the store.
 */
export function createLanes<Item>({perEndpoint, total}: LanesOptions) {
	const lanes = new Map<string, Lane<Item>>();
	/** Lanes with something due and room of their own, in the order of their turns. */
	const ready = new Set<Lane<Item>>();
	const mostUnproven = Math.max(1, Math.ceil(total * unprovenShare));
	/** Claimed ahead, and not to begin. */
	let returned: Item[] = [];
	let recalls = 0;
	let inFlight = 0;
	let unproven = 0;
	/** Claimed ahead, or granted to be. */
	let ahead = 0;

	const held = ({begun, granted}: Lane<Item>) => begun.length + granted;
	const room = (lane: Lane<Item>) => (lane.failing ? 1 : perEndpoint) - held(lane);
	/** Only a place is missing. */
	const waits = (lane: Lane<Item>) => room(lane) > 0 && (lane.prompt || unproven < mostUnproven);
	/** Of few endpoints each may have more in memory: then a transaction serves more of what waits. */
	const mostAhead = () => Math.max(perEndpoint, Math.min(aheadTimes * perEndpoint, Math.floor(total / lanes.size)));
	const roomAhead = (lane: Lane<Item>) => (lane.prompt ? Math.max(0, mostAhead() - lane.ahead.length) : 0);

	function laneOf(endpointId: string): Lane<Item> {
		const known = lanes.get(endpointId);
		if (known) {
			return known;
		}
		const fresh = {due: null, woken: false, failing: false, prompt: false, usedAt: Number.POSITIVE_INFINITY};
		const lane = {endpointId, begun: [], granted: 0, ahead: [], wentBack: false, ...fresh};
		lanes.set(endpointId, lane);
		return lane;
	}

	/** Changes what a lane holds, or whether it is prompt, and keeps the sums right. */
	function change(lane: Lane<Item>, apply: () => void): void {
		inFlight -= held(lane);
		unproven -= lane.prompt ? 0 : held(lane);
		apply();
		inFlight += held(lane);
		unproven += lane.prompt ? 0 : held(lane);
	}

	/** What waits in memory goes back to the store. */
	function giveBack(lane: Lane<Item>, now: number): void {
		if (lane.ahead.length > 0) {
			ahead -= lane.ahead.length;
			returned = returned.concat(lane.ahead);
			lane.ahead = [];
			lane.wentBack = true;
			wake(lane, now, now);
		}
	}

	/** The first that wait begin. */
	function next(lane: Lane<Item>, most: number, monotonic: number): Item[] {
		const items = lane.ahead.splice(0, Math.max(0, Math.min(most, room(lane), total - inFlight)));
		ahead -= items.length;
		change(lane, () => lane.begun.push(...items.map(() => monotonic)));
		return items;
	}

	function enlist(lane: Lane<Item>, now: number): void {
		if (lane.due !== null && lane.due <= now && (room(lane) > 0 || roomAhead(lane) > 0)) {
			ready.add(lane);
		} else {
			ready.delete(lane);
		}
	}

	function wake(lane: Lane<Item>, at: number, now: number): void {
		lane.due = lane.due === null ? at : Math.min(lane.due, at);
		lane.woken = true;
		enlist(lane, now);
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
				enlist(lane, now);
				if (lane.due === null && held(lane) === 0 && monotonic - lane.usedAt > rememberedMs) {
					lanes.delete(lane.endpointId);
				}
			}
		},

		/** What may be claimed now; its places count as held until `claimed`. */
		grants(): Grant<Item>[] {
			const grants: Grant<Item>[] = [];
			// Where some wait for a place, nobody keeps one by claiming ever more behind it.
			const mayKeep = total - inFlight >= [...ready].filter(waits).length;
			for (const lane of [...ready]) {
				const left = total - inFlight;
				// Where room is scarce a turn is one place, so that the others have theirs.
				const turn = Math.min(room(lane), left, Math.max(1, Math.floor(left / ready.size)));
				const places = Math.max(0, lane.prompt ? turn : Math.min(turn, mostUnproven - unproven));
				// What waits needs an attempt before it, in whose place it begins.
				const hasPlace = places > 0 || (mayKeep && held(lane) > 0);
				const more = hasPlace ? Math.min(roomAhead(lane), total - ahead) : 0;
				if (places + more > 0) {
					ready.delete(lane);
					lane.woken = false;
					lane.wentBack = false;
					ahead += more;
					change(lane, () => {
						lane.granted += places;
					});
					grants.push({lane, places, limit: places + more, recalls});
				}
			}
			return grants;
		},

		/**
		 * The store gave these for a grant; `nextDue` (wall clock) is that of the first that was not given, null: none.
		 * Answers those that begin now.
		 */
		claimed(grant: Grant<Item>, items: readonly Item[], nextDue: number | null, at: Moment): Item[] {
			const {lane, places, limit} = grant;
			const isRecalled = grant.recalls !== recalls;
			lane.usedAt = at.monotonic;
			ahead += items.length - limit + places;
			change(lane, () => {
				lane.granted -= places;
			});
			lane.ahead.push(...items);
			const most = lane.prompt && !isRecalled ? perEndpoint : places;
			// What went back is due before these.
			const begin = lane.wentBack ? [] : next(lane, most, at.monotonic);
			lane.due = lane.woken ? Math.min(lane.due ?? at.now, nextDue ?? at.now) : nextDue;
			if (isRecalled || lane.wentBack || held(lane) === 0) {
				giveBack(lane, at.now);
			}
			enlist(lane, at.now);
			return begin;
		},

		/** Whether its last attempt failed, as far as is known. */
		isFailing: (endpointId: string): boolean => lanes.get(endpointId)?.failing === true,

		/** An attempt that began then has ended. Answers those that begin in its place. */
		ended(endpointId: string, begun: number, acknowledged: boolean, ms: number, {now, monotonic}: Moment): Item[] {
			const lane = laneOf(endpointId);
			change(lane, () => {
				const index = lane.begun.indexOf(begun);
				lane.begun.splice(index, index === -1 ? 0 : 1);
				lane.prompt = acknowledged && ms <= promptMs;
			});
			lane.failing = !acknowledged;
			const begin = next(lane, lane.prompt ? perEndpoint : mostUnproven - unproven, monotonic);
			if (held(lane) === 0) {
				giveBack(lane, now);
			}
			enlist(lane, now);
			return begin;
		},

		/** What waits in memory is given back, of all, and what is being claimed to wait there. */
		recall({now}: Moment): void {
			recalls++;
			for (const lane of lanes.values()) {
				giveBack(lane, now);
			}
		},

		/** What was claimed, and is not to begin: to be given back to the store. */
		takeReturned(): Item[] {
			const items = returned;
			returned = [];
			return items;
		},

		/** Attempts granted or under way. */
		get inFlight(): number {
			return inFlight;
		},
	};
}
