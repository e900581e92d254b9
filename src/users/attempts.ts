import {LRUCache} from 'lru-cache';
import {atMost} from '../mail/at-most.ts';
import type {Clock} from '../mail/clock.ts';
import {clientNetwork} from '../net/client-network.ts';

const mostFailures = 10;
const windowMs = 15 * 60_000;
const mostKept = 10_000;

/** Failed log-ins of each client address (an IPv6 /64 is one) and of each account, counted in this process. */
export type Attempts = {
	/** Counts an attempt as failed until it succeeds. Answers the seconds to wait where there were too many; null: go on. `account` null: only the address counts. */
	readonly begin: (address: string, account: string | null) => number | null;
	/** The attempt that was begun has not failed. */
	readonly succeeded: (address: string, account: string | null) => void;
};

// Counted at the beginning: many attempts at once would else all pass before the first has failed.
export function createAttempts(clock: Pick<Clock, 'monotonic'>): Attempts {
	const windows = new LRUCache<string, {since: number; n: number}>(atMost(mostKept));
	const keysOf = (address: string, account: string | null) => [
		`from ${clientNetwork(address)}`,
		...(account === null ? [] : [`as ${account}`]),
	];
	return {
		begin(address, account) {
			const now = clock.monotonic();
			const both = keysOf(address, account).map(key => {
				const known = windows.get(key);
				return {key, window: known && now - known.since < windowMs ? known : {since: now, n: 0}};
			});
			const full = both.flatMap(({window: {since, n}}) => (n >= mostFailures ? [since + windowMs - now] : []));
			if (full.length > 0) {
				return Math.ceil(Math.max(...full) / 1000);
			}
			for (const {key, window} of both) {
				window.n++;
				windows.set(key, window);
			}
			return null;
		},
		succeeded(address, account) {
			for (const key of keysOf(address, account)) {
				const window = windows.get(key);
				if (window && window.n > 0) {
					window.n--;
				}
			}
		},
	};
}
