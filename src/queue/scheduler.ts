import type {Clock} from '../kit/clock.ts';
import {endOfLife, lifetimeOf, type OwnRetry, type Retry} from '../mail/retry.ts';
import type {QueueKey, Route} from '../mail/route.ts';
import {connectionsOf, type SiteChange} from '../pace/site-state.ts';
import {storeRetryMs} from '../store/held-claims.ts';
import type {AgedRecipient, Claimed} from '../store/queue/claims.ts';
import {Attempts, type AttemptsOptions} from './attempt.ts';
import {type ClaimPermit, DestinationQueues, type DestinationQueuesOptions} from './destination-queues.ts';
import {type NotesOptions, QueueNotes} from './notes.ts';
import {type ClaimsOptions, QueueClaims, type QueueObserver} from './queue-claims.ts';
import {reportSites, type Site, type SiteReport} from './site.ts';

export type SchedulerOptions = DestinationQueuesOptions &
	Pick<NotesOptions, 'noteSites' | 'noteWaits'> &
	Omit<ExpiryOptions, 'canStore' | 'end'> &
	ClaimsOptions &
	AttemptsOptions & {
		/** The route of a queue. A promise settles in bounded time, and rejects only if something of ours is broken. */
		readonly routeOf: (key: QueueKey) => Route | Promise<Route>;
		/** Sets how many connections the SMTP workers may have to the site. */
		readonly allow?: (site: Site, connections: number) => void;
		/** Every queue with work and when it is due, in the store's form. */
		readonly readWaitingQueues: () => Promise<ReadonlyArray<QueueKey & {readonly due: string}>>;
		/** Destinations that an operator suspended. */
		readonly readSuspensions: () => Promise<readonly string[]>;
		/** When an operator resumed sites that backed off, by their names. */
		readonly readResumed: () => Promise<ReadonlyMap<string, string>>;
		readonly observer: QueueObserver;
	};

/** How exactly waiting mail becomes due, milliseconds. */
const tickMs = 100;
/** How often shares are renewed and what waits is written, milliseconds. */
const noteMs = 1000;
/** Look-ups of routes at once; mail tried before leaves some of them to new mail. */
const mostLookUps = 64;
const mostBacklogLookUps = 48;
const routeRetryMs = 5000;

/**
 * The queue's heart: claims what each site may start now, takes every claimed recipient through its steps and records the
 * outcome. Claims end by outcome, never by time. An outcome that cannot be written is kept and nothing is claimed meanwhile,
 * because a sent mail must not be sent again.
 */
