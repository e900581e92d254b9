import type {Logger} from 'pino';
import type {Settings} from '../config/settings.ts';
import type {Clock} from '../mail/clock.ts';
import {readGeneration} from '../store/changes.ts';
import type {Store} from '../store/store.ts';
import {watchChanges} from './changes-watch.ts';
import {watchClockSkew} from './clock-skew.ts';
import {watchClockSteps} from './clock-steps.ts';
import type {LiveSettings} from './live-settings.ts';
import {startSweep} from './sweep.ts';
import {
	auditTask,
	fileTask,
	inboundTask,
	keyTask,
	messageTask,
	paceTask,
	reputationTask,
	tlsTask,
} from './sweep-tasks.ts';

export type UpkeepOptions = {
	readonly settings: Pick<Settings, 'webhookBackoff'>;
	/** The settings as they are now. */
	readonly live: () => LiveSettings;
	readonly store: Store;
	readonly clock: Clock;
	/** The store's change generation before anything was read that is cached or queued. */
	readonly since: number;
	/** Somebody else changed something that is cached or queued. */
	readonly onChange: () => void;
	/** What was due later is due sooner now. */
	readonly onMoved: () => void;
	/** Removes the captured mails of copies. */
	readonly uncapture: (copyIds: readonly string[]) => Promise<void>;
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
	const {live, store, clock, uncapture, onStoreError} = options;
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
			messageTask({store, clock, days: () => live().retentionDays, removeCaptured: uncapture}),
			auditTask({store, clock, days: () => live().retentionDays}),
			keyTask({store, clock, retention: () => live().idempotencyRetention}),
			tlsTask({store, clock}),
			paceTask({store, clock}),
			inboundTask({store, clock}),
			reputationTask({store, clock}),
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
