/** How much one site may have going on: connections held, copies claimed and not yet settled. */
export type SiteLimits = {readonly connections: number; readonly window: number};

/**
 * `proven`: a host answered at the last try. `new`: mail was just accepted for it and nothing is known. `doubtful`: nobody
 * answered at the last try, or it was found waiting in the store.
 */
type Trust = 'proven' | 'new' | 'doubtful';

export type Site = {
	readonly name: string;
	readonly limits: SiteLimits;
	trust: Trust;
	/** Copies claimed, or being claimed, and not yet settled. */
	inFlight: number;
	/** Lanes with work due now, the longest waiting first. */
	readonly ready: Set<Lane>;
	/** Lanes that there are, ready or not. */
	lanes: number;
};

/** One destination with work. Several share a site where one smarthost takes them all. */
export type Lane = {
	readonly destination: string;
	readonly site: Site;
	/** Copies claimed and not yet settled. */
	inFlight: number;
	/** Wall-clock milliseconds of the next copy known to be due later; null: none known. */
	dueAt: number | null;
	/** Whether others may be due after the one that was known: the next claim asks the store. */
	asksNext: boolean;
	claiming: boolean;
	/** Work arrived while a claim was under way: look once more after it. */
	again: boolean;
};

/** A claim to be made now: at most `limit` copies of this lane, and where it `asksNext`, when the next one is due. */
export type Grant = {readonly lane: Lane; readonly limit: number; readonly asksNext: boolean};

/** What a claim brought: how many copies, and when the next one of the lane is due (null: none, or it was not asked). */
export type Brought = {readonly count: number; readonly nextDue: number | null};

export type LanesOptions = {
	readonly siteOf: (destination: string) => {readonly name: string; readonly limits: SiteLimits};
	/** Copies claimed and not yet settled, in all. */
	readonly maxInFlight: number;
	/** Those of them for sites that are not proven; at most half of these for doubtful ones. */
	readonly maxUnproven: number;
};

const largestClaim = 100;

/**
 * Who may claim next: sites take turns, and within a site its destinations do, so that a backlog of one never stands
 * before another. Where nobody may answer every try waits for a time-out: such sites get a part of the room only, or a few
 * dozen of them would stop all mail. Knows nothing of the store: the scheduler tells it what is due and what was settled.
 */
