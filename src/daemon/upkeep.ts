import type {Logger} from 'pino';
import {type Clock, noticeableSkewMs} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {longestWaitOf} from '../pace/destinations.ts';
import {readGeneration} from '../store/changes.ts';
import {takeTime} from '../store/engine/dialect.ts';
import {bringForward, waitingRecipients} from '../store/held-claims.ts';
import type {Store} from '../store/store.ts';
import {waitingDeliveries} from '../store/webhook-queue.ts';
import {actingOf, type Context} from './context.ts';
import {createThrottle} from './observer.ts';
import {
	auditTask,
	dayTask,
	fileTask,
	inboundTask,
	keyTask,
	listenerTask,
	messageTask,
	paceTask,
	reputationTask,
	startSweep,
	tlsTask,
	userTask,
} from './sweep.ts';

type Upkeep = {
	/** The interval of the sweep has changed. */
	readonly reschedule: () => void;
	/** Resolves when nothing is being removed any more. */
	readonly stop: () => Promise<void>;
};

/** What goes on beside the mail: changes of others and steps of the clock are noticed, what is old is swept away. */
export function startUpkeep(
	context: Context,
	{
		since,
		changed,
		moved,
		removeCapturedOf,
	}: {
		/** The store's change generation before anything was cached or queued. */
		readonly since: number;
		/** Another process changed cached or queued data. */
		readonly changed: () => void;
		/** Waiting mail is due sooner than it was. */
		readonly moved: () => void;
		/** Removes the captured mails of recipients that were made in a range of time, milliseconds. */
		readonly removeCapturedOf: (from: number, to: number) => Promise<void>;
	},
): Upkeep {
	const {live, store, clock, removeCaptured, observer} = context;
	const {storeFailed, logger} = observer;
	const changes = watchChanges({since, read: () => readGeneration(store.reader), changed, failed: storeFailed});
	const clockSteps = setInterval(moveAfterStep, watchMs);
	const clockSkew = watchClockSkew(store, clock, logger);
	const stepOf = createClockWatch(clock);
	const days = () => live().retentionDays;
	const sweep = startSweep({
		tasks: [
			dayTask({store, clock}),
			messageTask({store, clock, days, removeCaptured, removeCapturedOf}),
			auditTask({store, clock, days}),
			keyTask({store, clock, retention: () => live().idempotencyRetention}),
			tlsTask({store, clock}),
			paceTask({store, clock}),
			inboundTask({store, clock}),
			reputationTask({store, clock}),
			userTask({store, clock}),
			listenerTask({store, acting: actingOf(context)}),
			// Last: it gives back what the others freed.
			fileTask({store}),
		],
		intervalMs: () => live().sweepInterval,
		clock,
		failed(error, task) {
			logger.error({event: 'sweep_failed', task, err: error});
			storeFailed(error);
		},
	});

	/** A clock that is set back must not make anything wait longer than its longest wait. */
	async function moveForward(): Promise<void> {
		const now = clock.now();
		const longestWait = longestWaitOf(context.destinations(), live().retrySchedule);
		await store.writer.transaction(async trx => {
			await takeTime(trx);
			await bringForward(waitingRecipients(trx), storeTime(now + longestWait), storeTime(now));
			await bringForward(waitingDeliveries(trx), storeTime(now + context.settings.webhookBackoff), storeTime(now));
		});
		moved();
	}

	function moveAfterStep(): void {
		if (stepOf() > 0) {
			void moveForward().catch(storeFailed);
		}
	}

	return {
		reschedule: sweep.reschedule,
		async stop() {
			clearInterval(clockSteps);
			clearInterval(clockSkew);
			changes.stop();
			await sweep.stop();
		},
	};
}

const periodMs = 500;

/** Notices within half a second what the CLI or another node changed. */
export function watchChanges({
	since,
	read,
	changed,
	failed,
}: {
	readonly since: number;
	/** The store's change generation. */
	readonly read: () => Promise<number>;
	readonly changed: () => void;
	readonly failed: (error: unknown) => void;
}): {readonly stop: () => void} {
	let known = since;
	let asking = false;

	async function look(): Promise<void> {
		if (asking) {
			return;
		}
		asking = true;
		try {
			const generation = await read();
			if (generation !== known) {
				changed();
			}
			known = generation;
		} catch (error) {
			failed(error);
		} finally {
			asking = false;
		}
	}

	void look();
	const timer = setInterval(() => void look(), periodMs);
	return {stop: () => clearInterval(timer)};
}

const watchMs = 1000;
/** Smaller steps of the wall clock are ignored, milliseconds. */
const tolerance = 60_000;

/**
 * Compares the wall clock with the monotonic one. Called about once a second; answers by how many milliseconds the wall
 * clock stepped back since the last call, 0 if it did not.
 */
export function createClockWatch(clock: Clock): () => number {
	let offset = clock.now() - clock.monotonic();
	return () => {
		const before = offset;
		offset = clock.now() - clock.monotonic();
		return before - offset > tolerance ? before - offset : 0;
	};
}

const lookMs = 60_000;
const tellMs = 60 * 60_000;

/** Warns that this machine's clock is not the database's. Mail goes by the database's; the log and TLS do not. */
function watchClockSkew(store: Pick<Store, 'skew'>, clock: Pick<Clock, 'monotonic'>, logger: Logger): NodeJS.Timeout {
	const mayLog = createThrottle(tellMs, clock);
	function look(): void {
		const skew = store.skew();
		if (Math.abs(skew) > noticeableSkewMs && mayLog('')) {
			const text = 'The clock of this machine differs from the clock of the database: keep both by NTP.';
			logger.warn({event: 'clock_skew', ahead_seconds: Math.round(skew / 100) / 10}, text);
		}
	}
	look();
	return setInterval(look, lookMs);
}
