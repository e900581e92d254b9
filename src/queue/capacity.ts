import type {Moment} from '../pace/saved.ts';
import {isBackingOff, isShort, opensAt} from '../pace/site.ts';
import {createAgenda} from './agenda.ts';
import type {DestinationQueue} from './destination-queue.ts';
import {addTurn, endTurn, type FairRing, firstTurn, hasTurn, removeTurn, type Turn} from './fair-ring.ts';
import {
	inFlightOf,
	isProven,
	ownCapacity,
	type Rank,
	rankAt,
	ranks,
	readyWorkspaces,
	type Site,
	windowOf,
} from './site.ts';

export type CapacityOptions = {
	/** Copies claimed and not yet done, in all. */
	readonly maxInFlight: number;
	/** Those of them for sites of which it is not known that they answer; at most half of these for what was tried before. */
	readonly maxUnproven: number;
	/** The site has work, and could have more connections if other nodes had fewer. */
	readonly onShort?: (site: Site) => void;
};

/** Fresh mail takes no more than this while a backlog waits, which never takes more than that: mail may come at any time. */
const freshShare = 0.75;
const backlogShare = 0.5;
/** Of what is for sites that are not proven each rank leaves something to those before it. */
const unprovenShare = {fresh: 1, mixed: 0.75, backlog: 0.5};
/** Where sites answer, a turn is the site's, whatever its workspaces. */
const noGroups = [null] as const;

/**
 * The room that all sites share, and the rows in which they wait for it. Ready lanes wait at their site, the site waits in
 * a row while it may start something. Where nobody may answer every try waits for a time-out: such sites get a part of the
 * room only, or a few dozen of them would stop all mail, and workspaces take turns for it.
 */
