import type {Clock, Moment} from '../kit/clock.ts';
import {priorities} from '../mail/message.ts';
import {endOfLife, type OwnRetry, type Retry, resolveLifetime} from '../mail/retry.ts';
import type {Arrival, QueueKey, Route} from '../mail/route.ts';
import type {JudgedAttempt} from '../outcome/settle.ts';
import {storeRetryMs} from '../store/held-claims.ts';
import type {readAged} from '../store/queue/claims.ts';
import {Attempts, type AttemptsOptions} from './attempt.ts';
import {type ClaimPermit, travelTerms} from './claim-permit.ts';
import {DestinationQueues, type DestinationQueuesOptions} from './destination-queues.ts';
import {FairSlots} from './fair-slots.ts';
import {type NotesOptions, QueueNotes} from './notes.ts';
import {connectionsOf, type SiteChange, type SiteEnd} from './pace/site-state.ts';
import {type ClaimsOptions, QueueClaims, type QueueObserver} from './queue-claims.ts';
import {reportSites, type Site, type SiteReport} from './site.ts';

type SchedulerOptions = DestinationQueuesOptions &
	Pick<NotesOptions, 'noteSites' | 'noteWaits'> &
	ExpiryOptions &
	ClaimsOptions &
	AttemptsOptions & {
		/** Finds the route of a queue. Settles in bounded time, and rejects only because of an internal error. */
		readonly routeOf: (key: QueueKey) => Route | Promise<Route>;
		/** Sets how many connections to the provider the SMTP workers may have. */
		readonly allow?: (site: Site, connections: number) => void;
		/** Reads every queue with work and when it is due, in the store's format. */
		readonly readWaitingQueues: () => Promise<ReadonlyArray<QueueKey & {readonly due: string}>>;
		readonly readSuspensions: () => Promise<readonly string[]>;
		/** When an operator resumed providers that were backing off, by name. */
		readonly readResumed: () => Promise<ReadonlyMap<string, string>>;
		readonly observer: QueueObserver;
	};

/** How precisely waiting mail becomes due, in milliseconds. */
const tickMs = 100;
/** How often shares are renewed and notes are written, in milliseconds. */
const noteMs = 1000;
/** The maximum number of concurrent route look-ups. Mail that was attempted before leaves some of them to new mail. */
const maxLookUps = 64;
const maxBacklogLookUps = 48;
const routeRetryMs = 5000;

/**
 * The center of this folder, which decides whose mail goes next: claims what each provider may start, takes every
 * claimed recipient through its attempt, and records the outcome. Relies on `DestinationQueues` for turns and limits,
 * on `Attempts` for delivery, and on `QueueClaims` for the store. A claim ends by its outcome, never by time. While an
 * outcome cannot be written, nothing is claimed, because a message that was sent must not be sent again.
 */
export class Scheduler {
	readonly #options: SchedulerOptions;
	readonly #queues: DestinationQueues;
	readonly #notes: QueueNotes;
	readonly #claims: QueueClaims;
	readonly #attempts: Attempts;
	readonly #expiry: Expiry;
	readonly #running = new Set<Promise<void>>();
	#state: 'idle' | 'running' | 'stopping' = 'idle';
	#timers: NodeJS.Timeout[] = [];
	#shareTimer: NodeJS.Timeout | undefined;
	#isRoundPlanned = false;
	readonly #lookUps = new FairSlots();
	/** The state at the last scan. */
	#knownResumed: ReadonlyMap<string, string> | null = null;
	/** The scan in progress, and whether something has changed since it began. */
	#scanning: Promise<void> | null = null;
	#shouldScanAgain = false;

