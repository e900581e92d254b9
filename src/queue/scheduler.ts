import type {QueueKey, Route} from '../mail/route.ts';
import {connectionsOf} from '../pace/site.ts';
import type {Claimed} from '../store/queue/claims.ts';
import {type AttemptSteps, attempt} from './attempt.ts';
import type {ClaimPermit} from './claim-permits.ts';
import {type ClaimsOptions, createClaims} from './claims.ts';
import {type ConclusionsOptions, createConclusions, type Tried} from './conclusions.ts';
import {createDestinationQueues, type DestinationQueuesOptions} from './destination-queues.ts';
import {createExpiry, type ExpiryOptions} from './expiry.ts';
import {createFindRoutes} from './find-routes.ts';
import {createShares, type ShareStore} from './node-shares.ts';
import {createNotes, type NotesOptions} from './notes.ts';
import {createScan, type ScanOptions} from './scan.ts';
import {reportSites, type Site, type SiteReport} from './site.ts';

export type SchedulerOptions = Omit<DestinationQueuesOptions, 'longestWait' | 'newLease' | 'onShort'> &
	Pick<NotesOptions, 'noteSites' | 'noteWaits'> &
	ScanOptions &
	ExpiryOptions &
	ClaimsOptions &
	ConclusionsOptions & {
		/** Where a lane's mail goes. A promise is kept in bounded time, and rejects only where something of ours is broken. */
		readonly routeOf: (key: QueueKey) => Route | Promise<Route>;
		/** The way of a lane could not be found; it is tried again. */
		readonly onRouteError: (error: unknown, queue: QueueKey) => void;
		readonly steps: AttemptSteps;
		/** Null: no other node shares the store. */
		readonly shareStore?: ShareStore | null;
		/** The site may have so many connections from now on. */
		readonly allow?: (site: Site, connections: number) => void;
		/** Whether an error says that the store cannot be used now. */
		readonly isUnavailable: (error: unknown) => boolean;
	};

/** How exactly what waits comes due, milliseconds. */
const tickMs = 100;
/** How often it is written down what waits for what, milliseconds. */
const noteMs = 1000;

/**
 * The queue's heart: claims what each site may start now, sends every claimed copy through its steps, records what came
 * of it. Claims end by result, never by time. If an outcome cannot be written it is kept and nothing is claimed meanwhile,
 * for what was sent must not be sent again.
 */