export function createCapacity({maxInFlight, maxUnproven, onShort}: CapacityOptions) {
	const row = () => ({proven: createRow(), unproven: createRow()});
	const rows = {fresh: row(), mixed: row(), backlog: row()};
	const none = {fresh: 0, mixed: 0, backlog: 0};
	const inFlight = {proven: {...none}, unproven: {...none}};
	const mostFresh = Math.ceil(maxInFlight * freshShare);
	const mostBacklog = Math.ceil(maxInFlight * backlogShare);
	/** Sites that may not start anything now. */
	const openLater = createAgenda<Site>();

	const classOf = (proven: boolean): 'proven' | 'unproven' => (proven ? 'proven' : 'unproven');
	const ofRank = (rank: Rank): number => inFlight.proven[rank] + inFlight.unproven[rank];
	const inAll = (): number => ofRank('fresh') + ofRank('mixed') + ofRank('backlog');

	/** What may be claimed now for all sites of this kind together. */
	function left(rank: Rank, proven: boolean): number {
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
	}

	function delist(site: Site): void {
		for (const rank of ranks) {
			rows[rank].proven.set(site, []);
			rows[rank].unproven.set(site, []);
		}
	}

	/** The site takes its turns while it has work and may start some; it keeps its place in the row. */
	function enlist(site: Site, {monotonic}: Moment): void {
		const {ready, state} = site;
		openLater.remove(site);
		const wants = new Set(ranks.filter(rank => ready[rank].size > 0).map(rank => rankAt(site, rank)));
		if (wants.size === 0) {
			delist(site);
			return;
		}
		const opens = opensAt(state, monotonic);
		if (opens > monotonic) {
			delist(site);
			openLater.set(site, opens);
			if (state.bucket?.perMinute === 0 && !isBackingOff(state, monotonic)) {
				onShort?.(site);
			}
		} else if (ownCapacity(site, maxInFlight, monotonic) <= 0) {
			delist(site); // Until one of its copies is done.
			if (isShort(state, monotonic)) {
				onShort?.(site);
			}
		} else {
			const proven = isProven(site);
			for (const rank of ranks) {
				const groups = proven ? noGroups : readyWorkspaces(site, rank);
				rows[rank][classOf(proven)].set(site, wants.has(rank) ? groups : []);
			}
		}
	}

	function unqueue(queue: DestinationQueue, {ready}: Site): void {
		for (const rank of ranks) {
			removeTurn(ready[rank], queue.workspaceId, queue);
		}
	}

	return {
		left,
		enlist,
		unqueue,

		/** The lane waits for its turn at the site. */
		queue(queue: DestinationQueue, site: Site, now: Moment): void {
			const rank = queue.fresh ? (queue.asksNext ? 'mixed' : 'fresh') : 'backlog';
			if (!hasTurn(site.ready[rank], queue.workspaceId, queue)) {
				unqueue(queue, site);
				addTurn(site.ready[rank], queue.workspaceId, queue);
			}
			enlist(site, now);
		},

		/** Sites that may start something by now take their turns. */
		advance(now: Moment): void {
			for (let site = openLater.next(now.monotonic); site; site = openLater.next(now.monotonic)) {
				enlist(site, now);
			}
		},

		/** Not worth a claim: less than a quarter of the site's window, or of what it could ever get. */
		smallestClaim(site: Site, rank: Rank, proven: boolean, monotonic: number): number {
			const most = proven ? maxInFlight : Math.ceil(maxUnproven * unprovenShare[rank]);
			return Math.max(1, Math.floor(Math.min(windowOf(site, monotonic), most) / 4));
		},

		/** So many copies more, or less, are claimed for the site. */
		take(site: Site, rank: Rank, recipients: number): void {
			site.inFlight[rank] += recipients;
			site.peak = Math.max(site.peak, inFlightOf(site));
			inFlight[classOf(isProven(site))][rank] += recipients;
		},

		/** The site became proven, or no longer is (`before`). */
		moved(site: Site, before: boolean): void {
			for (const rank of ranks) {
				inFlight[classOf(before)][rank] -= site.inFlight[rank];
				inFlight[classOf(!before)][rank] += site.inFlight[rank];
			}
			delist(site);
		},

		/** Whose turn it is, until no room is left or as many as there were sites had theirs. Each is to be `served`. */
		*turns(rank: Rank, proven: boolean): Generator<Turn<Site>> {
			const row = rows[rank][classOf(proven)];
			for (let turns = row.size; turns > 0 && left(rank, proven) > 0; turns--) {
				const turn = row.first();
				if (!turn) {
					return;
				}
				yield turn;
			}
		},

		/** It had its turn of this rank. */
		served(turn: Turn<Site>, rank: Rank): void {
			rows[rank][classOf(turn.group === null)].served(turn);
		},

		get inFlight(): number {
			return inAll();
		},
	};
}

export type Capacity = ReturnType<typeof createCapacity>;

/** Sites that wait for their turn, each in the groups whose turn may bring it. */
function createRow() {
	const groupsOf = new Map<Site, readonly (string | null)[]>();
	const ring: FairRing<Site> = new Map();

	/** The site waits for these groups' turns; where it waits already it keeps its place. None: it waits no more. */
	function set(site: Site, groups: readonly (string | null)[]): void {
		const before = groupsOf.get(site);
		for (const group of before ?? []) {
			if (!groups.includes(group)) {
				removeTurn(ring, group, site);
			}
		}
		for (const group of groups) {
			addTurn(ring, group, site);
		}
		if (groups.length > 0) {
			groupsOf.set(site, groups);
		} else {
			groupsOf.delete(site);
		}
	}

	return {
		set,
		first: () => firstTurn(ring),

		/** It had its turn: the group goes to the end, the site leaves it. */
		served(turn: Turn<Site>): void {
			endTurn(ring, turn);
			set(
				turn.item,
				(groupsOf.get(turn.item) ?? []).filter(one => one !== turn.group),
			);
		},

		get size(): number {
			return groupsOf.size;
		},
	};
}
