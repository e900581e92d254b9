import type {LaneKey, Way} from '../mail/way.ts';
import type {Claimed} from '../store/queue/claims.ts';
import {type AttemptSteps, attempt} from './attempt.ts';
import {type ClaimingOptions, createClaiming} from './claiming.ts';
import {type ConclusionsOptions, createConclusions, type Tried} from './conclusions.ts';
import {createFindWays} from './find-ways.ts';
import type {Grant} from './grant.ts';
import {createLanes, type LanesOptions} from './lanes.ts';
import {createNotes, type NotesOptions} from './notes.ts';
import {createRecording, type RecordingOptions} from './recording.ts';
import {createScan, type ScanOptions} from './scan.ts';
import {reportSites, type SiteReport} from './site-report.ts';

export type SchedulerOptions = Omit<LanesOptions, 'longestWait'> &
	Pick<NotesOptions, 'noteSites' | 'noteWaits'> &
	ScanOptions &
	ClaimingOptions &
	ConclusionsOptions &
	RecordingOptions & {
		/** Where a lane's mail goes. A promise is kept in bounded time, and rejects only where something of ours is broken. */
		readonly wayOf: (key: LaneKey) => Way | Promise<Way>;
		/** The way of a lane could not be found; it is tried again. */
		readonly onWayError: (error: unknown, lane: LaneKey) => void;
		readonly steps: AttemptSteps;
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
	const claiming = createClaiming(options);
	const {conclude, faulty, unsent} = createConclusions({...options, now: options.steps.now});
	const recording = createRecording(options);
	const scan = createScan({...options, lanes, moment, isRunning: () => state === 'running', onScanned: plan});
	const running = new Set<Promise<void>>();
	let state: 'idle' | 'running' | 'stopping' = 'idle';
	let timer: NodeJS.Timeout | undefined;
	let noteTimer: NodeJS.Timeout | undefined;
	let turnPlanned = false;

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
		go();
	}

	function go(): void {
		if (state !== 'running' || recording.failing) {
			return;
		}
		if (claiming.isDoubtful) {
			track(releaseUnknown());
		}
		findWays.fill();
		for (const grant of lanes.grants(moment())) {
			track(claim(grant));
		}
	}

	async function releaseUnknown(): Promise<void> {
		for (const lane of await claiming.releaseUnknown()) {
			const now = moment();
			lanes.due(lane, now.now, now);
		}
		plan();
	}

	async function claim(grant: Grant): Promise<void> {
		const {copies, brought} = await claiming.claim(grant);
		lanes.claimed(grant, brought, moment());
		for (const copy of copies) {
			track(work(grant, copy));
		}
		plan();
	}

	async function work(grant: Grant, copy: Claimed): Promise<void> {
		const {end, ...recorded} = conclude(grant, copy, await tryCopy(grant, copy));
		await recording.record(recorded);
		claiming.settled(copy);
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

	function track(promise: Promise<void>): void {
		running.add(promise);
		void promise.finally(() => running.delete(promise));
	}

	return {
		/** Reads what is waiting in the store and begins. */
		async start(): Promise<void> {
			state = 'running';
			timer = setInterval(tick, tickMs);
			noteTimer = setInterval(() => track(notes.write().catch(options.onStoreError)), noteMs);
			await scan.scan();
		},

		/**
		 * Mail for these lanes was handed to the writer, which takes turns: a claim that follows finds it. Where its site has room the
		 * claim follows at once, and shares the transaction.
		 */
		arriving(keys: Iterable<LaneKey>): void {
			const now = moment();
			for (const key of keys) {
				lanes.arrived(key, now);
			}
			go();
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
		rescan: scan.rescan,

		/** Ways may lead elsewhere from now on. */
		renew(): void {
			findWays.renew();
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
			return recording.failing;
		},
	};
}

export type Scheduler = ReturnType<typeof createScheduler>;
