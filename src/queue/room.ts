import {isProven, type Rank, ranks, readyWorkspaces, type Site, windowOf} from './site.ts';
import {createWorkspaceRow} from './workspace-row.ts';

/** `workspaceId`: whose turn it is there; null: its next lane's. */
export type Turn = {readonly site: Site; readonly workspaceId: string | null};

export type RoomOptions = {readonly maxInFlight: number; readonly maxUnproven: number};

/** Fresh mail takes no more than this while a backlog waits, which never takes more than that: mail may come at any time. */
const freshShare = 0.75;
const backlogShare = 0.5;
/** Of what is for sites that are not proven each rank leaves something to those before it. */
const unprovenShare = {fresh: 1, mixed: 0.75, backlog: 0.5};

/**
 * The room that all sites share, and the rows in which they wait for it. Where nobody may answer every try waits for a
 * time-out: such sites get a part of the room only, or a few dozen of them would stop all mail, and
 * workspaces take turns for it.
 */
export function createRoom({maxInFlight, maxUnproven}: RoomOptions) {
	const row = () => ({proven: new Set<Site>(), unproven: createWorkspaceRow()});
	const rows = {fresh: row(), mixed: row(), backlog: row()};
	const none = {fresh: 0, mixed: 0, backlog: 0};
	const inFlight = {proven: {...none}, unproven: {...none}};
	const mostFresh = Math.ceil(maxInFlight * freshShare);
	const mostBacklog = Math.ceil(maxInFlight * backlogShare);

	const classOf = (proven: boolean): 'proven' | 'unproven' => (proven ? 'proven' : 'unproven');
	const ofRank = (rank: Rank): number => inFlight.proven[rank] + inFlight.unproven[rank];
	const inAll = (): number => ofRank('fresh') + ofRank('mixed') + ofRank('backlog');

	return {
		/** What may be claimed now for all sites of this kind together. */
		left(rank: Rank, proven: boolean): number {
			const {backlog} = rows;
			let left = maxInFlight - inAll();
			if (rank === 'backlog') {
				left = Math.min(left, mostBacklog - ofRank('backlog'));
			} else if (backlog.proven.size + backlog.unproven.size > 0) {
				left = Math.min(left, mostFresh - ofRank('fresh') - ofRank('mixed'));
			}
			if (!proven) {
				let taken = 0;
				for (const one of ranks.toReversed()) {
					taken += inFlight.unproven[one];
					if (ranks.indexOf(one) <= ranks.indexOf(rank)) {
						left = Math.min(left, Math.ceil(maxUnproven * unprovenShare[one]) - taken);
					}
				}
			}
			return left;
		},

		/** Not worth a claim: less than a quarter of the site's window, or of what it could ever get. */
		smallestClaim(site: Site, rank: Rank, proven: boolean, monotonic: number): number {
			const most = proven ? maxInFlight : Math.ceil(maxUnproven * unprovenShare[rank]);
			return Math.max(1, Math.floor(Math.min(windowOf(site, monotonic), most) / 4));
		},

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

		/** Whose turn it is, until no room is left or as many as there were sites had theirs. Each is to be `served`. */
		*turns(rank: Rank, proven: boolean): Generator<Turn> {
			const row = rows[rank];
			for (let turns = row[classOf(proven)].size; turns > 0 && this.left(rank, proven) > 0; turns--) {
				const [site] = row.proven;
				const turn = proven ? site && {site, workspaceId: null} : row.unproven.first();
				if (!turn) {
					return;
				}
				yield turn;
			}
		},

		/** The site wants turns of these ranks; where it waits already it keeps its place. */
		enlist(site: Site, wants: ReadonlySet<Rank>): void {
			for (const rank of ranks) {
				const {proven, unproven} = rows[rank];
				if (!isProven(site)) {
					unproven.set(site, wants.has(rank) ? readyWorkspaces(site, rank) : []);
				} else if (wants.has(rank)) {
					proven.add(site);
				} else {
					proven.delete(site);
				}
			}
		},

		/** It had its turn of this rank. */
		served({site, workspaceId}: Turn, rank: Rank): void {
			if (workspaceId === null) {
				rows[rank].proven.delete(site);
			} else {
				rows[rank].unproven.served({site, workspaceId});
			}
		},

		delist(site: Site): void {
			for (const rank of ranks) {
				rows[rank].proven.delete(site);
				rows[rank].unproven.set(site, []);
			}
		},

		get inFlight(): number {
			return inAll();
		},
	};
}

export type Room = ReturnType<typeof createRoom>;
