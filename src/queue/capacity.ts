import type {Moment} from '../kit/clock.ts';
import {Agenda} from './agenda.ts';
import type {ClaimPermit} from './claim-permit.ts';
import {FairSlots} from './fair-slots.ts';
import {type Entry, forgetLane, laneAt, readyWorkspaces} from './lanes.ts';
import {opensAt} from './pace/site-state.ts';
import {type Phase, phaseOf, phases, type Rank, rankOf, ranks} from './ranks.ts';
import {type DestinationQueue, ownCapacity, type Pool, poolOf, rankAt, type Site, windowOf} from './site.ts';

export type CapacityOptions = {
	/** The maximum number of recipients that are claimed and not yet done. */
	readonly maxInFlight: number;
	/** How many of them may be at providers that are not known to respond. */
	readonly maxUnproven: number;
};

/** A workspace's turn, to be used at one of its providers. */
export type Turn = {readonly workspaceId: string; readonly site: Site};

/** The pools in which a recipient may start. */
export type StartPool = Exclude<Pool, 'waiting'>;

/**
 * The share that new mail may use while a backlog is waiting, and the share that the backlog may ever use. The backlog
 * is always capped because new mail may arrive at any time.
 */
const freshShare = 0.75;
const backlogShare = 0.5;
/**
 * The share of the slots for unproven providers that a workspace may use for mail of each rank. Late mail gets less, so
 * that slots remain for the workspace's more urgent mail.
 */
const lateShare = 1 / 3;
const slotShare: Record<Rank, number> = {
	high: 1,
	highBacklog: lateShare,
	fresh: 1,
	mixed: 0.75,
	backlog: lateShare,
	low: lateShare,
};

const newRows = () => ({new: new Row(), late: new Row()});
const zeros = () => ({new: 0, late: 0});

/**
 * The capacity that all providers share, and the rows in which they wait for it. A ready queue waits at its provider,
 * which stays in a row for as long as it can start something. Workspaces take turns in every row.
 *
 * At a provider that is not proven, every attempt may wait for a timeout. A few dozen such providers would stop all
 * mail, so together they get only part of the capacity. Each workspace gets only a share of that part, which leaves
 * room for newcomers (decision 37).
 */
export class Capacity {
	readonly #maxInFlight: number;
	readonly #maxUnproven: number;
	readonly #rows = {proven: newRows(), unproven: newRows(), silent: newRows()};
	readonly #inFlight = {proven: zeros(), unproven: zeros(), silent: zeros(), waiting: zeros()};
	readonly #slots = {unproven: new FairSlots(), silent: new FairSlots()};
	/** Providers that cannot start anything yet. */
	readonly #openLater = new Agenda<Site>();

	constructor({maxInFlight, maxUnproven}: CapacityOptions) {
		this.#maxInFlight = maxInFlight;
		this.#maxUnproven = maxUnproven;
	}

	get inFlight(): number {
		return this.#ofPhase('new') + this.#ofPhase('late');
	}

