import type {Moment} from '../kit/clock.ts';
import {isBackingOff, isShort, opensAt} from '../pace/site-state.ts';
import {
	type DestinationQueue,
	inFlightOf,
	isProven,
	noneOf,
	ownCapacity,
	type Rank,
	rankAt,
	rankOf,
	ranks,
	readyWorkspaces,
	type Shares,
	type Site,
	windowOf,
} from './site.ts';
import {Agenda, addTurn, endTurn, type FairRing, firstTurn, hasTurn, removeTurn, type Turn} from './waiting-order.ts';

export type CapacityOptions = {
	/** Recipients claimed and not yet done, in all. */
	readonly maxInFlight: number;
	/** Those of them at sites not known to reply. */
	readonly maxUnproven: number;
	readonly shares: Shares;
};

/** Caps new mail while a backlog waits, and the backlog always: mail may arrive at any time. */
const freshShare = 0.75;
const backlogShare = 0.5;
/** Of the capacity for unproven sites each rank leaves a part to the ranks before it. */
const unprovenShare = {high: 1, fresh: 1, mixed: 0.75, backlog: 0.5, low: 0.5};
/** At a proven site a turn is the site's, not a workspace's. */
const noGroups = [null] as const;

const row = () => ({proven: new Row(), unproven: new Row()});
const classOf = (proven: boolean): 'proven' | 'unproven' => (proven ? 'proven' : 'unproven');

/**
 * The capacity that all sites share, and the rows in which they wait for it. A ready queue waits at its site, the site waits
 * in a row while it may start something. At an unproven site every try may wait for a timeout: such sites get only a part
 * of the capacity, or a few dozen of them would stop all mail, and workspaces take turns for it.
 */
export class Capacity {
	readonly #maxInFlight: number;
	readonly #maxUnproven: number;
	readonly #shares: Shares;
	readonly #rows = {high: row(), fresh: row(), mixed: row(), backlog: row(), low: row()};
	readonly #inFlight = {proven: noneOf(), unproven: noneOf()};
	/** Sites that may not start anything now. */
	readonly #openLater = new Agenda<Site>();

	constructor({maxInFlight, maxUnproven, shares}: CapacityOptions) {
		this.#maxInFlight = maxInFlight;
		this.#maxUnproven = maxUnproven;
		this.#shares = shares;
	}

	get inFlight(): number {
		return this.#ofRank('high') + this.#ofRank('fresh') + this.#ofRank('mixed') + this.#late;
	}

