import type {Clock} from '../mail/clock.ts';

const periodMs = 1000;
/** The store spends at most this part of its time on the question. */
const share = 0.1;

export type ArrivalsOptions<Due> = {
	/** What has work that may be claimed now. */
	readonly readDue: () => Promise<Due[]>;
	readonly onDue: (due: Due[]) => void;
	readonly onError: (error: unknown) => void;
	readonly clock: Clock;
};

/**
 * Where several nodes share a store, mail that another node accepted, or left behind, comes due unannounced: the store is
 * asked every second, less often if a long queue makes the answer slow.
 */
export function watchArrivals<Due>({readDue, onDue, onError, clock}: ArrivalsOptions<Due>): {stop: () => void} {
	let stopped = false;
	let timer = setTimeout(look, periodMs);

	async function look(): Promise<void> {
		const began = clock.monotonic();
		try {
			onDue(await readDue());
		} catch (error) {
			onError(error);
		}
		if (!stopped) {
			timer = setTimeout(look, Math.max(periodMs, (clock.monotonic() - began) / share));
		}
	}

	return {
		stop() {
			stopped = true;
			clearTimeout(timer);
		},
	};
}
