import type {Clock} from '../mail/clock.ts';
import {storeTime} from '../mail/time.ts';
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