export function createLanes({siteOf, maxInFlight, maxUnproven}: LanesOptions) {
	const lanes = new Map<string, Lane>();
	const sites = new Map<string, Site>();
	// Sites that have ready lanes, the longest waiting first. What is new goes first: its part is small, it cannot block.
	const turns: Record<Trust, Set<Site>> = {new: new Set(), doubtful: new Set(), proven: new Set()};
	const inFlight: Record<Trust, number> = {new: 0, doubtful: 0, proven: 0};

	function laneOf(destination: string, trust: Trust): Lane {
		let lane = lanes.get(destination);
		if (!lane) {
			const {name, limits} = siteOf(destination);
			let site = sites.get(name);
			if (!site) {
				site = {name, limits, trust, inFlight: 0, ready: new Set(), lanes: 0};
				sites.set(name, site);
			}
			site.lanes++;
			lane = {destination, site, inFlight: 0, dueAt: null, asksNext: false, claiming: false, again: false};
			lanes.set(destination, lane);
		}
		return lane;
	}

	function waitUntil(lane: Lane, at: number): void {
		lane.dueAt = Math.min(lane.dueAt ?? at, at);
	}

	// Of all that wait only the first due time is remembered, so that a claim has to find out the next one.
	function awake(lane: Lane, now: number): void {
		if (lane.dueAt !== null && lane.dueAt <= now) {
			lane.dueAt = null;
			lane.asksNext = true;
			makeReady(lane);
		}
	}

	function makeReady(lane: Lane): void {
		if (lane.claiming) {
			lane.again = true;
			return;
		}
		lane.site.ready.add(lane);
		turns[lane.site.trust].add(lane.site);
	}

	const inAll = (): number => inFlight.proven + inFlight.new + inFlight.doubtful;

	/** What may be claimed for all sites of this trust together. */
	function roomFor(trust: Trust): number {
		const room = maxInFlight - inAll();
		if (trust === 'proven') {
			return room;
		}
		const unproven = Math.min(room, maxUnproven - inFlight.new - inFlight.doubtful);
		return trust === 'new' ? unproven : Math.min(unproven, Math.ceil(maxUnproven / 2) - inFlight.doubtful);
	}

	/**
	 * Few large claims cost less than many small ones: a site waits until a quarter of its window is free. One that is not
	 * proven gets no more than it could have under way at once.
	 */
	function roomOf({trust, limits, inFlight: own}: Site): number {
		const window = trust === 'proven' ? limits.window : Math.min(limits.connections, limits.window);
		const room = Math.min(window - own, roomFor(trust), largestClaim);
		return room >= Math.max(1, Math.floor(Math.min(window, maxInFlight) / 4)) ? room : 0;
	}

	function take(lane: Lane, copies: number): void {
		lane.inFlight += copies;
		lane.site.inFlight += copies;
		inFlight[lane.site.trust] += copies;
	}

	function setTrust(site: Site, trust: Trust): void {
		if (site.trust === trust) {
			return;
		}
		inFlight[site.trust] -= site.inFlight;
		inFlight[trust] += site.inFlight;
		if (turns[site.trust].delete(site)) {
			turns[trust].add(site);
		}
		site.trust = trust;
	}

	function grantsOf(trust: Trust): Grant[] {
		const granted: Grant[] = [];
		let left = turns[trust].size;
		for (const site of turns[trust]) {
			if (left === 0 || roomFor(trust) <= 0) {
				break;
			}
			left--;
			const limit = roomOf(site);
			const [lane] = site.ready;
			if (limit <= 0 || !lane) {
				continue;
			}
			site.ready.delete(lane);
			turns[trust].delete(site);
			if (site.ready.size > 0) {
				turns[trust].add(site);
			}
			granted.push({lane, limit, asksNext: lane.asksNext});
			lane.asksNext = false;
			lane.claiming = true;
			take(lane, limit);
		}
		return granted;
	}

	function forgetIfIdle(lane: Lane): void {
		const {site} = lane;
		if (lane.inFlight > 0 || lane.dueAt !== null || lane.claiming || site.ready.has(lane)) {
			return;
		}
		lanes.delete(lane.destination);
		site.lanes--;
		if (site.lanes === 0) {
			sites.delete(site.name);
		}
	}

	return {
		/** One copy of this destination is due at `at` (wall-clock milliseconds). */
		due(destination: string, at: number, now: number): void {
			const lane = laneOf(destination, 'new');
			if (at <= now) {
				makeReady(lane);
			} else {
				waitUntil(lane, at);
			}
		},

		/** Of those in the store the first copy of this destination is due at `at`, others may follow. */
		found(destination: string, at: number, now: number): void {
			const lane = laneOf(destination, 'doubtful');
			waitUntil(lane, at);
			awake(lane, now);
		},

		/** Moves the lanes whose time has come to the ready ones. */
		advance(now: number): void {
			for (const lane of lanes.values()) {
				awake(lane, now);
			}
		},

		/** The claims to be made now; their room is taken until `claimed`. */
		grants: (): Grant[] => [...grantsOf('new'), ...grantsOf('doubtful'), ...grantsOf('proven')],

		/** A full claim means that more may be due. */
		claimed({lane, limit, asksNext}: Grant, {count, nextDue}: Brought): void {
			const free = limit - count;
			lane.claiming = false;
			take(lane, -free);
			if (free === 0) {
				lane.asksNext ||= asksNext;
			} else if (nextDue !== null) {
				waitUntil(lane, nextDue);
			}
			if (free === 0 || lane.again) {
				lane.again = false;
				makeReady(lane);
			} else {
				forgetIfIdle(lane);
			}
		},

		/** A claimed copy of this lane is settled; `answered`: whether a host spoke, left out where none was asked. */
		settled(lane: Lane, answered?: boolean): void {
			take(lane, -1);
			if (answered !== undefined) {
				setTrust(lane.site, answered ? 'proven' : 'doubtful');
			}
			forgetIfIdle(lane);
		},

		get inFlight(): number {
			return inAll();
		},
	};
}

export type Lanes = ReturnType<typeof createLanes>;
