import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';

const mostRemembered = 1000;

/** Whether it is time to tell of something again: true at most once in so many milliseconds for each key. */
export function createThrottle(everyMs: number, clock: Pick<Clock, 'monotonic'>): (key: string) => boolean {
	const told = new LRUCache<string, number>({max: mostRemembered});
	return key => {
		const now = clock.monotonic();
		const before = told.peek(key);
		if (before !== undefined && now - before < everyMs) {
			return false;
		}

		told.set(key, now);
		return true;
	};
}
