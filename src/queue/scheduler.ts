import {claimMarginMs} from '../mail/retry.ts';
import {storeTime} from '../mail/time.ts';
import type {LaneKey, Way} from '../mail/way.ts';
import type {Recorded} from '../outcome/record.ts';
import type {Claim, Claimed, ClaimedNow} from '../store/claims.ts';
import type {GroupWrite, Writer} from '../store/writer.ts';
import {type AttemptSteps, attempt} from './attempt.ts';
import {type ConclusionsOptions, createConclusions, type Tried} from './conclusions.ts';
import {createFindWays} from './find-ways.ts';
import type {Grant} from './grant.ts';
import {createLanes, type LanesOptions} from './lanes.ts';
import {createNotes, type NotesOptions} from './notes.ts';
import {reportSites, type SiteReport} from './site-report.ts';

export type SchedulerOptions = ConclusionsOptions & {
	readonly writer: Writer;
	readonly claimWrite: GroupWrite<Claim, ClaimedNow>;
	readonly recordWrite: GroupWrite<Recorded, boolean>;
	/** Gives back claims of this daemon other than those of the copies it knows; answers their lanes. */
	readonly releaseUnknown: (known: () => readonly string[]) => Promise<readonly LaneKey[]>;
	/** Every lane with work and when it is due, in the store's form. */
	readonly readLanes: () => Promise<ReadonlyArray<LaneKey & {readonly due: string}>>;
	/** Destinations that an operator lets nothing go to. */
	readonly readSuspensions: () => Promise<readonly string[]>;
	/** When an operator resumed sites that were left alone, by their names. */
	readonly readResumed: () => Promise<ReadonlyMap<string, string>>;
	/** Where a lane's mail goes. It answers in bounded time, and rejects only where something of ours is broken. */
	readonly wayOf: (key: LaneKey) => Promise<Way>;
	readonly steps: AttemptSteps;
	/** Past this a claim without a result comes due again by itself. */
	readonly attemptDeadlineMs: number;
	readonly maxInFlight: number;
	/** Those of them for sites of which it is not known that they answer. */
	readonly maxUnproven: number;
	readonly remembered: LanesOptions['remembered'];
	readonly onSite: LanesOptions['onSite'];
	readonly noteSites: NotesOptions['noteSites'];
	readonly noteWaits: NotesOptions['noteWaits'];
	/** After an outcome is on stable storage. */
	readonly onRecorded: (recorded: Recorded) => void;
	/** Its outcome was let go: somebody had taken the copy from us meanwhile. */
	readonly onLost: (copy: Claimed) => void;
	/** Whether an error says that the store cannot be used now. */
	readonly isUnavailable: (error: unknown) => boolean;
	/** The way of a lane could not be found; it is tried again. */
	readonly onWayError: (error: unknown, lane: LaneKey) => void;
	/** The store could not be read or written; it is tried again. */
	readonly onStoreError: (error: unknown) => void;
};