	constructor(options: SchedulerOptions) {
		this.#options = options;
		this.#queues = new DestinationQueues(options);
		this.#notes = new QueueNotes({...options, queues: this.#queues, moment: () => this.#moment()});
		this.#claims = new QueueClaims(options);
		this.#attempts = new Attempts(options, this.#claims, {
			claimed: (permit, result) => {
				this.#queues.claimed(permit, result, this.#moment());
				this.#plan();
			},
			termsOf: permit => travelTerms(permit, this.#moment()),
			settled: (permit, verdict, end) => this.#settled(permit, verdict, end),
		});
		this.#expiry = new Expiry(options, this.#claims, ids => this.#endUntried(ids));
		options.shares.join({
			sites: () => this.#queues.sites(),
			find: name => this.#queues.find(name),
			regrade: (site, change) => {
				this.#queues.regrade(site, change, this.#moment());
				this.#allow(site);
				this.#plan();
			},
			leave: site => this.#queues.leave(site),
			rescan: () => void this.rescan(),
		});
	}

	/** Reads what is waiting in the store and starts. */
	async start(): Promise<void> {
		this.#state = 'running';
		this.#timers = [
			setInterval(() => this.#tick(), tickMs),
			setInterval(() => this.#track(this.#notes.write().catch(this.#options.observer.storeFailed)), noteMs),
		];
		this.#shareTimer = setInterval(() => this.#options.shares.renew(), noteMs);
		await this.#options.shares.renew();
		await this.#scanInTurn();
		this.#expiry.start();
	}

	/**
	 * Notes that mail for these queues was submitted to the writer. Writes run one by one, so a later claim finds the
	 * mail. If the provider has capacity, the claim follows at once and shares the transaction.
	 */
	arriving(keys: Iterable<Arrival>): void {
		const now = this.#moment();
		for (const key of keys) {
			if (key.dueAt === undefined) {
				this.#queues.arrived(key, now);
			} else {
				this.#queues.due(key, key.dueAt, now);
			}
		}
		this.#startRound();
	}

	/** Whether mail of the queue has to wait here, so that another node may take it. */
	isWaiting(key: QueueKey): boolean {
		return this.#queues.isWaiting(key);
	}

	/** Notes that these queues have work that is or will be due, possibly from another node. */
	noticed(keys: Iterable<Arrival>): void {
		const now = this.#moment();
		for (const key of keys) {
			const {dueAt = 0} = key;
			if (dueAt > now.now) {
				this.#queues.due(key, dueAt, now);
			} else {
				this.#queues.noticed(key, now);
			}
		}
		this.#plan();
	}

	/** Reads the queue after any other change. Retries until the store can be read: a change is not announced twice. */
	async rescan(): Promise<void> {
		try {
			await (this.#state === 'running' && this.#scanInTurn());
		} catch (error) {
			this.#options.observer.storeFailed(error);
			setTimeout(() => void this.rescan(), storeRetryMs).unref();
		}
	}

	/** Call this when routes may have changed. */
	renew(): void {
		this.#queues.renew(this.#moment());
		this.#plan();
	}

	/** Call this when a session with this provider has received nothing for a while. */
	quiet(site: string): void {
		this.#queues.quiet(site, this.#moment());
		this.#plan();
	}

	/** Stops claiming. Resolves when every claimed recipient is recorded. */
	async stop(): Promise<void> {
		this.#state = 'stopping';
		for (const timer of this.#timers) {
			clearInterval(timer);
		}
		await this.#expiry.stop();
		while (this.#running.size > 0) {
			await Promise.all(this.#running);
		}
		clearInterval(this.#shareTimer);
		await this.#options.shares.settled();
		await this.#notes.write().catch(this.#options.observer.storeFailed);
	}

	/** The number of recipients that are claimed and not yet done. */
	get inFlight(): number {
		return this.#queues.inFlight;
	}

	/** Returns the state of every provider that has work now or had some recently. */
	sites(): SiteReport[] {
		return reportSites(this.#queues.sites(), this.#moment());
	}

	/** Whether an outcome is waiting to be written. If so, nothing new should be accepted either. */
	get isStoreFailing(): boolean {
		return this.#claims.isFailing;
	}

	#moment(): Moment {
		const {clock} = this.#options;
		return {now: clock.now(), monotonic: clock.monotonic()};
	}

	#plan(): void {
		if (!this.#isRoundPlanned) {
			this.#isRoundPlanned = true;
			setImmediate(() => {
				this.#isRoundPlanned = false;
				this.#startRound();
			});
		}
	}

	#tick(): void {
		this.#options.shares.advance();
		this.#queues.advance(this.#moment());
		this.#plan();
	}

	#startRound(): void {
		if (this.#state !== 'running' || this.#claims.isFailing) {
			return;
		}
		if (this.#claims.isDoubtful) {
			this.#track(this.#releaseUnknown());
		}
		this.#findRoutes();
		for (const permit of this.#queues.permits(this.#moment())) {
			this.#track(this.#attempts.run(permit));
		}
	}

	/** Looks up routes, a limited number at once and half of them per workspace: slow look-ups delay no others. */
	#findRoutes(): void {
		const free = () => maxLookUps - this.#lookUps.total;
		const mayLookUp = (workspaceId: string, isAlone: boolean) =>
			this.#lookUps.allowance(workspaceId, free(), isAlone) > 0;
		while (free() > 0) {
			const queue = this.#queues.nextToFind(this.#lookUps.total < maxBacklogLookUps, mayLookUp);
			if (!queue) {
				return;
			}
			const {destination, workspaceId} = queue;
			const route = this.#options.routeOf({destination, workspaceId});
			if (route instanceof Promise) {
				this.#lookUps.take(workspaceId, 1);
				void this.#awaitRoute(queue, route);
			} else {
				this.#queues.placed(queue, route, this.#moment());
				this.#plan();
			}
		}
	}

	async #awaitRoute(queue: ClaimPermit['queue'], lookup: Promise<Route>): Promise<void> {
		const {renewals} = this.#queues;
		try {
			const route = await lookup;
			this.#queues.placed(queue, route, this.#moment(), renewals);
			this.#plan();
		} catch (error) {
			this.#options.observer.routeNotFound(error, {
				destination: queue.destination,
				workspaceId: queue.workspaceId,
			});
			setTimeout(() => {
				this.#queues.unfound(queue);
				this.#plan();
			}, routeRetryMs).unref();
		}
		this.#lookUps.take(queue.workspaceId, -1);
		this.#findRoutes();
	}

	async #releaseUnknown(): Promise<void> {
		for (const queue of await this.#claims.releaseUnknown()) {
			const now = this.#moment();
			this.#queues.due(queue, now.now, now);
		}
		this.#plan();
	}

	#settled(permit: ClaimPermit, {nextAttemptAt}: JudgedAttempt['verdict'], end: SiteEnd | null): void {
		const now = this.#moment();
		if (nextAttemptAt !== null && this.#state === 'running') {
			this.#queues.due(permit.queue, nextAttemptAt, now);
		}
		const changes = this.#queues.done(permit, end, now);
		if (changes.length > 0) {
			this.#siteChanged(permit.site, changes);
		}
		this.#plan();
	}

	#siteChanged(site: Site, changes: readonly SiteChange[]): void {
		this.#allow(site);
		if (site.isSaved || changes.some(change => change !== 'grew')) {
			this.#notes.changed(
				site,
				changes.every(change => change === 'grew' || change === 'halved'),
			);
		}
		this.#options.observer.siteChanged(site, changes);
	}

	#allow(site: Site): void {
		this.#options.allow?.(site, connectionsOf(site.state, this.#options.clock.monotonic()));
	}

	/** Ends recipients past their lifetime without an attempt. Returns how many there were. */
	async #endUntried(ids: readonly string[]): Promise<number> {
		const recipients = await this.#claims.claimAged(ids);
		await Promise.all(
			recipients.map(async recipient => {
				const ended = this.#attempts.untried(recipient, await this.#options.ownRetryOf(recipient.destination));
				await this.#claims.record(ended);
				const {nextAttemptAt} = ended.verdict;
				if (nextAttemptAt !== null) {
					const {destination, workspace_id: workspaceId} = recipient;
					for (const priority of priorities) {
						this.#queues.due({destination, workspaceId, priority}, nextAttemptAt, this.#moment());
					}
				}
			}),
		);
		return recipients.length;
	}

	/** A tracked promise rejects only because of a bug here. The process then exits: the queue's state is unknown. */
	#track(promise: Promise<void>): void {
		this.#running.add(promise);
		promise.then(() => this.#running.delete(promise));
	}

	/** Reads the whole queue from the store: what is due, and what operators changed. */
	async #scan(): Promise<void> {
		const [suspended, resumed, waitingQueues] = await Promise.all([
			this.#options.readSuspensions(),
			this.#options.readResumed(),
			this.#options.readWaitingQueues(),
		]);
		const now = this.#moment();
		this.#queues.suspend(new Set(suspended), now);
		const known = this.#knownResumed ?? resumed; // A provider resumed before the start may be suspended again.
		this.#queues.probe(
			[...resumed].filter(([site, at]) => known.get(site) !== at).map(([site]) => site),
			now,
		);
		this.#knownResumed = resumed;
		for (const {due, ...queue} of waitingQueues) {
			this.#queues.scanned(queue, Date.parse(due), now);
		}
		this.#plan();
	}

	/** Runs one scan after another, because an earlier reading must not replace a later one. */
	async #scanInTurn(): Promise<void> {
		this.#shouldScanAgain = true;
		this.#scanning ??= (async () => {
			while (this.#shouldScanAgain) {
				this.#shouldScanAgain = false;
				await this.#scan();
			}
		})().finally(() => {
			this.#scanning = null;
		});
		await this.#scanning;
	}
}