	/** Of the ranks that have a part alone. */
	get #late(): number {
		return this.#ofRank('backlog') + this.#ofRank('low');
	}

	#ofRank(rank: Rank): number {
		return this.#inFlight.proven[rank] + this.#inFlight.unproven[rank];
	}

	/** What may be claimed now for all sites of this kind together. */
	left(rank: Rank, proven: boolean): number {
		const {backlog, low} = this.#rows;
		let left = this.#maxInFlight - this.inFlight;
		if (rank === 'backlog' || rank === 'low') {
			left = Math.min(left, Math.ceil(this.#maxInFlight * backlogShare) - this.#late);
		} else if (
			rank !== 'high' &&
			backlog.proven.size + backlog.unproven.size + low.proven.size + low.unproven.size > 0
		) {
			const mostFresh = Math.ceil(this.#maxInFlight * freshShare);
			left = Math.min(left, mostFresh - this.#ofRank('fresh') - this.#ofRank('mixed'));
		}
		if (!proven) {
			let taken = 0;
			for (const one of ranks.toReversed()) {
				taken += this.#inFlight.unproven[one];
				if (ranks.indexOf(one) <= ranks.indexOf(rank)) {
					left = Math.min(left, Math.ceil(this.#maxUnproven * unprovenShare[one]) - taken);
				}
			}
		}
		return left;
	}

	/** Lets the site take its turns while it has work and may start some; it keeps its place in the row. */
	enlist(site: Site, {monotonic}: Moment): void {
		const {ready, state} = site;
		this.#openLater.remove(site);
		const wants = new Set(ranks.filter(rank => ready[rank].size > 0).map(rank => rankAt(site, rank)));
		if (wants.size === 0) {
			this.#delist(site);
			return;
		}
		const opens = opensAt(state, monotonic);
		if (opens > monotonic) {
			this.#delist(site);
			this.#openLater.set(site, opens);
			if (state.bucket?.perMinute === 0 && !isBackingOff(state, monotonic)) {
				this.#shares.short(site);
			}
			return;
		}
		const proven = isProven(site);
		for (const rank of wants) {
			if (ownCapacity(site, rank, this.#maxInFlight, monotonic) <= 0) {
				wants.delete(rank); // Until one of its recipients is done.
			}
		}
		for (const rank of ranks) {
			const groups = wants.has(rank) ? (proven ? noGroups : readyWorkspaces(site, rank)) : [];
			this.#rows[rank][classOf(proven)].set(site, groups);
		}
		if (wants.size === 0 && isShort(state, monotonic)) {
			this.#shares.short(site);
		}
	}

	#delist(site: Site): void {
		for (const rank of ranks) {
			this.#rows[rank].proven.set(site, []);
			this.#rows[rank].unproven.set(site, []);
		}
	}

	/** The queue waits for its turn at the site. */
	queue(queue: DestinationQueue, site: Site, now: Moment): void {
		const rank = rankOf(queue);
		if (!hasTurn(site.ready[rank], queue.workspaceId, queue)) {
			this.unqueue(queue, site);
			addTurn(site.ready[rank], queue.workspaceId, queue);
		}
		this.enlist(site, now);
	}

	unqueue(queue: DestinationQueue, {ready}: Site): void {
		for (const rank of ranks) {
			removeTurn(ready[rank], queue.workspaceId, queue);
		}
	}

	/** Lets sites that may start something by now take their turns. */
	advance(now: Moment): void {
		for (let site = this.#openLater.next(now.monotonic); site; site = this.#openLater.next(now.monotonic)) {
			this.enlist(site, now);
		}
	}

	/** The smallest worthwhile claim: a quarter of the site's window, or of the most it could ever get. High mail never waits for that. */
	smallestClaim(site: Site, rank: Rank, proven: boolean, monotonic: number): number {
		if (rank === 'high') {
			return 1;
		}
		const most = proven ? this.#maxInFlight : Math.ceil(this.#maxUnproven * unprovenShare[rank]);
		return Math.max(1, Math.floor(Math.min(windowOf(site, monotonic), most) / 4));
	}

	/** Takes capacity for recipients claimed for the site; a negative number gives it back. */
	take(site: Site, rank: Rank, recipients: number): void {
		site.inFlight[rank] += recipients;
		site.peak = Math.max(site.peak, inFlightOf(site));
		this.#inFlight[classOf(isProven(site))][rank] += recipients;
	}

	/** The site became proven, or no longer is (`before`). */
	moved(site: Site, before: boolean): void {
		for (const rank of ranks) {
			this.#inFlight[classOf(before)][rank] -= site.inFlight[rank];
			this.#inFlight[classOf(!before)][rank] += site.inFlight[rank];
		}
		this.#delist(site);
	}

	/** Sites in the order of their turns, until no capacity is left or each had one turn. Each is to be `served`. */
	*turns(rank: Rank, proven: boolean): Generator<Turn<Site>> {
		const row = this.#rows[rank][classOf(proven)];
		for (let turns = row.size; turns > 0 && this.left(rank, proven) > 0; turns--) {
			const turn = row.first();
			if (!turn) {
				return;
			}
			yield turn;
		}
	}

	/** Ends the site's turn of this rank. */
	served(turn: Turn<Site>, rank: Rank): void {
		this.#rows[rank][classOf(turn.group === null)].served(turn);
	}
}

/** Sites that wait for a turn, each in the groups that may serve it. */
class Row {
	readonly #groupsOf = new Map<Site, readonly (string | null)[]>();
	readonly #ring: FairRing<Site> = new Map();

	get size(): number {
		return this.#groupsOf.size;
	}

	/** The site waits for these groups' turns, and keeps its place where it waits already. No groups: it leaves the row. */
	set(site: Site, groups: readonly (string | null)[]): void {
		const before = this.#groupsOf.get(site);
		for (const group of before ?? []) {
			if (!groups.includes(group)) {
				removeTurn(this.#ring, group, site);
			}
		}
		for (const group of groups) {
			addTurn(this.#ring, group, site);
		}
		if (groups.length > 0) {
			this.#groupsOf.set(site, groups);
		} else {
			this.#groupsOf.delete(site);
		}
	}

	first(): Turn<Site> | undefined {
		return firstTurn(this.#ring);
	}

	/** Ends the turn: the group goes to the end, the site leaves it. */
	served(turn: Turn<Site>): void {
		endTurn(this.#ring, turn);
		const groups = this.#groupsOf.get(turn.item) ?? [];
		this.set(
			turn.item,
			groups.filter(one => one !== turn.group),
		);
	}
}
