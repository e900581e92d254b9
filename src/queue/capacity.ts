import type {Moment} from '../kit/clock.ts';
import {opensAt} from '../pace/site-state.ts';
import {Agenda} from './agenda.ts';
import type {ClaimPermit} from './claim-permit.ts';
import {FairSlots} from './fair-slots.ts';
import {type Entry, forgetLane, laneAt, readyWorkspaces} from './lanes.ts';
import {type Phase, phaseOf, phases, type Rank, rankOf, ranks} from './ranks.ts';
import {type DestinationQueue, ownCapacity, type Pool, poolOf, rankAt, type Site, windowOf} from './site.ts';

export type CapacityOptions = {
	/** Recipients claimed and not yet done, in all. */
	readonly maxInFlight: number;
	/** Those of them that are tried at sites not known to reply. */
	readonly maxUnproven: number;
};

/** A workspace's turn is that of one of its sites. */
export type Turn = {readonly workspaceId: string; readonly site: Site};

/** The pools in which a recipient may start. */
export type StartPool = Exclude<Pool, 'waiting'>;

/** Caps new mail while a backlog waits, and the backlog always: mail may arrive at any time. */
const freshShare = 0.75;
const backlogShare = 0.5;
/**
 * What a workspace may have of the slots for sites that are not proven: it leaves a part to its mail of the ranks
 * before.
 */
const lateShare = 1 / 3;
const slotShare: Record<Rank, number> = {
	...{high: 1, highBacklog: lateShare, fresh: 1},
	...{mixed: 0.75, backlog: lateShare, low: lateShare},
};

const rows = () => ({new: new Row(), late: new Row()});
const none = () => ({new: 0, late: 0});

/**
 * The capacity that all sites share, and the rows in which they wait for it. A ready queue waits at its site, the site
 * waits in a row while it may start something. Workspaces take turns for all of it. At a site that is not proven every
 * try may wait for a timeout: such sites get only a part of the capacity, or a few dozen of them would stop all mail,
 * and each workspace only a share of that part, so that there is room for one that comes (decision 37).
 */
export class Capacity {
	readonly #maxInFlight: number;
	readonly #maxUnproven: number;
	readonly #rows = {proven: rows(), unproven: rows(), silent: rows()};
	readonly #inFlight = {proven: none(), unproven: none(), silent: none(), waiting: none()};
	readonly #slots = {unproven: new FairSlots(), silent: new FairSlots()};
	/** Sites that may not start anything now. */
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