export function createScheduler(options: SchedulerOptions) {
	const {clock} = options;
	const moment = () => ({now: clock.now(), monotonic: clock.monotonic()});
	const longestWait = () => Math.max(...options.retry().schedule.waits);
	const shares = options.shareStore
		? createShares({
				store: options.shareStore,
				sites: () => queues.sites(),
				regrade(site, how) {
					queues.regrade(site, how, moment());
					allow(site);
					plan();
				},
				leave: site => queues.leave(site),
				moment,
				longestWait,
				onError: options.onStoreError,
			})
		: null;
	const queues = createDestinationQueues({
		...options,
		...(shares ? {newShare: shares.newShare, onShort: shares.short} : {}),
		longestWait,
		onSite(site, changes) {
			allow(site);
			shares?.changed(site, changes);
			if (site.saved || changes.some(change => change !== 'grew')) {
				notes.changed(site);
			}
			options.onSite(site, changes);
		},
	});
	const isAlone = () => shares?.isAlone ?? true;
	const notes = createNotes({...options, waiting: queues.waiting, moment, isAlone});
	const findRoutes = createFindRoutes({
		routeOf: options.routeOf,
		next: queues.nextToFind,
		onFound(queue, route) {
			queues.placed(queue, route, moment());
			plan();
		},
		onFailed(queue) {
			queues.unfound(queue);
			plan();
		},
		onError: options.onRouteError,
	});
	const claims = createClaims(options);
	const {conclude, faulty, unsent, untried, endOf} = createConclusions({...options, now: options.steps.now});
	const scan = createScan({...options, queues, moment, isRunning: () => state === 'running', onScanned: plan});
	const expiry = createExpiry({...options, canStore: () => !claims.failing, end: endUntried});
	const running = new Set<Promise<void>>();
	let state: 'idle' | 'running' | 'stopping' = 'idle';
	let timer: NodeJS.Timeout | undefined;
	let noteTimer: NodeJS.Timeout | undefined;
	let shareTimer: NodeJS.Timeout | undefined;
	let turnPlanned = false;

	function plan(): void {
		if (!turnPlanned) {
			turnPlanned = true;
			setImmediate(turn);
		}
	}

	function allow(site: Site): void {
		options.allow?.(site, connectionsOf(site.state, clock.monotonic()));
	}

	function tick(): void {
		shares?.advance();
		queues.advance(moment());
		plan();
	}

	function turn(): void {
		turnPlanned = false;
		go();
	}

	function go(): void {
		if (state !== 'running' || claims.failing) {
			return;
		}
		if (claims.isDoubtful) {
			track(releaseUnknown());
		}
		findRoutes.fill();
		for (const permit of queues.permits(moment())) {
			track(claim(permit));
		}
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
		const {end, ...recorded} = conclude(permit, recipient, await tryRecipient(permit, recipient));
		await claims.record(recorded);
		options.steps.recorded(recipient);
		const then = moment();
		const {nextAttemptAt} = recorded.verdict;
		if (nextAttemptAt !== null && state === 'running') {
			queues.due(permit.queue, nextAttemptAt, then);
		}
		queues.done(permit, end, then);
		plan();
	}

	/**
	 * A fault of ours must not take the copy with it: it is given back, and after the second time it is errored. That the
	 * store could not be read is no fault of the copy.
	 */
	async function tryRecipient(permit: ClaimPermit, recipient: Claimed): Promise<Tried> {
		try {
			const endsAt = endOf(recipient);
			const bounds = {
				termsNow: () => queues.travelTerms(permit, moment()),
				endsAt,
				isOver: () => clock.now() >= endsAt,
			};
			return {...(await attempt(recipient, bounds, options.steps)), crashes: recipient.crashes};
		} catch (error) {
			const unavailable = options.isUnavailable(error);
			if (unavailable) {
				options.onStoreError(error);
			}
			return unavailable
				? {...unsent(recipient, {kind: 'released'}), made: null, crashes: recipient.crashes}
				: faulty(recipient, error);
		}
	}

	/** Copies past their lifetime leave the queue without a try. */
	async function endUntried(ids: readonly string[]): Promise<void> {
		const recipients = await claims.claimAged(ids);
		await Promise.all(
			recipients.map(async recipient => {
				const ended = untried(recipient);
				await claims.record(ended);
				const {nextAttemptAt} = ended.verdict;
				if (nextAttemptAt !== null) {
					const {destination, workspace_id: workspaceId} = recipient;
					queues.due({destination, workspaceId}, nextAttemptAt, moment());
				}
			}),
		);
	}

	/** None rejects but for a bug in this folder, after which nobody knows what a lane holds: then the process ends (unhandledRejection). */
	function track(promise: Promise<void>): void {
		running.add(promise);
		promise.then(() => running.delete(promise));
	}

	return {
		/** Reads what is waiting in the store and begins. */
		async start(): Promise<void> {
			state = 'running';
			timer = setInterval(tick, tickMs);
			noteTimer = setInterval(() => track(notes.write().catch(options.onStoreError)), noteMs);
			shareTimer = shares ? setInterval(shares.renew, noteMs) : undefined;
			await shares?.renew();
			await scan.scan();
			expiry.start();
		},

		/**
		 * Mail for these lanes was handed to the writer, which takes turns: a claim that follows finds it. Where its site has room the
		 * claim follows at once, and shares the transaction.
		 */
		arriving(keys: Iterable<QueueKey>): void {
			const now = moment();
			for (const key of keys) {
				queues.arrived(key, now);
			}
			go();
		},

		/** Whether mail of the lane has to wait here, so that another node may take it. */
		isWaiting: queues.isWaiting,

		/** These lanes have work that is due, it may be of another node. */
		noticed(keys: Iterable<QueueKey>): void {
			const now = moment();
			for (const key of keys) {
				queues.noticed(key, now);
			}
			plan();
		},

		/** Something else changed the queue (the CLI, another node): looks at the store again, until it can be read. */
		rescan: scan.rescan,

		/** Ways may lead elsewhere from now on. */
		renew(): void {
			findRoutes.renew();
			queues.renew(moment());
			plan();
		},

		/** Claims nothing more; resolves when every claimed copy is recorded. */
		async stop(): Promise<void> {
			state = 'stopping';
			clearInterval(timer);
			clearInterval(noteTimer);
			await expiry.stop();
			while (running.size > 0) {
				await Promise.all(running);
			}
			clearInterval(shareTimer);
			await shares?.settled();
			await notes.write().catch(options.onStoreError);
		},

		/** Copies claimed and not yet done. */
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
