import {isProven, type Rank, type Site, windowOf} from './site.ts';

export type RoomOptions = {readonly maxInFlight: number; readonly maxUnproven: number};

/** Neither what is fresh nor the backlog takes more than this while the other waits. */
const share = 0.75;

const ranks = ['fresh', 'backlog'] as const;

/**
 * The room that all sites share, and the rows in which they wait for it. Where nobody may answer every try waits for a
 * time-out: such sites get a part of the room only, or a few dozen of them would stop all mail.
 */
export function createRoom({maxInFlight, maxUnproven}: RoomOptions) {
	const rows: Record<Rank, {readonly proven: Set<Site>; readonly unproven: Set<Site>}> = {
		fresh: {proven: new Set(), unproven: new Set()},
		backlog: {proven: new Set(), unproven: new Set()},
	};
	const inFlight = {proven: {fresh: 0, backlog: 0}, unproven: {fresh: 0, backlog: 0}};
	const most = Math.ceil(maxInFlight * share);

	const classOf = (proven: boolean): 'proven' | 'unproven' => (proven ? 'proven' : 'unproven');
	const ofRank = (rank: Rank): number => inFlight.proven[rank] + inFlight.unproven[rank];
	const inAll = (): number => ofRank('fresh') + ofRank('backlog');

	return {
		/** What may be claimed now for all sites of this kind together. */
		left(rank: Rank, proven: boolean): number {
			const other = rows[rank === 'fresh' ? 'backlog' : 'fresh'];
			let left = maxInFlight - inAll();
			// Fresh mail may come at any time; the backlog leaves room for it even while there is none.
			if (rank === 'backlog' || other.proven.size + other.unproven.size > 0) {
				left = Math.min(left, most - ofRank(rank));
			}
			if (!proven) {
				left = Math.min(left, maxUnproven - inFlight.unproven.fresh - inFlight.unproven.backlog);
				if (rank === 'backlog') {
					left = Math.min(left, Math.ceil(maxUnproven / 2) - inFlight.unproven.backlog);
				}
			}
			return left;
		},

		/** Not worth a claim: less than a quarter of the site's window. */
		smallestClaim: (site: Site, monotonic: number): number =>
			Math.max(1, Math.floor(Math.min(windowOf(site, monotonic), maxInFlight) / 4)),

		/** So many copies more, or less, are claimed for the site. */
		take(site: Site, rank: Rank, copies: number): void {
			site.inFlight[rank] += copies;
			inFlight[classOf(isProven(site))][rank] += copies;
		},

		/** The site became proven, or no longer is (`before`). */
		moved(site: Site, before: boolean): void {
			for (const rank of ranks) {
				inFlight[classOf(before)][rank] -= site.inFlight[rank];
				inFlight[classOf(!before)][rank] += site.inFlight[rank];
			}
			this.delist(site);
		},

		/** The sites whose turn it is, each once, until no room is left. */
		*turns(rank: Rank, proven: boolean): Generator<Site> {
			const row = rows[rank][classOf(proven)];
			let left = row.size;
			for (const site of row) {
				if (left === 0 || this.left(rank, proven) <= 0) {
					return;
				}
				left--;
				yield site;
			}
		},

		/** The site wants turns of these ranks; where it waits already it keeps its place. */
		enlist(site: Site, wants: Record<Rank, boolean>): void {
			for (const rank of ranks) {
				const row = rows[rank][classOf(isProven(site))];
				if (wants[rank]) {
					row.add(site);
				} else {
					row.delete(site);
				}
			}
		},

		delist(site: Site): void {
			for (const rank of ranks) {
				rows[rank].proven.delete(site);
				rows[rank].unproven.delete(site);
			}
		},

		get inFlight(): number {
			return inAll();
		},
	};
}

export type Room = ReturnType<typeof createRoom>;
