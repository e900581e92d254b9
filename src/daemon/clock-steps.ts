import type {Clock} from '../mail/clock.ts';
import {storeTime} from '../mail/time.ts';
import {createClockWatch} from '../queue/clock-watch.ts';
import {takeTime} from '../store/engine/dialect.ts';
import {bringForward} from '../store/queue/releases.ts';
import type {Store} from '../store/store.ts';
import {bringDeliveriesForward} from '../store/webhooks/webhook-claims.ts';

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

/** Watches for a clock that is set back: nothing may wait longer than the longest wait only because of that. */
export function watchClockSteps(options: ClockStepsOptions): {readonly stop: () => void} {
	const {store, clock} = options;
	const stepOf = createClockWatch(clock);

	async function moveForward(): Promise<void> {
		const now = clock.now();
		await store.writer.transaction(async trx => {
			await takeTime(trx);
			await bringForward(trx, storeTime(now + options.longestWait()), storeTime(now));
			await bringDeliveriesForward(trx, storeTime(now + options.longestPost), storeTime(now));
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