type ExpiryOptions = {
	readonly retry: () => Retry;
	readonly ownRetryOf: (destination: string) => OwnRetry | Promise<OwnRetry>;
	/** Reads the shortest lifetime that a workspace or destination sets, in milliseconds; `null` if none does. */
	readonly readShortestLifetime: () => Promise<number | null>;
	/**
	 * Reads a page of the oldest recipients in the queue: ids after `after`, accepted before `before` (milliseconds).
	 */
	readonly readAged: (page: Parameters<typeof readAged>[1]) => ReturnType<typeof readAged>;
	/** Reads the ids of recipients whose send has expired, held or not. */
	readonly readExpired: (limit: number) => Promise<readonly string[]>;
	readonly clock: Clock;
	readonly observer: Pick<QueueObserver, 'storeFailed'>;
};

const [restMs, maxRestMs] = [1000, 60_000];
/** How many times its own duration a pass rests afterwards. The store is mainly there for mail. */
const restShare = 10;
const recipientsPerPage = 1000;
const recipientsPerEnd = 100;

/**
 * Ends waiting recipients: those past their lifetime unless an operator holds them, and those whose send has expired in
 * any case. One that is being attempted ends with its attempt.
 */
class Expiry {
	readonly #options: ExpiryOptions;
	readonly #claims: Pick<QueueClaims, 'isFailing'>;
	readonly #end: (ids: readonly string[]) => Promise<number>;
	readonly #timers = new Map<() => Promise<void>, NodeJS.Timeout>();
	readonly #passes = new Map<() => Promise<void>, Promise<void>>();
	#isStopped = false;

