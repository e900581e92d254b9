import type {QueueKey, Route} from '../mail/route.ts';
import type {Moment} from '../pace/saved.ts';
import {createSentToday} from '../pace/warm-up.ts';
import {type CapacityOptions, createCapacity} from './capacity.ts';
import {createPermits, type PermitsOptions} from './claim-permits.ts';
import {createQueueRegistry, type DestinationQueue} from './destination-queue.ts';
import {createToFind} from './find-routes.ts';
import {createSiteRegistry, type Site, type SiteRegistryOptions} from './site.ts';

export type DestinationQueuesOptions = SiteRegistryOptions & CapacityOptions & PermitsOptions;

/**
 * Who may claim next: sites take turns, within a site its workspaces, and within a workspace its destinations, so that no
 * backlog stands before another one's mail. Each site gets what its pace allows. Knows nothing of the store: the scheduler
 * tells it what is due and what became of it.
 */
export function createDestinationQueues(options: DestinationQueuesOptions) {
	const registry = createQueueRegistry();
	const sites = createSiteRegistry(options);
	const toFind = createToFind();
	const capacity = createCapacity(options);
	const sentToday = createSentToday();
	let suspended: ReadonlySet<string> = new Set();

	/** Work of it is due: it waits for its turn, for its way to be found, or for the operator. */
	function wake(queue: DestinationQueue, now: Moment): void {
		if (queue.state === 'claiming') {
			queue.again = true;
			return;
		}
		if (queue.state === 'idle') {
			queue.since = now.monotonic;
			registry.waiting.add(queue);
			sites.endRest(queue);
		} else if (queue.state !== 'ready' && queue.state !== 'looking') {
			return;
		}
		if (suspended.has(queue.destination)) {
			queue.state = 'suspended';
		} else if (queue.placed) {
			getReady(queue, queue.placed.site, now);
		} else {
			toFind.seek(queue);
		}
	}

	/** What it stood still for is over: others may be due by now. */
	function wakeAgain(queue: DestinationQueue, now: Moment): void {
		queue.state = 'idle';
		queue.asksNext = true;
		wake(queue, now);
	}

	/** It waits for its turn at the site where it is. */
	function getReady(queue: DestinationQueue, site: Site, now: Moment): void {
		queue.state = 'ready';
		capacity.queue(queue, site, now);
	}

	/** The lane goes by this way from now on, or by what stands in for it today; where it is ready it waits for its turn there. */
	function place(queue: DestinationQueue, own: Route, now: Moment): void {
		unplace(queue);
		const route = own.warmUp && sentToday.left(own.warmUp, now.now) <= 0 ? own.warmUp.overflow : own;
		if (route !== null) {
			const site = sites.enter(route, now);
			queue.placed = {own, route, site, foundAt: now.monotonic};
			if (queue.state === 'ready') {
				getReady(queue, site, now);
			}
		} else if (queue.state === 'ready') {
			queue.state = 'spent';
			queue.spent = own.warmUp;
			registry.waitUntil(queue, sentToday.endOfDay(now.now));
		}
	}

	function unplace(queue: DestinationQueue): void {
		if (!queue.placed) {
			return;
		}
		const {site} = queue.placed;
		queue.placed = null;
		toFind.remove(queue);
		capacity.unqueue(queue, site);
		sites.leave(site);
	}

	/** Where nothing is under way the way is found anew next time, and without work the lane is forgotten. */
	function rest(queue: DestinationQueue): void {
		if (queue.state !== 'idle' || queue.inFlight > 0) {
			return;
		}
		const site = queue.placed?.site;
		unplace(queue);
		if (queue.at === null) {
			registry.forget(queue);
		} else if (site) {
			sites.rest(queue, site);
		}
	}

	return {
		/** Mail for this lane was just accepted: it is due now. */
		arrived(key: QueueKey, now: Moment): void {
			const queue = registry.of(key);
			const isNews = !queue.fresh;
			queue.fresh = true;
			if (isNews || queue.state !== 'ready') {
				wake(queue, now);
			}
		},

		/** Whether its mail waits here: for its turn, or for the end of a claim. */
		isWaiting(key: QueueKey): boolean {
			const queue = registry.find(key);
			return queue?.state === 'ready' || (queue?.state === 'claiming' && queue.again);
		},

		/** The store holds mail that is due, accepted or left behind by another node. */
		noticed(key: QueueKey, now: Moment): void {
			const queue = registry.of(key);
			queue.fresh ||= queue.state === 'idle';
			wake(queue, now);
		},

		/** One copy of this lane is due at `at` (wall-clock milliseconds). */
		due(key: QueueKey, at: number, now: Moment): void {
			const queue = registry.of(key);
			if (at <= now.now) {
				wake(queue, now);
			} else {
				registry.waitUntil(queue, at);
			}
		},

		/** Of those in the store the first copy of this lane is due at `at`, others may follow. */
		found(key: QueueKey, at: number, now: Moment): void {
			const queue = registry.of(key);
			if (at <= now.now) {
				queue.asksNext = true;
				wake(queue, now);
			} else {
				registry.waitUntil(queue, at);
			}
		},

		/** Wakes what has become due. Of all that waits in a lane only the first time is known: its claim asks for the next. */
		advance(now: Moment): void {
			for (let queue = registry.nextDue(now.now); queue; queue = registry.nextDue(now.now)) {
				queue.asksNext = true;
				if (queue.state === 'spent') {
					queue.state = 'idle';
				}
				wake(queue, now);
			}
			capacity.advance(now);
		},

		...createPermits({...options, registry, sites, capacity, toFind, sentToday, place, wake, rest}),

		/** A lane whose way is to be found; `backlog`: also of what was tried before. The caller tells `placed`. */
		nextToFind: (backlog: boolean): DestinationQueue | undefined => toFind.next(backlog),

		/** The way of a lane is found, or found anew. */
		placed(queue: DestinationQueue, own: Route, now: Moment): void {
			if (queue.state === 'looking') {
				queue.state = 'ready';
				place(queue, own, now);
			} else if (queue.placed) {
				place(queue, own, now);
			}
		},

		/** Its way could not be found: it is to be looked for again. */
		unfound(queue: DestinationQueue): void {
			if (queue.state === 'looking') {
				toFind.again(queue);
			}
		},

		/** Ways may lead elsewhere from now on: all are found anew, and nothing more goes the former way, also where it waits. */
		renew(now: Moment): void {
			for (const queue of registry.all()) {
				sites.endRest(queue);
				unplace(queue);
				if (queue.state === 'ready') {
					toFind.seek(queue);
				} else if (queue.state === 'spent') {
					wakeAgain(queue, now);
				}
			}
		},

		/** From now on an operator lets nothing go to these destinations. */
		suspend(destinations: ReadonlySet<string>, now: Moment): void {
			suspended = destinations;
			for (const queue of registry.waiting) {
				const stops = suspended.has(queue.destination);
				if (stops && queue.state !== 'suspended') {
					toFind.remove(queue);
					unplace(queue);
					queue.state = 'suspended';
				} else if (!stops && queue.state === 'suspended') {
					wakeAgain(queue, now);
				}
			}
		},

		/** One copy may try each of these sites, where it is left alone. */
		probe(names: Iterable<string>, now: Moment): void {
			for (const name of names) {
				const site = sites.probe(name, now);
				if (site) {
					capacity.enlist(site, now);
				}
			}
		},

		/** Lanes with work that is due and not being claimed, the longest waiting first; then those of sites that are left alone. */
		*waiting(now: Moment): Iterable<DestinationQueue> {
			yield* registry.waiting;
			yield* sites.backingOff(now);
		},

		sites: sites.all,

		get inFlight(): number {
			return capacity.inFlight;
		},
	};
}

export type DestinationQueues = ReturnType<typeof createDestinationQueues>;
