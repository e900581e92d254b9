import {LRUCache} from 'lru-cache';
import type {Clock} from '../mail/clock.ts';

const mostKept = 200;

/** How long an answer is good, milliseconds. Whoever is told to look again is told no sooner. */
export const sharedMs = 1000;

/**
 * What many open pages ask for at the same moment is read once. `name` must tell apart all that the answer depends on, the
 * workspace first of all.
 */
export function createShared(clock: Pick<Clock, 'monotonic'>) {
	const kept = new LRUCache<string, {readonly at: number; readonly answer: Promise<unknown>}>({max: mostKept});
	return <Result>(name: string, read: () => Promise<Result>): Promise<Result> => {
		const now = clock.monotonic();
		const known = kept.get(name);
		if (known && now - known.at < sharedMs) {
			return known.answer as Promise<Result>;
		}
		const answer = read();
		kept.set(name, {at: now, answer});
		// A failure is nobody's answer but of those who wait for it now.
		answer.catch(() => kept.delete(name));
		return answer;
	};
}
