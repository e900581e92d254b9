import type {Logger} from 'pino';
import type {LiveSettings, Settings} from '../config/settings.ts';
import {type Clock, noticeableSkewMs} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import type {Acting} from '../mail/operator.ts';
import {readGeneration} from '../store/changes.ts';
import {takeTime} from '../store/engine/dialect.ts';
import {bringForward, waitingRecipients} from '../store/held-claims.ts';
import type {Store} from '../store/store.ts';
import {waitingDeliveries} from '../store/webhook-queue.ts';
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
import {createThrottle} from './throttle.ts';

export type UpkeepOptions = {
	readonly settings: Pick<Settings, 'webhookBackoff'>;
	/** The settings as they are now. */
	readonly live: () => LiveSettings;
	readonly store: Store;
	readonly clock: Clock;
	/** As whom the daemon does what the audit trail has. */
	readonly acting: Acting;
	/** The store's change generation before anything was read that is cached or queued. */
	readonly since: number;
	/** Somebody else changed something that is cached or queued. */
	readonly onChange: () => void;
	/** What was due later is due sooner now. */
	readonly onMoved: () => void;
	/** Removes the captured mails of copies. */
	readonly uncapture: (recipientIds: readonly string[]) => Promise<void>;
	/** Removes those of copies made in a range of time, milliseconds. */
	readonly uncaptureOf: (from: number, to: number) => Promise<void>;
	readonly onStoreError: (error: unknown) => void;
	readonly logger: Logger;
};

export type Upkeep = {
	/** The interval of the sweep has changed. */
	readonly reschedule: () => void;
	/** Resolves when nothing is being removed any more. */
	readonly stop: () => Promise<void>;
};

/** What goes on beside the mail: changes of others and steps of the clock are noticed, what is old is swept away. */
export function startUpkeep(options: UpkeepOptions): Upkeep {
	const {live, store, clock, uncapture, uncaptureOf, onStoreError} = options;
	const changes = watchChanges({
		since: options.since,
		read: () => readGeneration(store.reader),
		onChange: options.onChange,
		onError: onStoreError,
	});
	const clockSteps = watchClockSteps({
		store,
		clock,
		longestWait: () => Math.max(...live().retrySchedule.waits),
		longestPost: options.settings.webhookBackoff,
		onMoved: options.onMoved,
		onError: onStoreError,
	});
	const clockSkew = watchClockSkew(options);
	const sweep = startSweep({
		tasks: [
			dayTask({store, clock}),
			messageTask({
				store,
				clock,
				days: () => live().retentionDays,
				removeCaptured: uncapture,
				removeCapturedOf: uncaptureOf,
			}),
			auditTask({store, clock, days: () => live().retentionDays}),
			keyTask({store, clock, retention: () => live().idempotencyRetention}),
			tlsTask({store, clock}),
			paceTask({store, clock}),
			inboundTask({store, clock}),
			reputationTask({store, clock}),
			userTask({store, clock}),
			listenerTask({store, acting: options.acting}),
			// Last: it gives back what the others freed.
			fileTask({store}),
		],
		intervalMs: () => live().sweepInterval,
		clock,
		onError(error, task) {
			options.logger.error({event: 'sweep_failed', task, err: error});
			onStoreError(error);
		},
	});
	return {
		reschedule: sweep.reschedule,
		async stop() {
			clockSteps.stop();
			clockSkew.stop();
			changes.stop();
			await sweep.stop();
		},
	};
}

const periodMs = 500;

export type ChangesWatchOptions = {
	/** The generation before anything was read that is cached or queued. */
	readonly since: number;
	/** The store's change generation. */
	readonly read: () => Promise<number>;
	/** Somebody else changed something that is cached or queued. */
	readonly onChange: () => void;
	readonly onError: (error: unknown) => void;
};

/** Notices within half a second what the CLI or another node changed. */
export function watchChanges({since, read, onChange, onError}: ChangesWatchOptions): {stop: () => void} {
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
				onChange();
			}
			known = generation;
		} catch (error) {
			onError(error);
		} finally {
			asking = false;
		}
	}

	void look();
	const timer = setInterval(() => void look(), periodMs);
	return {stop: () => clearInterval(timer)};
}

export type ClockStepsOptions = {
	readonly store: Pick<Store, 'writer'>;
	readonly clock: Clock;
	/** The longest wait of a mail, and of a webhook, milliseconds. */
	readonly longestWait: () => number;
	readonly longestPost: number;
	/** What was due later is due sooner now. */
	readonly onMoved: () => void;
	readonly onError: (error: unknown) => void;
};

const watchMs = 1000;
/** A step of the wall clock of more than this is one that matters, milliseconds. */
const tolerance = 60_000;

/** Watches for a clock that is set back: nothing may wait longer than the longest wait only because of that. */
export function watchClockSteps(options: ClockStepsOptions): {readonly stop: () => void} {
	const {store, clock} = options;
	const stepOf = createClockWatch(clock);

	async function moveForward(): Promise<void> {
		const now = clock.now();
		await store.writer.transaction(async trx => {
			await takeTime(trx);
			await bringForward(waitingRecipients(trx), storeTime(now + options.longestWait()), storeTime(now));
			await bringForward(waitingDeliveries(trx), storeTime(now + options.longestPost), storeTime(now));
		});
		options.onMoved();
	}

	const timer = setInterval(() => {
		if (stepOf() > 0) {
			void moveForward().catch(options.onError);
		}
	}, watchMs);
	return {stop: () => clearInterval(timer)};
}

/**
 * Compares the wall clock with the monotonic one; asked about once a second. Answers by how many milliseconds the wall
 * clock stepped back since the last question, 0 if it did not.
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

export type ClockSkewOptions = {
	readonly store: Pick<Store, 'skew'>;
	readonly clock: Pick<Clock, 'monotonic'>;
	readonly logger: Logger;
};

/** Warns that this machine's clock is not the database's. Mail goes by the database's; the log and TLS do not. */
export function watchClockSkew({store, clock, logger}: ClockSkewOptions): {readonly stop: () => void} {
	const isTimeToTell = createThrottle(tellMs, clock);
	function look(): void {
		const skew = store.skew();
		if (Math.abs(skew) > noticeableSkewMs && isTimeToTell('')) {
			const text = 'The clock of this machine differs from the clock of the database: keep both by NTP.';
			logger.warn({event: 'clock_skew', ahead_seconds: Math.round(skew / 100) / 10}, text);
		}
	}
	look();
	const timer = setInterval(look, lookMs);
	return {stop: () => clearInterval(timer)};
}
