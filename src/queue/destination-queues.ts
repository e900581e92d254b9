import type {Moment} from '../kit/clock.ts';
import {type QueueKey, queueKeyText, type Route} from '../mail/route.ts';
import {Agenda} from './agenda.ts';
import {Capacity, type CapacityOptions, type StartPool, type Turn} from './capacity.ts';
import type {ClaimPermit, ClaimResult} from './claim-permit.ts';
import {countPassed, forgetLane, laneAt, overtaken, owedTo, readyQueues, readyRank} from './lanes.ts';
import {LookUps, type MayLookUp} from './look-ups.ts';
import {SentToday} from './pace/choose-route.ts';
import {fallSilent, noteAttempt, type SiteChange, type SiteEnd, type SiteState, spend} from './pace/site-state.ts';
import {type Phase, phaseOf, type Rank} from './ranks.ts';
import {
	type DestinationQueue,
	isProven,
	maxWaitOf,
	newQueue,
	ownCapacity,
	poolOf,
	rankAt,
	type Site,
	Sites,
	type SitesOptions,
} from './site.ts';

export type DestinationQueuesOptions = CapacityOptions & SitesOptions;

/** How long a route is used before it is looked up again, in milliseconds. */
const renewMs = 60_000;

/**
 * The destination queues and their providers. Decides who may claim next and how much, and applies to a provider what
 * an attempt reveals about it. Providers take turns, then the workspaces within a provider, then a workspace's
 * destinations, so that no backlog delays another's mail. Never reads the store: the scheduler reports what is due and
 * how attempts ended.
 */
export class DestinationQueues {
	readonly #options: DestinationQueuesOptions;
	readonly #sites: Sites;
	readonly #capacity: Capacity;
	readonly #sentToday = new SentToday();
	#suspended: ReadonlySet<string> = new Set();

	/** Queues that have work, or a known time at which the next recipient is due. */
	readonly #queues = new Map<string, DestinationQueue>();
	/** Queues with due work that is not being claimed, the longest waiting first. */
	readonly #waiting = new Set<DestinationQueue>();
	readonly #dueLater = new Agenda<DestinationQueue>();
	readonly #lookUps = new LookUps();
	/** How often all routes were discarded. */
	#renewals = 0;

	constructor(options: DestinationQueuesOptions) {
		this.#options = options;
		this.#sites = new Sites(options);
		this.#capacity = new Capacity(options);
	}

	/** The number of recipients that are claimed and not yet done. */
	get inFlight(): number {
		return this.#capacity.inFlight;
	}

	sites(): Iterable<Site> {
		return this.#sites.all();
	}

	/** Returns the provider with this name if it has queues now or had some recently. */
	find(name: string): Site | undefined {
		return this.#sites.find(name);
	}

	/**
	 * Yields queues with due work that is not being claimed, longest waiting first; then those of backed-off providers.
	 */
	*waiting(now: Moment): Iterable<DestinationQueue> {
		yield* this.#waiting;
		yield* this.#sites.backingOff(now);
	}

	/** Notes that mail for this queue was just accepted and is due now. */
	arrived(key: QueueKey, now: Moment): void {
		const queue = this.#queueOf(key);
		const isFirst = !queue.hasNewMail;
		queue.hasNewMail = true;
		if (isFirst || queue.state !== 'ready') {
			this.#wake(queue, now);
		}
	}

	/** Whether the queue's mail waits here for its turn or for a claim to finish. */
	isWaiting(key: QueueKey): boolean {
		const queue = this.#queues.get(queueKeyText(key));
		return queue?.state === 'ready' || (queue?.state === 'claiming' && queue.shouldRecheck);
	}

	/** Notes that the store has due mail that another node accepted or released. */
	noticed(key: QueueKey, now: Moment): void {
		const queue = this.#queueOf(key);
		queue.hasNewMail ||= queue.state === 'idle';
		this.#wake(queue, now);
	}

	/** Notes that one recipient of this queue is due at `at` (wall-clock milliseconds). */
	due(key: QueueKey, at: number, now: Moment): void {
		const queue = this.#queueOf(key);
		if (at <= now.now) {
			this.#wake(queue, now);
		} else {
			this.#waitUntil(queue, at);
		}
	}

	/** Notes that the first recipient of this queue in the store is due at `at`. Others may follow. */
	scanned(key: QueueKey, at: number, now: Moment): void {
		this.#queueOf(key).asksNext ||= at <= now.now;
		this.due(key, at, now);
	}

