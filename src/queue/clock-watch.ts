import type {Clock} from '../mail/clock.ts';

/** A step of the wall clock of more than this is one that matters, milliseconds. */
const tolerance = 60_000;

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
