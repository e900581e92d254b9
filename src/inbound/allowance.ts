import {LRUCache} from 'lru-cache';
import type {Clock} from '../mail/clock.ts';

/** Whether one more may come of a key; each that may is counted. */
export type Allowance = (key: string) => boolean;

const mostKeys = 10_000;

/** At most so many of each key, and of all together, in a window of time that begins with the first. */
export function createAllowance({
	each,
	all,
	windowMs,
	clock,
}: {
	readonly each: number;
	readonly all: number;
	readonly windowMs: number;
	readonly clock: Pick<Clock, 'monotonic'>;
}): Allowance {
	const counts = new LRUCache<string, number>({max: mostKeys});
	let [began, total] = [clock.monotonic(), 0];
	return key => {
		if (clock.monotonic() - began >= windowMs) {
			counts.clear();
			[began, total] = [clock.monotonic(), 0];
		}
		const count = counts.get(key) ?? 0;
		if (count >= each || total >= all) {
			return false;
		}
		counts.set(key, count + 1);
		total++;
		return true;
	};
}