	#ofPhase(phase: Phase): number {
		const {proven, unproven, silent, waiting} = this.#inFlight;
		return proven[phase] + unproven[phase] + silent[phase] + waiting[phase];
	}

	/** How many more connections providers that are not proven may open. */
	get #freeUnproven(): number {
		const {waiting} = this.#inFlight;
		const {unproven, silent} = this.#slots;
		return this.#maxUnproven - unproven.total - silent.total - waiting.new - waiting.late;
	}

	/** Returns how many recipients may be claimed now for all providers in this pool together. */
	left(phase: Phase, pool: StartPool): number {
		let left = this.#maxInFlight - this.inFlight;
		if (phase === 'late') {
			left = Math.min(left, Math.ceil(this.#maxInFlight * backlogShare) - this.#ofPhase('late'));
		} else if (this.#isLateWaiting) {
			left = Math.min(left, Math.ceil(this.#maxInFlight * freshShare) - this.#ofPhase('new'));
		}
		if (pool !== 'proven') {
			left = Math.min(left, this.#freeUnproven);
		}
		return left;
	}

	get #isLateWaiting(): boolean {
		const {proven, unproven, silent} = this.#rows;
		return proven.late.size + unproven.late.size + silent.late.size > 0;
	}

	/** Returns how many of those this workspace may claim for mail of this rank. */
	allowance(workspaceId: string, rank: Rank, pool: StartPool): number {
		if (pool === 'proven') {
			return Number.POSITIVE_INFINITY;
		}
		const isAlone = phases.every(phase => this.#rows[pool][phase].isOnly(workspaceId));
		return this.#slots[pool].allowance(workspaceId, this.#freeUnproven, isAlone, slotShare[rank]);
	}

	/** Lets the provider take turns while it has work and can start some. It keeps its position in the rows. */
	enlist(site: Site, {monotonic}: Moment): void {
		const {lanes, state} = site;
		this.#openLater.remove(site);
		if (lanes.size === 0) {
			this.#delist(site);
			return;
		}
		const openTime = opensAt(state, monotonic);
		if (openTime > monotonic) {
			this.#delist(site);
			this.#openLater.set(site, openTime);
			return;
		}
		const row = this.#rows[poolOf(site)];
		for (const phase of phases) {
			// If there are none, the provider leaves the row until one of its recipients is done.
			row[phase].set(site, readyWorkspaces(site, phase, this.#maxInFlight, monotonic));
		}
	}

	#delist(site: Site): void {
		for (const row of Object.values(this.#rows)) {
			row.new.set(site, []);
			row.late.set(site, []);
		}
	}

	/** Makes the queue wait for its turn at the provider. */
	queue(queue: DestinationQueue, site: Site, now: Moment): void {
		const rank = rankOf(queue);
		const lane = laneAt(site, queue.workspaceId);
		if (!lane.ready[rank].has(queue)) {
			for (const ready of Object.values(lane.ready)) {
				ready.delete(queue);
			}
			lane.ready[rank].add(queue);
		}
		this.enlist(site, now);
	}

	unqueue(queue: DestinationQueue, site: Site): void {
		const lane = site.lanes.get(queue.workspaceId);
		for (const rank of lane ? ranks : []) {
			lane?.ready[rank].delete(queue);
		}
		forgetLane(site, queue.workspaceId);
	}

	/** Lets providers that can start something by now take their turns. */
	advance(now: Moment): void {
		for (let site = this.#openLater.next(now.monotonic); site; site = this.#openLater.next(now.monotonic)) {
			this.enlist(site, now);
		}
	}

	/**
	 * Returns how many recipients the workspace whose turn it is may claim, for the first rank that all limits allow.
	 * Returns `undefined` if all its mail has to wait for something else.
	 */
	offer({site, workspaceId}: Turn, pool: StartPool, {monotonic}: Moment) {
		const lane = site.lanes.get(workspaceId);
		for (const ready of lane ? ranks.filter(rank => lane.ready[rank].size > 0) : []) {
			const rank = rankAt(site, ready);
			const ownCap = ownCapacity(site, rank, this.#maxInFlight, monotonic);
			const left = this.left(phaseOf(rank), pool);
			if (ownCap > 0 && left > 0) {
				const limit = Math.min(ownCap, left, this.allowance(workspaceId, rank, pool));
				return {
					ready,
					limit,
					isWorthwhile: left >= Math.min(ownCap, this.#smallestClaim(site, rank, pool, monotonic)),
				};
			}
		}
		return undefined;
	}

	/**
	 * The smallest worthwhile claim: a quarter of the provider's window, or of the most that it could ever get.
	 * High-priority mail never waits for a larger claim.
	 */
	#smallestClaim(site: Site, rank: Rank, pool: StartPool, monotonic: number): number {
		if (rank === 'high' || rank === 'highBacklog') {
			return 1;
		}
		const maxUnproven = Math.ceil(this.#maxUnproven * (phaseOf(rank) === 'late' ? backlogShare : 1));
		const max = pool === 'proven' ? this.#maxInFlight : maxUnproven;
		return Math.max(1, Math.floor(Math.min(windowOf(site, monotonic), max) / 4));
	}

	/** Takes capacity for recipients of the claim; a negative number returns it. */
	take(claim: ClaimPermit, recipients: number): void {
		const {site, queue, rank, pool} = claim;
		site.inFlight += recipients;
		site.highInFlight += rank === 'high' || rank === 'highBacklog' ? recipients : 0;
		this.#inFlight[pool][phaseOf(rank)] += recipients;
		if (pool === 'proven') {
			return;
		}
		if (pool !== 'waiting') {
			this.#slots[pool].take(queue.workspaceId, recipients);
		}
		const unheard = (site.unheard.get(claim) ?? 0) + recipients;
		if (unheard > 0) {
			site.unheard.set(claim, unheard);
		} else {
			site.unheard.delete(claim);
		}
	}

	/**
	 * Moves what is under way at a provider that has gone quiet into the `waiting` pool, which makes room for others.
	 */
	setAside(site: Site): void {
		for (const [claim, recipients] of [...site.unheard]) {
			this.take(claim, -recipients);
			claim.pool = 'waiting';
			this.take(claim, recipients);
		}
	}

	/** Takes a provider that became proven or unproven out of its rows. It will wait in others. */
	moved(site: Site): void {
		this.#delist(site);
	}

	/** Yields workspaces in turn while capacity is left. Pass each to `served`, or add it to `exhausted`. */
	*turns(phase: Phase, pool: StartPool, exhausted: ReadonlySet<string>): Generator<Turn> {
		const row = this.#rows[pool][phase];
		for (let turns = row.size; turns > 0 && this.left(phase, pool) > 0; turns--) {
			const turn = row.first(
				(workspaceId, rank) => !exhausted.has(workspaceId) && this.allowance(workspaceId, rank, pool) > 0,
			);
			if (!turn) {
				return;
			}
			yield turn;
		}
	}

	served(turn: Turn, phase: Phase, pool: StartPool): void {
		this.#rows[pool][phase].served(turn);
	}
}

/** Providers that wait for a turn, in the turns of a few workspaces each, by the first rank of their mail. */
class Row {
	readonly #entriesOf = new Map<Site, readonly Entry[]>();
	readonly #waiting = new Map<string, Partial<Record<Rank, Set<Site>>>>();

	get size(): number {
		return this.#entriesOf.size;
	}

	/** Whether no other workspace is waiting here. */
	isOnly(workspaceId: string): boolean {
		const {size} = this.#waiting;
		return size === 0 || (size === 1 && this.#waiting.has(workspaceId));
	}

	/**
	 * Makes the provider wait in the turns of these workspaces. It keeps its position in those where it already waits,
	 * and leaves the row if there are no entries.
	 */
	set(site: Site, entries: readonly Entry[]): void {
		const known = this.#entriesOf.get(site) ?? [];
		if (known.length === entries.length && known.every((entry, index) => isSame(entry, entries[index] as Entry))) {
			return;
		}
		for (const entry of known) {
			if (!entries.some(other => isSame(other, entry))) {
				this.#remove(site, entry);
			}
		}
		for (const {workspaceId, rank} of entries) {
			const sites = this.#waiting.get(workspaceId) ?? {};
			sites[rank] ??= new Set();
			sites[rank].add(site);
			this.#waiting.set(workspaceId, sites);
		}
		if (entries.length > 0) {
			this.#entriesOf.set(site, entries);
		} else {
			this.#entriesOf.delete(site);
		}
	}

	/** Returns the next turn of a workspace that may have one: at the first provider with mail of its first rank. */
	first(mayHave: (workspaceId: string, rank: Rank) => boolean): Turn | undefined {
		for (const [workspaceId, sites] of this.#waiting) {
			const rank = ranks.find(candidate => sites[candidate]) as Rank;
			const [site] = sites[rank] ?? [];
			if (site && mayHave(workspaceId, rank)) {
				return {workspaceId, site};
			}
		}
		return undefined;
	}

	/** Ends the turn: the workspace moves to the end, and the provider leaves the workspace's turns. */
	served({workspaceId, site}: Turn): void {
		const entries = this.#entriesOf.get(site) ?? [];
		this.set(
			site,
			entries.filter(entry => entry.workspaceId !== workspaceId),
		);
		const sites = this.#waiting.get(workspaceId);
		if (sites) {
			this.#waiting.delete(workspaceId);
			this.#waiting.set(workspaceId, sites);
		}
	}

	#remove(site: Site, {workspaceId, rank}: Entry): void {
		const sites = this.#waiting.get(workspaceId);
		sites?.[rank]?.delete(site);
		if (sites?.[rank]?.size === 0) {
			delete sites[rank];
		}
		if (sites && ranks.every(other => sites[other] === undefined)) {
			this.#waiting.delete(workspaceId);
		}
	}
}

function isSame(a: Entry, b: Entry): boolean {
	return a.workspaceId === b.workspaceId && a.rank === b.rank;
}