export function createScheduler(options: SchedulerOptions) {
	const {clock, shares, observer} = options;
	const moment = () => ({now: clock.now(), monotonic: clock.monotonic()});
	const queues = new DestinationQueues(options);
	const notes = new QueueNotes({...options, queues, moment});
	const claims = new QueueClaims(options);
	const attempts = new Attempts(options);
	const expiry = new Expiry({...options, canStore: () => !claims.failing, end: endUntried});
	const running = new Set<Promise<void>>();
	let state: 'idle' | 'running' | 'stopping' = 'idle';
	let timers: NodeJS.Timeout[] = [];
	let shareTimer: NodeJS.Timeout | undefined;
	let roundPlanned = false;
	let lookUps = 0;
	/** As it was at the last scan. */
	let knownResumed: ReadonlyMap<string, string> | null = null;
	/** The scan under way, and whether something changed since it began. */
	let scanning: Promise<void> | null = null;
	let scanAgain = false;

	shares.join({
		sites: () => queues.sites(),
		regrade(site, how) {
			queues.regrade(site, how, moment());
			allow(site);
			plan();
		},
		leave: site => queues.leave(site),
	});

	function plan(): void {
		if (!roundPlanned) {
			roundPlanned = true;
			setImmediate(runRound);
		}
	}

	function tick(): void {
		shares.advance();
		queues.advance(moment());
		plan();
	}

	function runRound(): void {
		roundPlanned = false;
		go();
	}

	function go(): void {
		if (state !== 'running' || claims.failing) {
			return;
		}
		if (claims.isDoubtful) {
			track(releaseUnknown());
		}
		findRoutes();
		for (const permit of queues.permits(moment())) {
			track(claim(permit));
		}
	}

	/** Finds the routes of queues, a bounded number at once: a slow look-up delays nothing else. */
	function findRoutes(): void {
		while (lookUps < mostLookUps) {
			const queue = queues.nextToFind(lookUps < mostBacklogLookUps);
			if (!queue) {
				return;
			}
			const {destination, workspaceId} = queue;
			const route = options.routeOf({destination, workspaceId});
			if (route instanceof Promise) {
				lookUps++;
				void awaitRoute(queue, route);
			} else {
				queues.placed(queue, route, moment());
				plan();
			}
		}
	}

	async function awaitRoute(queue: ClaimPermit['queue'], looking: Promise<Route>): Promise<void> {
		const {renewals} = queues;
		try {
			const route = await looking;
			queues.placed(queue, route, moment(), renewals);
			plan();
		} catch (error) {
			observer.routeNotFound(error, {destination: queue.destination, workspaceId: queue.workspaceId});
			setTimeout(() => {
				queues.unfound(queue);
				plan();
			}, routeRetryMs).unref();
		}
		lookUps--;
		findRoutes();
	}

	async function releaseUnknown(): Promise<void> {
		for (const queue of await claims.releaseUnknown()) {
			const now = moment();
			queues.due(queue, now.now, now);
		}
		plan();
	}

	async function claim(permit: ClaimPermit): Promise<void> {
		const {recipients, result} = await claims.claim(permit);
		queues.claimed(permit, result, moment());
		for (const recipient of recipients) {
			track(work(permit, recipient));
		}
		plan();
	}

	async function work(permit: ClaimPermit, recipient: Claimed): Promise<void> {
		const {recorded, end} = await attempts.run(permit, recipient, () => queues.travelTerms(permit, moment()));
		await claims.record(recorded);
		options.steps.recorded(recipient);
		const now = moment();
		const {nextAttemptAt} = recorded.verdict;
		if (nextAttemptAt !== null && state === 'running') {
			queues.due(permit.queue, nextAttemptAt, now);
		}
		const changes = queues.done(permit, end, now);
		if (changes.length > 0) {
			siteChanged(permit.site, changes);
		}
		plan();
	}

	function siteChanged(site: Site, changes: readonly SiteChange[]): void {
		allow(site);
		shares.changed(site, changes);
		if (site.saved || changes.some(change => change !== 'grew')) {
			notes.changed(site);
		}
		observer.siteChanged(site, changes);
	}

	function allow(site: Site): void {
		options.allow?.(site, connectionsOf(site.state, clock.monotonic()));
	}

	/** Recipients past their lifetime leave the queue without an attempt. */
	async function endUntried(ids: readonly string[]): Promise<void> {
		const recipients = await claims.claimAged(ids);
		await Promise.all(
			recipients.map(async recipient => {
				const ended = attempts.untried(recipient, await options.ownRetryOf(recipient.destination));
				await claims.record(ended);
				const {nextAttemptAt} = ended.verdict;
				if (nextAttemptAt !== null) {
					const {destination, workspace_id: workspaceId} = recipient;
					queues.due({destination, workspaceId}, nextAttemptAt, moment());
				}
			}),
		);
	}

	/** None rejects but for a bug in this folder. What a queue holds is unknown then: the process ends (unhandledRejection). */
	function track(promise: Promise<void>): void {
		running.add(promise);
		promise.then(() => running.delete(promise));
	}

	/** Reads the whole queue in the store: what is due, and what operators changed. */
	async function scan(): Promise<void> {
		const [suspended, resumed, found] = await Promise.all([
			options.readSuspensions(),
			options.readResumed(),
			options.readWaitingQueues(),
		]);
		const now = moment();
		queues.suspend(new Set(suspended), now);
		const before = knownResumed ?? resumed; // What was resumed before the start may be suspended again.
		queues.probe(
			[...resumed].filter(([site, at]) => before.get(site) !== at).map(([site]) => site),
			now,
		);
		knownResumed = resumed;
		for (const {due, ...queue} of found) {
			queues.found(queue, Date.parse(due), now);
		}
		plan();
	}

	/** Scans one after the other: an earlier reading must not replace a later one. */
	async function scanInTurn(): Promise<void> {
		scanAgain = true;
		scanning ??= (async () => {
			while (scanAgain) {
				scanAgain = false;
				await scan();
			}
		})().finally(() => {
			scanning = null;
		});
		await scanning;
	}

	/** Something else changed the queue (the CLI, another node). Tries until the store can be read: no change is announced twice. */
	async function rescan(): Promise<void> {
		try {
			await (state === 'running' && scanInTurn());
		} catch (error) {
			observer.storeFailed(error);
			setTimeout(rescan, storeRetryMs).unref();
		}
	}

	return {
		/** Reads what is waiting in the store and begins. */
		async start(): Promise<void> {
			state = 'running';
			timers = [setInterval(tick, tickMs), setInterval(() => track(notes.write().catch(observer.storeFailed)), noteMs)];
			shareTimer = setInterval(shares.renew, noteMs);
			await shares.renew();
			await scanInTurn();
			expiry.start();
		},

		/**
		 * Mail for these queues was handed to the writer, which takes turns, so a claim that follows finds it. Where its site has
		 * capacity the claim follows at once, and shares the transaction.
		 */
		arriving(keys: Iterable<QueueKey>): void {
			const now = moment();
			for (const key of keys) {
				queues.arrived(key, now);
			}
			go();
		},

		/** Whether mail of the queue has to wait here, so that another node may take it. */
		isWaiting: (key: QueueKey): boolean => queues.isWaiting(key),

		/** These queues have work that is due, maybe of another node. */
		noticed(keys: Iterable<QueueKey>): void {
			const now = moment();
			for (const key of keys) {
				queues.noticed(key, now);
			}
			plan();
		},

		rescan,

		/** Routes may have changed. */
		renew(): void {
			queues.renew(moment());
			plan();
		},

		/** Claims nothing more; resolves when every claimed recipient is recorded. */
		async stop(): Promise<void> {
			state = 'stopping';
			for (const timer of timers) {
				clearInterval(timer);
			}
			await expiry.stop();
			while (running.size > 0) {
				await Promise.all(running);
			}
			clearInterval(shareTimer);
			await shares.settled();
			await notes.write().catch(observer.storeFailed);
		},

		/** Recipients claimed and not yet done. */
		get inFlight(): number {
			return queues.inFlight;
		},

		/** How every site is doing that has work, or had some lately. */
		sites: (): SiteReport[] => reportSites(queues.sites(), moment()),

		/** Whether an outcome waits for the store: then nothing new should be accepted either. */
		get storeFailing(): boolean {
			return claims.failing;
		},
	};
}

