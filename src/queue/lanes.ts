/** How much one site may have going on: connections held, copies claimed and not yet settled. */
export type SiteLimits = {readonly connections: number; readonly window: number};

export type Site = {
	readonly name: string;
	readonly limits: SiteLimits;
	/** Copies claimed, or being claimed, and not yet settled. */
	inFlight: number;
	/** Lanes with work due now, the longest waiting first. */
	readonly ready: Set<Lane>;
};

/** One destination with work. Several share a site where one smarthost takes them all. */
export type Lane = {
	readonly destination: string;
	readonly site: Site;
	/** Wall-clock milliseconds of the next copy known to be due; null: none known. */
	dueAt: number | null;
	claiming: boolean;
	/** Work arrived while a claim was under way: look once more after it. */
	again: boolean;
};

/** A claim to be made now: at most `limit` copies of this lane. */
export type Grant = {readonly lane: Lane; readonly limit: number};

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
				site = {name, limits, inFlight: 0, ready: new Set()};
				sites.set(name, site);
			}
			lane = {destination, site, dueAt: null, claiming: false, again: false};
			lanes.set(destination, lane);
		}
		return lane;
	}

	function makeReady(lane: Lane): void {
		lane.dueAt = null;
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
		if (lane.dueAt !== null || lane.claiming || lane.site.ready.has(lane)) {
			return;
		}
		lanes.delete(lane.destination);
		if (lane.site.inFlight === 0 && lane.site.ready.size === 0) {
			sites.delete(lane.site.name);
		}
	}

	return {
		/** Something of this destination is due at `at` (wall-clock milliseconds). */
		due(destination: string, at: number, now: number): void {
			const lane = laneOf(destination);
			if (at <= now) {
				makeReady(lane);
			} else {
				lane.dueAt = Math.min(lane.dueAt ?? at, at);
			}
		},

		/** Moves the lanes whose time has come to the ready ones. */
		advance(now: number): void {
			for (const lane of lanes.values()) {
				if (lane.dueAt !== null && lane.dueAt <= now) {
					makeReady(lane);
				}
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
				lane.claiming = true;
				site.inFlight += limit;
				inFlight += limit;
				granted.push({lane, limit});
			}
			return granted;
		},

		/** A claim brought `count` copies. A full one means that more may be due. */
		claimed({lane, limit}: Grant, count: number): void {
			lane.claiming = false;
			lane.site.inFlight -= limit - count;
			inFlight -= limit - count;
			if (count === limit || lane.again) {
				lane.again = false;
				makeReady(lane);
			} else if (count === 0) {
				forgetIfIdle(lane);
			}
		},

		/** A claimed copy of this lane is settled. */
		settled(lane: Lane): void {
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
