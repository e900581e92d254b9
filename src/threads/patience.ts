import {LRUCache} from 'lru-cache';
import type {Clock} from '../mail/clock.ts';

/** Failures that took this long count, milliseconds: those that fail at once hold nobody up. */
const slowMs = 100;
const mostFailures = 3;
const restMs = 10_000;
const remembered = 1000;

/** Which template versions have used up a maker's patience: mail of others must not wait for more of theirs. */
export type Patience = {
	/** Whether the version's mails took too long, one after the other, a moment ago. */
	readonly isSpent: (versionId: string) => boolean;
	/** One of its mails was made, or failed, in so many milliseconds. */
	readonly note: (versionId: string, ok: boolean, ms: number) => void;
};

export function createPatience(clock: Clock): Patience {
	const failing = new LRUCache<string, {readonly failures: number; readonly until: number}>({max: remembered});
	return {
		isSpent(versionId) {
			const known = failing.get(versionId);
			return known !== undefined && known.failures >= mostFailures && clock.monotonic() < known.until;
		},
		note(versionId, ok, ms) {
			if (ok || ms < slowMs) {
				failing.delete(versionId);
				return;
			}
			const failures = (failing.get(versionId)?.failures ?? 0) + 1;
			failing.set(versionId, {failures, until: clock.monotonic() + restMs});
		},
	};
}