	/** `end` ends recipients past their lifetime, except those being attempted, and returns how many. */
	constructor(
		options: ExpiryOptions,
		claims: Pick<QueueClaims, 'isFailing'>,
		end: (ids: readonly string[]) => Promise<number>,
	) {
		this.#options = options;
		this.#claims = claims;
		this.#end = end;
	}

	start(): void {
		this.#repeat(() => this.#endAged(), restShare);
		this.#repeat(() => this.#endExpired());
	}

	/** Resolves when the current passes are over. */
	async stop(): Promise<void> {
		this.#isStopped = true;
		for (const timer of this.#timers.values()) {
			clearTimeout(timer);
		}
		await Promise.all(this.#passes.values());
	}

	/** Runs the pass repeatedly. After each one it rests for `share` times the duration of the pass. */
	#repeat(pass: () => Promise<void>, share = 0, afterMs = restMs): void {
		const {clock, observer} = this.#options;
		const run = async () => {
			const startedAt = clock.monotonic();
			await pass().catch(observer.storeFailed);
			if (!this.#isStopped) {
				const elapsedMs = clock.monotonic() - startedAt;
				this.#repeat(pass, share, Math.min(Math.max(restMs, elapsedMs * share), maxRestMs));
			}
		};
		this.#timers.set(
			pass,
			setTimeout(() => this.#passes.set(pass, run()), afterMs),
		);
	}

	async #endExpired(): Promise<void> {
		for (
			let ended = recipientsPerEnd;
			ended === recipientsPerEnd && !this.#isStopped && !this.#claims.isFailing;
		) {
			const ids = await this.#options.readExpired(recipientsPerEnd);
			ended = ids.length === 0 ? 0 : await this.#end(ids);
		}
	}

	async #endAged(): Promise<void> {
		const {retry, readShortestLifetime, readAged, clock} = this.#options;
		const now = clock.now();
		const {lifetime} = retry();
		const before = now - Math.min(lifetime, (await readShortestLifetime()) ?? lifetime);
		for (let after = ''; !this.#isStopped && !this.#claims.isFailing; ) {
			const page = await readAged({after, before, limit: recipientsPerPage});
			const endTimes = await Promise.all(page.map(recipient => this.#endOf(recipient)));
			const ended = page.filter(({isDeliverable}, index) => isDeliverable && now >= (endTimes[index] as number));
			for (let from = 0; from < ended.length; from += recipientsPerEnd) {
				await this.#end(ended.slice(from, from + recipientsPerEnd).map(({id}) => id));
			}
			const last = page.at(-1);
			if (last === undefined || page.length < recipientsPerPage) {
				break;
			}
			after = last.id;
		}
	}

	async #endOf({
		acceptedAt,
		destination,
		queue_lifetime_s: ownLifetime,
	}: Awaited<ReturnType<typeof readAged>>[number]): Promise<number> {
		const {retry, ownRetryOf} = this.#options;
		return endOfLife(acceptedAt, resolveLifetime(await ownRetryOf(destination), retry().lifetime, ownLifetime));
	}
}