export type Scheduler = ReturnType<typeof createScheduler>;

type ExpiryOptions = {
	readonly retry: () => Retry;
	readonly ownRetryOf: (destination: string) => OwnRetry | Promise<OwnRetry>;
	/** The shortest lifetime that a workspace or a destination has of its own, milliseconds; null: none has one. */
	readonly readShortestLifetime: () => Promise<number | null>;
	/** A page of the oldest recipients in the queue: behind the id `after`, of those accepted before `before` (milliseconds). */
	readonly readAged: (page: {
		readonly after: string;
		readonly before: number;
		readonly limit: number;
	}) => Promise<readonly AgedRecipient[]>;
	readonly clock: Clock;
	/** Whether outcomes can be stored now. */
	readonly canStore: () => boolean;
	/** Ends recipients past their lifetime, except those being tried or held. */
	readonly end: (ids: readonly string[]) => Promise<void>;
	readonly observer: Pick<QueueObserver, 'storeFailed'>;
};

const [restMs, longestRestMs] = [1000, 60_000];
/** A pass that looked at many recipients rests longer, a millisecond for each of these: the store is there for the mail. */
const recipientsPerRestMs = 20;
const recipientsPerPage = 1000;
const recipientsPerEnd = 100;

/** Ends waiting recipients past their lifetime, unless an operator holds them. One that is being tried ends with its attempt. */
class Expiry {
	readonly #options: ExpiryOptions;
	#timer: NodeJS.Timeout | undefined;
	#pass: Promise<void> = Promise.resolve();
	#stopped = false;

	constructor(options: ExpiryOptions) {
		this.#options = options;
	}

	start(afterMs = restMs): void {
		this.#timer = setTimeout(() => {
			this.#pass = this.#look()
				.catch(error => {
					this.#options.observer.storeFailed(error);
					return 0;
				})
				.then(looked => {
					if (!this.#stopped) {
						this.start(Math.min(Math.max(restMs, looked / recipientsPerRestMs), longestRestMs));
					}
				});
		}, afterMs);
	}

	/** Resolves when the current pass is over. */
	async stop(): Promise<void> {
		this.#stopped = true;
		clearTimeout(this.#timer);
		await this.#pass;
	}

	/** Answers how many recipients it looked at. */
	async #look(): Promise<number> {
		const {retry, readShortestLifetime, readAged, clock, canStore, end} = this.#options;
		let looked = 0;
		const now = clock.now();
		const {lifetime} = retry();
		const before = now - Math.min(lifetime, (await readShortestLifetime()) ?? lifetime);
		for (let after = ''; !this.#stopped && canStore(); ) {
			const page = await readAged({after, before, limit: recipientsPerPage});
			const ends = await Promise.all(page.map(recipient => this.#endOf(recipient)));
			const over = page.filter(({goes}, index) => goes && now >= (ends[index] as number));
			for (let from = 0; from < over.length; from += recipientsPerEnd) {
				await end(over.slice(from, from + recipientsPerEnd).map(({id}) => id));
			}
			looked += page.length;
			const last = page.at(-1);
			if (last === undefined || page.length < recipientsPerPage) {
				break;
			}
			after = last.id;
		}
		return looked;
	}

	async #endOf({acceptedAt, destination, queue_lifetime_s: ofWorkspace}: AgedRecipient): Promise<number> {
		const {retry, ownRetryOf} = this.#options;
		return endOfLife(acceptedAt, lifetimeOf(await ownRetryOf(destination), retry().lifetime, ofWorkspace));
	}
}