	/** Connections that sites which are not proven could still have. */
	get #freeUnproven(): number {
		const {waiting} = this.#inFlight;
		const {unproven, silent} = this.#slots;
		return this.#maxUnproven - unproven.total - silent.total - waiting.new - waiting.late;
	}

	/** What may be claimed now for all sites of this kind together. */
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

	/** What this workspace may claim of that, for mail of this rank. */
	allowance(workspaceId: string, rank: Rank, pool: StartPool): number {
		if (pool === 'proven') {
			return Number.POSITIVE_INFINITY;
		}
		const isAlone = phases.every(phase => this.#rows[pool][phase].isOnly(workspaceId));
		return this.#slots[pool].allowance(workspaceId, this.#freeUnproven, isAlone, slotShare[rank]);
	}

	/** Lets the site take its turns while it has work and may start some; it keeps its place in the row. */
	enlist(site: Site, {monotonic}: Moment): void {
		const {lanes, state} = site;
		this.#openLater.remove(site);
		if (lanes.size === 0) {
			this.#delist(site);
			return;
		}
		const opens = opensAt(state, monotonic);
		if (opens > monotonic) {
			this.#delist(site);
			this.#openLater.set(site, opens);
			return;
		}
		const row = this.#rows[poolOf(site)];
		for (const phase of phases) {
			// Until one of its recipients is done, where there are none.
			row[phase].set(site, readyWorkspaces(site, phase, this.#maxInFlight, monotonic));
		}
	}

	#delist(site: Site): void {
		for (const row of Object.values(this.#rows)) {
			row.new.set(site, []);
			row.late.set(site, []);
		}
	}

	/** The queue waits for its turn at the site. */
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

	/** Lets sites that may start something by now take their turns. */
	advance(now: Moment): void {
		for (let site = this.#openLater.next(now.monotonic); site; site = this.#openLater.next(now.monotonic)) {
			this.enlist(site, now);
		}
	}

	/**
	 * What the workspace whose turn it is may claim now: of the first rank that the site may start, by all limits;
	 * undefined: all its mail waits for something else.
	 */
	offer({site, workspaceId}: Turn, pool: StartPool, {monotonic}: Moment) {
		const lane = site.lanes.get(workspaceId);
		for (const ready of lane ? ranks.filter(one => lane.ready[one].size > 0) : []) {
			const rank = rankAt(site, ready);
			const own = ownCapacity(site, rank, this.#maxInFlight, monotonic);
			const left = this.left(phaseOf(rank), pool);
			if (own > 0 && left > 0) {
				const limit = Math.min(own, left, this.allowance(workspaceId, rank, pool));
				return {
					ready,
					limit,
					isWorthwhile: left >= Math.min(own, this.#smallestClaim(site, rank, pool, monotonic)),
				};
			}
		}
		return undefined;
	}

	/**
	 * The smallest worthwhile claim: a quarter of the site's window, or of the most it could ever get. High mail never
	 * waits for that.
	 */
	#smallestClaim(site: Site, rank: Rank, pool: StartPool, monotonic: number): number {
		if (rank === 'high' || rank === 'highBacklog') {
			return 1;
		}
		const ofUnproven = Math.ceil(this.#maxUnproven * (phaseOf(rank) === 'late' ? backlogShare : 1));
		const most = pool === 'proven' ? this.#maxInFlight : ofUnproven;
		return Math.max(1, Math.floor(Math.min(windowOf(site, monotonic), most) / 4));
	}

	/** Takes capacity for recipients of the claim; a negative number gives it back. */
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

	/** The site's hosts have said nothing for a while: what is under way there makes room for others. */
	setAside(site: Site): void {
		for (const [claim, recipients] of [...site.unheard]) {
			this.take(claim, -recipients);
			claim.pool = 'waiting';
			this.take(claim, recipients);
		}
	}

	/** The site became proven, or no longer is: it waits elsewhere. */
	moved(site: Site): void {
		this.#delist(site);
	}

	/**
	 * Workspaces in the order of their turns, until no capacity is left. Each turn is to be `served`, or its workspace
	 * to be in `over`.
	 */
	*turns(phase: Phase, pool: StartPool, over: ReadonlySet<string>): Generator<Turn> {
		const row = this.#rows[pool][phase];
		for (let turns = row.size; turns > 0 && this.left(phase, pool) > 0; turns--) {
			const turn = row.first(
				(workspaceId, rank) => !over.has(workspaceId) && this.allowance(workspaceId, rank, pool) > 0,
			);
			if (!turn) {
				return;
			}
			yield turn;
		}
	}

	/** Ends the turn. */
	served(turn: Turn, phase: Phase, pool: StartPool): void {
		this.#rows[pool][phase].served(turn);
	}
}

/**
 * Sites that wait for a turn, each in the turns of some workspaces with mail for it, by the first rank of that mail.
 */
class Row {
	readonly #entriesOf = new Map<Site, readonly Entry[]>();
	readonly #waiting = new Map<string, Partial<Record<Rank, Set<Site>>>>();

	get size(): number {
		return this.#entriesOf.size;
	}

	/** Whether no other workspace waits here. */
	isOnly(workspaceId: string): boolean {
		const {size} = this.#waiting;
		return size === 0 || (size === 1 && this.#waiting.has(workspaceId));
	}

	/**
	 * The site waits for these workspaces' turns, and keeps its place where it waits already. None: it leaves the row.
	 */
	set(site: Site, entries: readonly Entry[]): void {
		const before = this.#entriesOf.get(site) ?? [];
		if (before.length === entries.length && before.every((one, index) => isSame(one, entries[index] as Entry))) {
			return;
		}
		for (const one of before) {
			if (!entries.some(entry => isSame(entry, one))) {
				this.#remove(site, one);
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

	/** The next turn of a workspace that may have one: that of the first site with mail of its first rank. */
	first(mayHave: (workspaceId: string, rank: Rank) => boolean): Turn | undefined {
		for (const [workspaceId, sites] of this.#waiting) {
			const rank = ranks.find(one => sites[one]) as Rank;
			const [site] = sites[rank] ?? [];
			if (site && mayHave(workspaceId, rank)) {
				return {workspaceId, site};
			}
		}
		return undefined;
	}

	/** Ends the turn: the workspace goes to the end, the site leaves it. */
	served({workspaceId, site}: Turn): void {
		const entries = this.#entriesOf.get(site) ?? [];
		this.set(
			site,
			entries.filter(one => one.workspaceId !== workspaceId),
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
		if (sites && ranks.every(one => sites[one] === undefined)) {
			this.#waiting.delete(workspaceId);
		}
	}
}

function isSame(one: Entry, other: Entry): boolean {
	return one.workspaceId === other.workspaceId && one.rank === other.rank;
}
