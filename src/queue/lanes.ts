/** How much one site may have going on: connections held, copies claimed and not yet settled. */
export type SiteLimits = {readonly connections: number; readonly window: number};

export type Site = {
	readonly name: string;
	readonly limits: SiteLimits;
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
};

const largestClaim = 100;

/**
 * Who may claim next: sites take turns, and within a site its destinations do, so that a backlog of one never stands
 * before another. Knows nothing of the store: the scheduler tells it what is due and what was settled.
 */
export function createLanes({siteOf, maxInFlight}: LanesOptions) {
	const lanes = new Map<string, Lane>();
	const sites = new Map<string, Site>();
	// Sites that have ready lanes, the longest waiting first.
	const turns = new Set<Site>();
	let inFlight = 0;

	function laneOf(destination: string): Lane {
		let lane = lanes.get(destination);
		if (!lane) {
			const {name, limits} = siteOf(destination);
			let site = sites.get(name);
			if (!site) {
				site = {name, limits, inFlight: 0, ready: new Set(), lanes: 0};
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
		turns.add(lane.site);
	}

	/** Few large claims cost less than many small ones: a site waits until a quarter of its window is free. */
	function roomOf(site: Site): number {
		const room = Math.min(site.limits.window - site.inFlight, maxInFlight - inFlight, largestClaim);
		return room >= Math.min(site.limits.window, maxInFlight) / 4 ? room : 0;
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
			const lane = laneOf(destination);
			if (at <= now) {
				makeReady(lane);
			} else {
				waitUntil(lane, at);
			}
		},

		/** Of those in the store the first copy of this destination is due at `at`, others may follow. */
		found(destination: string, at: number, now: number): void {
			const lane = laneOf(destination);
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
		grants(): Grant[] {
			const granted: Grant[] = [];
			for (const site of [...turns]) {
				const limit = roomOf(site);
				const [lane] = site.ready;
				if (limit <= 0 || !lane) {
					continue;
				}
				site.ready.delete(lane);
				turns.delete(site);
				if (site.ready.size > 0) {
					turns.add(site);
				}
				granted.push({lane, limit, asksNext: lane.asksNext});
				lane.asksNext = false;
				lane.claiming = true;
				lane.inFlight += limit;
				site.inFlight += limit;
				inFlight += limit;
			}
			return granted;
		},

		/** A full claim means that more may be due. */
		claimed({lane, limit, asksNext}: Grant, {count, nextDue}: Brought): void {
			const free = limit - count;
			lane.claiming = false;
			lane.inFlight -= free;
			lane.site.inFlight -= free;
			inFlight -= free;
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

		/** A claimed copy of this lane is settled. */
		settled(lane: Lane): void {
			lane.inFlight--;
			lane.site.inFlight--;
			inFlight--;
			forgetIfIdle(lane);
		},

		get inFlight(): number {
			return inFlight;
		},
	};
}

export type Lanes = ReturnType<typeof createLanes>;