/** How long the scheduler waits before it asks a failing store again, milliseconds. */
const storeRetryMs = 1000;
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
	const {writer, clock} = options;
	const moment = () => ({now: clock.now(), monotonic: clock.monotonic()});
	const lanes = createLanes({
		...options,
		longestWait: () => Math.max(...options.retry().schedule.waits),
		onSite(site, changes) {
			if (site.saved || changes.some(change => change !== 'grew')) {
				notes.changed(site);
			}
			options.onSite(site, changes);
		},
	});
	const notes = createNotes({...options, waiting: lanes.waiting, moment});
	const findWays = createFindWays({
		wayOf: options.wayOf,
		next: lanes.nextToFind,
		onFound(lane, way) {
			lanes.placed(lane, way, moment());
			plan();
		},
		onFailed(lane) {
			lanes.unfound(lane);
			plan();
		},
		onError: options.onWayError,
	});
	const {conclude, faulty, unsent} = createConclusions({...options, now: options.steps.now});
	const running = new Set<Promise<void>>();
	/** Ids of the copies being tried: another node may give one back that comes to us again. */
	const trying = new Set<string>();
	let state: 'idle' | 'running' | 'stopping' = 'idle';
	/** Outcomes that could not be written yet. */
	let unwritten = 0;
	/** As it was at the last look at the store. */
	let knownResumed: ReadonlyMap<string, string> | null = null;
	/** A claim failed: it may have been committed all the same. */
	let doubtful = false;
	let timer: NodeJS.Timeout | undefined;
	let noteTimer: NodeJS.Timeout | undefined;
	let turnPlanned = false;
	/** The look at the store that is under way, and whether something changed since it began. */
	let scanning: Promise<void> | null = null;
	let scanAgain = false;

	function plan(): void {
		if (!turnPlanned) {
			turnPlanned = true;
			setImmediate(turn);
		}
	}

	function tick(): void {
		lanes.advance(moment());
		plan();
	}

	function turn(): void {
		turnPlanned = false;
		if (state !== 'running' || unwritten > 0) {
			return;
		}
		if (doubtful) {
			doubtful = false;
			track(releaseUnknown());
		}
		findWays();
		for (const grant of lanes.grants(moment())) {
			track(claim(grant));
		}
	}

	/** The store takes turns: by then all that was claimed before is known. */
	async function releaseUnknown(): Promise<void> {
		try {
			for (const lane of await options.releaseUnknown(() => [...trying])) {
				const now = moment();
				lanes.due(lane, now.now, now);
			}
			plan();
		} catch (error) {
			options.onStoreError(error);
			await new Promise(resolve => setTimeout(resolve, storeRetryMs));
			doubtful = true;
		}
	}

	async function claim(grant: Grant): Promise<void> {
		const {lane, limit, asksNext, newestFirst, warmUp} = grant;
		const now = clock.now();
		let copies: readonly Claimed[] = [];
		let nextDue: number | null = null;
		let warmedUp: number | null = null;
		try {
			const claimed = await writer.submit(options.claimWrite, {
				destination: lane.destination,
				workspaceId: lane.workspaceId,
				limit,
				newestFirst,
				now: storeTime(now),
				until: storeTime(now + options.attemptDeadlineMs + claimMarginMs),
				asksNext,
				warmUp,
			});
			copies = claimed.copies;
			warmedUp = claimed.warmedUp;
			nextDue = claimed.nextDue === null ? null : Date.parse(claimed.nextDue);
		} catch (error) {
			options.onStoreError(error);
			nextDue = now + storeRetryMs;
			doubtful = true;
		}
		const fresh = copies.filter(({id}) => !trying.has(id));
		const brought = {count: fresh.length, nextDue: fresh.length < copies.length ? now : nextDue, warmedUp};
		lanes.claimed(grant, brought, moment());
		for (const copy of fresh) {
			track(work(grant, copy));
		}
		plan();
	}

	async function work(grant: Grant, copy: Claimed): Promise<void> {
		trying.add(copy.id);
		const {end, ...recorded} = conclude(grant, copy, await tryCopy(grant, copy));
		await record(recorded);
		trying.delete(copy.id);
		options.steps.settled(copy);
		const then = moment();
		const {nextAttemptAt} = recorded.verdict;
		if (nextAttemptAt !== null && state === 'running') {
			lanes.due(grant.lane, nextAttemptAt, then);
		}
		lanes.settled(grant, end, then);
		plan();
	}

	/**
	 * A fault of ours must not take the copy with it: it is given back, and after the second time it is errored. That the
	 * store could not be read is no fault of the copy.
	 */
	async function tryCopy(grant: Grant, copy: Claimed): Promise<Tried> {
		try {
			const lend = () => lanes.lend(grant, moment());
			return {...(await attempt(copy, lend, options.steps)), crashes: copy.crashes};
		} catch (error) {
			const unavailable = options.isUnavailable(error);
			if (unavailable) {
				options.onStoreError(error);
			}
			return unavailable
				? {...unsent(copy, {kind: 'released'}), made: null, crashes: copy.crashes}
				: faulty(copy, error);
		}
	}

	async function record(recorded: Recorded): Promise<void> {
		for (let failed = false; ; failed = true) {
			try {
				if (await writer.submit(options.recordWrite, recorded)) {
					options.onRecorded(recorded);
				} else {
					options.onLost(recorded.copy);
				}
				unwritten -= failed ? 1 : 0;
				return;
			} catch (error) {
				unwritten += failed ? 0 : 1;
				options.onStoreError(error);
				await new Promise(resolve => setTimeout(resolve, storeRetryMs));
			}
		}
	}

	function track(promise: Promise<void>): void {
		running.add(promise);
		void promise.finally(() => running.delete(promise));
	}

	async function scan(): Promise<void> {
		const [suspended, resumed, found] = await Promise.all([
			options.readSuspensions(),
			options.readResumed(),
			options.readLanes(),
		]);
		const now = moment();
		lanes.suspend(new Set(suspended), now);
		const before = knownResumed ?? resumed; // What was resumed before the start may be suspended again.
		lanes.probe(
			[...resumed].filter(([site, at]) => before.get(site) !== at).map(([site]) => site),
			now,
		);
		knownResumed = resumed;
		for (const {due, ...lane} of found) {
			lanes.found(lane, Date.parse(due), now);
		}
		plan();
	}

	/** One look after the other: what was read before must not replace what was read later. */
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

	/** Nobody tells of a change twice. */
	async function rescan(): Promise<void> {
		try {
			await (state === 'running' && scanInTurn());
		} catch (error) {
			options.onStoreError(error);
			setTimeout(rescan, storeRetryMs).unref();
		}
	}

	return {
		/** Reads what is waiting in the store and begins. */
		async start(): Promise<void> {
			state = 'running';
			timer = setInterval(tick, tickMs);
			noteTimer = setInterval(() => track(notes.write().catch(options.onStoreError)), noteMs);
			await scanInTurn();
		},

		/** Mail for these lanes was accepted and committed: it is due now. */
		accepted(keys: Iterable<LaneKey>): void {
			const now = moment();
			for (const key of keys) {
				lanes.arrived(key, now);
			}
			plan();
		},

		/** These lanes have work that is due, it may be of another node. */
		noticed(keys: Iterable<LaneKey>): void {
			const now = moment();
			for (const key of keys) {
				lanes.noticed(key, now);
			}
			plan();
		},

		/** Something else changed the queue (the CLI, another node): looks at the store again, until it can be read. */
		rescan,

		/** Ways may lead elsewhere from now on. */
		renew(): void {
			lanes.renew(moment());
			plan();
		},

		/** Claims nothing more; resolves when every claimed copy is settled. */
		async stop(): Promise<void> {
			state = 'stopping';
			clearInterval(timer);
			clearInterval(noteTimer);
			while (running.size > 0) {
				await Promise.all(running);
			}
			await notes.write().catch(options.onStoreError);
		},

		/** Copies claimed and not yet settled. */
		get inFlight(): number {
			return lanes.inFlight;
		},

		/** How every site is doing that has work, or had some lately. */
		sites: (): SiteReport[] => reportSites(lanes.sites(), moment()),

		/** Whether an outcome waits for the store: then nothing new should be accepted either. */
		get storeFailing(): boolean {
			return unwritten > 0;
		},
	};
}

export type Scheduler = ReturnType<typeof createScheduler>;
