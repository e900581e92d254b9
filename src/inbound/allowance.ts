import {LRUCache} from 'lru-cache';
import {atMost} from '../mail/at-most.ts';
import type {Clock} from '../mail/clock.ts';

export type Amount = {readonly mails: number; readonly bytes: number};

/** What each key, and all keys together, may bring in a window of time. */
export type Allowance = {
	/** Whether a key may bring one more mail of this size. */
	readonly has: (key: string, bytes: number) => boolean;
	/** Takes one mail, whose bytes follow; null: no mail is left, and nothing was taken. */
	readonly take: (key: string) => Share | null;
};

/** What one mail takes while it comes in. */
export type Share = {
	/** False: so many bytes are not left. */
	readonly add: (bytes: number) => boolean;
	/** The mail does not count after all; may be called again. */
	readonly giveBack: () => void;
};

/** Beyond so many the key that was used least recently starts over; the limit of all keys together holds for it as before. */
const mostKeys = 10_000;

type Used = {mails: number; bytes: number};

/** The window begins with the first look after the one before is over. */
export function createAllowance({
	each,
	all,
	windowMs,
	clock,
}: {
	readonly each: Amount;
	readonly all: Amount;
	readonly windowMs: number;
	readonly clock: Pick<Clock, 'monotonic'>;
}): Allowance {
	let window = begin();

	function begin() {
		return {began: clock.monotonic(), all: nothing(), each: new LRUCache<string, Used>(atMost(mostKeys))};
	}

	function usedBy(key: string): Used {
		if (clock.monotonic() - window.began >= windowMs) {
			window = begin();
		}
		let used = window.each.get(key);
		if (!used) {
			used = nothing();
			window.each.set(key, used);
		}
		return used;
	}

	return {
		has: (key, bytes) => fits(usedBy(key), 1, bytes, each) && fits(window.all, 1, bytes, all),
		take(key) {
			// A share that outlives its window changes figures that nobody asks any more.
			const own = usedBy(key);
			const total = window.all;
			if (!fits(own, 1, 1, each) || !fits(total, 1, 1, all)) {
				return null;
			}
			let taken: Amount = {mails: 0, bytes: 0};
			const count = (mails: number, bytes: number) => {
				for (const used of [own, total]) {
					used.mails += mails;
					used.bytes += bytes;
				}
				taken = {mails: taken.mails + mails, bytes: taken.bytes + bytes};
			};
			count(1, 0);
			return {
				add(bytes) {
					const isLeft = fits(own, 0, bytes, each) && fits(total, 0, bytes, all);
					if (isLeft) {
						count(0, bytes);
					}
					return isLeft;
				},
				giveBack: () => count(-taken.mails, -taken.bytes),
			};
		},
	};
}

function nothing(): Used {
	return {mails: 0, bytes: 0};
}

function fits(used: Used, mails: number, bytes: number, limit: Amount): boolean {
	return used.mails + mails <= limit.mails && used.bytes + bytes <= limit.bytes;
}