	/** Wakes queues that have become due. Only the earliest due time is known, so the claim reads the next one. */
	advance(now: Moment): void {
		for (let queue = this.#dueLater.next(now.now); queue; queue = this.#dueLater.next(now.now)) {
			queue.asksNext = true;
			if (queue.state === 'spent') {
				queue.state = 'idle';
			}
			this.#wake(queue, now);
		}
		this.#capacity.advance(now);
	}

	/** Replaces the set of destinations suspended by an operator. */
	suspend(destinations: ReadonlySet<string>, now: Moment): void {
		this.#suspended = destinations;
		for (const queue of this.#waiting) {
			const isSuspended = destinations.has(queue.destination);
			if (isSuspended && queue.state !== 'suspended') {
				this.#lookUps.remove(queue);
				this.#unplace(queue);
				queue.state = 'suspended';
			} else if (!isSuspended && queue.state === 'suspended') {
				this.#wakeAgain(queue, now);
			}
		}
	}

	#queueOf(key: QueueKey): DestinationQueue {
		const keyText = queueKeyText(key);
		let queue = this.#queues.get(keyText);
		if (!queue) {
			queue = newQueue(key);
			this.#queues.set(keyText, queue);
		}
		return queue;
	}

	#waitUntil(queue: DestinationQueue, at: number): void {
		if (queue.at === null || at < queue.at) {
			this.#dueLater.set(queue, at);
		}
	}

	/** Makes a queue that has due work wait for its turn, for its route or for the operator. */
	#wake(queue: DestinationQueue, now: Moment): void {
		if (queue.state === 'claiming') {
			queue.shouldRecheck = true;
			return;
		}
		if (queue.state === 'idle') {
			queue.since = now.monotonic;
			this.#waiting.add(queue);
			this.#endRest(queue);
		} else if (queue.state !== 'ready' && queue.state !== 'looking') {
			return;
		}
		if (this.#suspended.has(queue.destination)) {
			queue.state = 'suspended';
		} else if (queue.placed) {
			queue.state = 'ready';
			this.#capacity.queue(queue, queue.placed.site, now);
		} else {
			this.#seek(queue);
		}
	}

	/** Wakes a queue whose wait is over. Other recipients may have become due meanwhile. */
	#wakeAgain(queue: DestinationQueue, now: Moment): void {
		queue.state = 'idle';
		queue.asksNext = true;
		this.#wake(queue, now);
	}

	/**
	 * Returns the next queue whose route is to be looked up. `shouldIncludeBacklog` also allows mail that was attempted
	 * before.
	 */
	nextToFind(shouldIncludeBacklog: boolean, may: MayLookUp = () => true): DestinationQueue | undefined {
		return this.#lookUps.next(shouldIncludeBacklog, may);
	}

	/** Read this before a look-up and pass it to `placed`: a route from before a renewal is not valid. */
	get renewals(): number {
		return this.#renewals;
	}

	/** Places the queue on the route that was found for it, for the first time or again. */
	placed(queue: DestinationQueue, own: Route, now: Moment, renewals = this.#renewals): void {
		if (renewals !== this.#renewals) {
			this.unfound(queue);
		} else if (queue.state === 'looking') {
			queue.state = 'ready';
			this.#place(queue, own, now);
		} else if (queue.placed) {
			this.#place(queue, own, now);
		}
	}

	/** Looks up the route of the queue again, because it was not found. */
	unfound(queue: DestinationQueue): void {
		if (queue.state === 'looking') {
			this.#lookUps.add(queue);
		}
	}

	/** Looks up all routes again, because they may have changed. No waiting mail uses its old route. */
	renew(now: Moment): void {
		this.#renewals++;
		for (const queue of this.#queues.values()) {
			this.#endRest(queue);
			this.#unplace(queue);
			if (queue.state === 'ready') {
				this.#seek(queue);
			} else if (queue.state === 'spent') {
				this.#wakeAgain(queue, now);
			}
		}
	}

	#seek(queue: DestinationQueue): void {
		if (queue.state === 'looking') {
			this.#lookUps.hurry(queue);
		} else {
			queue.state = 'looking';
			this.#lookUps.add(queue);
		}
	}

	/** Places the queue at the provider of this route, or of its overflow route if today's warm-up share is used up. */
	#place(queue: DestinationQueue, own: Route, now: Moment): void {
		this.#unplace(queue);
		const route = own.warmUp && this.#sentToday.left(own.warmUp, now.now) <= 0 ? own.warmUp.overflow : own;
		if (route !== null) {
			const site = this.#sites.enter(route, now);
			queue.placed = {own, route, site, foundAt: now.monotonic};
			if (queue.state === 'ready') {
				this.#capacity.queue(queue, site, now);
			}
		} else if (queue.state === 'ready') {
			queue.state = 'spent';
			queue.spent = own.warmUp;
			this.#waitUntil(queue, this.#sentToday.endOfDay(now.now));
		}
	}

	#unplace(queue: DestinationQueue): void {
		if (!queue.placed) {
			return;
		}
		const {site} = queue.placed;
		queue.placed = null;
		this.#lookUps.remove(queue);
		this.#capacity.unqueue(queue, site);
		this.#sites.leave(site);
	}

	/** Returns the claims to make now. They hold their capacity until `claimed` is called. */
	permits(now: Moment): ClaimPermit[] {
		return [
			...this.#permitsOf('new', 'unproven', now),
			...this.#permitsOf('new', 'proven', now),
			...this.#permitsOf('late', 'unproven', now),
			...this.#permitsOf('late', 'silent', now),
			...this.#permitsOf('late', 'proven', now),
		];
	}

	#permitsOf(phase: Phase, pool: StartPool, now: Moment): ClaimPermit[] {
		const permits: ClaimPermit[] = [];
		const exhausted = new Set<string>();
		for (const turn of this.#capacity.turns(phase, pool, exhausted)) {
			const {site, workspaceId} = turn;
			permits.push(...this.#owedIn(turn, pool, now));
			const offer = this.#capacity.offer(turn, pool, now);
			if (offer && !offer.isWorthwhile) {
				break; // Those behind it would take whatever becomes free, and it would wait forever.
			}
			if (offer?.limit === 0) {
				exhausted.add(workspaceId);
				continue;
			}
			this.#capacity.served(turn, phase, pool);
			const queue = offer && this.#nextQueue(turn, offer.ready, now);
			if (queue) {
				permits.push(this.#permit(queue, offer.ready, offer.limit, now));
			}
			this.#capacity.enlist(site, now);
		}
		return permits;
	}

	/**
	 * Returns permits for mail that was passed too often by other mail of its workspace, limited to what it is owed.
	 */
	#owedIn(turn: Turn, pool: StartPool, now: Moment): ClaimPermit[] {
		const {site, workspaceId} = turn;
		const permits: ClaimPermit[] = [];
		for (const priority of overtaken) {
			const lane = site.lanes.get(workspaceId);
			const ready = lane && readyRank(lane, priority);
			const owed = ready && lane ? owedTo(lane, priority) : 0;
			if (owed === 0 || ready === undefined) {
				continue;
			}
			const rank = rankAt(site, ready);
			const ownCap = ownCapacity(site, rank, this.#options.maxInFlight, now.monotonic, true);
			const limit = Math.min(
				owed,
				ownCap,
				this.#capacity.left(phaseOf(rank), pool),
				this.#capacity.allowance(workspaceId, ready, pool),
			);
			const queue = limit > 0 ? this.#nextQueue(turn, ready, now) : undefined;
			if (queue) {
				permits.push(this.#permit(queue, ready, limit, now));
			}
		}
		return permits;
	}

	/**
	 * Returns the next queue of this rank. One that has used up its warm-up share first moves to its overflow route.
	 */
	#nextQueue({site, workspaceId}: Turn, rank: Rank, now: Moment): DestinationQueue | undefined {
		for (;;) {
			const lane = site.lanes.get(workspaceId);
			const [queue] = lane?.ready[rank] ?? [];
			if (!(lane && queue?.placed)) {
				return undefined;
			}
			lane.ready[rank].delete(queue);
			// Move the workspace behind the others at this provider.
			site.lanes.delete(workspaceId);
			site.lanes.set(workspaceId, lane);
			const {own, route} = queue.placed;
			if (own.warmUp === null || route !== own || this.#sentToday.left(own.warmUp, now.now) > 0) {
				return queue;
			}
			this.#place(queue, own, now);
		}
	}

	#permit(queue: DestinationQueue, ready: Rank, max: number, now: Moment): ClaimPermit {
		const {own, route, site, foundAt} = queue.placed as NonNullable<DestinationQueue['placed']>;
		const warmUp = route === own ? own.warmUp : null;
		const limit = warmUp ? Math.min(max, this.#sentToday.left(warmUp, now.now)) : max;
		const permit: ClaimPermit = {
			queue,
			site,
			route,
			rank: rankAt(site, ready),
			pool: poolOf(site),
			limit,
			asksNext: queue.asksNext,
			newestFirst: queue.hasNewMail && queue.asksNext,
			warmUp: warmUp && this.#sentToday.dayOf(warmUp, now.now),
		};
		queue.state = 'claiming';
		queue.asksNext = false;
		this.#waiting.delete(queue);
		if (queue.priority === 'high') {
			forgetLane(site, queue.workspaceId);
		} else {
			laneAt(site, queue.workspaceId).claiming[queue.priority]++;
		}
		this.#capacity.take(permit, limit);
		spend(site.state, limit, now.monotonic);
		if (now.monotonic - foundAt > renewMs) {
			this.#lookUps.addStale(queue);
		}
		return permit;
	}

	/** Applies the result of a claim. If it was full, more recipients may be due. */
	claimed(permit: ClaimPermit, result: ClaimResult, now: Moment): void {
		const {queue, site, limit, asksNext, warmUp: day} = permit;
		const unused = limit - result.count;
		queue.state = 'idle';
		queue.inFlight += result.count;
		this.#capacity.take(permit, -unused);
		spend(site.state, -unused, now.monotonic);
		countPassed(site, queue, result.count, now.monotonic);
		if (queue.priority !== 'high') {
			laneAt(site, queue.workspaceId).claiming[queue.priority]--;
		}
		const isSpent = day !== null && result.warmedUp !== null && this.#sentToday.note(day, result.warmedUp);
		if (unused === 0) {
			queue.asksNext ||= asksNext;
		} else if (result.nextDue !== null) {
			this.#waitUntil(queue, result.nextDue);
		}
		if (unused === 0 || queue.shouldRecheck || isSpent) {
			queue.shouldRecheck = false;
			this.#wake(queue, now);
		} else {
			queue.hasNewMail = false;
			this.#rest(queue);
		}
		forgetLane(site, queue.workspaceId);
		this.#capacity.enlist(site, now);
	}

	/** Applies the end of an attempt. `end` is what it reveals about the provider. Returns what changed there. */
	done(permit: ClaimPermit, end: SiteEnd | null, now: Moment): readonly SiteChange[] {
		const {queue, site, route} = permit;
		let changes: readonly SiteChange[] = [];
		queue.inFlight--;
		this.#capacity.take(permit, -1);
		if (end) {
			this.#change(site, state => {
				changes = noteAttempt(state, end, now.monotonic, maxWaitOf(route, this.#options.retry()));
			});
		}
		this.#capacity.enlist(site, now);
		this.#rest(queue);
		return changes;
	}

	/** Removes a queue without work from its provider. Its route is looked up again next time. */
	#rest(queue: DestinationQueue): void {
		if (queue.state !== 'idle' || queue.inFlight > 0) {
			return;
		}
		const site = queue.placed?.site;
		this.#unplace(queue);
		if (queue.at === null) {
			this.#queues.delete(queueKeyText(queue));
		} else if (site) {
			queue.restsAt = site;
			site.resting.add(queue);
		}
	}

	#endRest(queue: DestinationQueue): void {
		queue.restsAt?.resting.delete(queue);
		queue.restsAt = null;
	}

	/** Changes the provider's limits for a reason other than an attempt made here. */
	regrade(site: Site, change: (state: SiteState) => void, now: Moment): void {
		this.#change(site, change);
		this.#capacity.enlist(site, now);
	}

	/** Leaves the provider to other nodes, which have all of it. Its queues have no work until `noticed` is called. */
	leave(site: Site): void {
		for (const queue of readyQueues(site)) {
			queue.state = 'idle';
			queue.hasNewMail = false;
			this.#waiting.delete(queue);
			this.#capacity.unqueue(queue, site);
			this.#rest(queue);
		}
	}

	probe(names: Iterable<string>, now: Moment): void {
		for (const name of names) {
			const site = this.#sites.probe(name, now);
			if (site) {
				this.#capacity.enlist(site, now);
			}
		}
	}

	/** Notes a session that has received nothing for a while, so that an unproven provider no longer delays others. */
	quiet(name: string, now: Moment): void {
		const site = this.#sites.find(name);
		if (site && !isProven(site)) {
			this.#capacity.setAside(site);
			this.regrade(site, fallSilent, now);
		}
	}

	#change(site: Site, change: (state: SiteState) => void): void {
		const poolBefore = poolOf(site);
		change(site.state);
		this.#sites.noteBackoff(site);
		if (poolOf(site) !== poolBefore) {
			this.#capacity.moved(site);
		}
	}
}
