/** A token bucket that never lets more than `perMinute` through in any minute. */
export type Bucket = {
	readonly perMinute: number;
	/** Whether nothing that was taken counts any more. */
	readonly isFull: (now: number) => boolean;
	/** One that holds as much, and is filled faster or more slowly from now on. */
	readonly withRate: (perMinute: number, now: number) => Bucket;
	/** Whole tokens there are now (monotonic milliseconds). */
	readonly left: (now: number) => number;
	/** Takes tokens, which must be there; a negative number gives back. */
	readonly take: (tokens: number, now: number) => void;
	/** When there is a whole token, perhaps in the past. */
	readonly nextAt: (now: number) => number;
};

const minute = 60_000;
/** The sum of many small parts of a token may be a little less than one. */
const hair = 1e-6;

/** It holds a second's worth, so that claims are not made one by one; what it holds is taken off the rate. `held`: at the start. */
export function createBucket(perMinute: number, held = Number.POSITIVE_INFINITY, since: number | null = null): Bucket {
	const most = Math.max(1, Math.floor(perMinute / 60));
	const perMs = perMinute === 0 ? 0 : (perMinute - most + 1) / minute;
	let tokens = Math.min(most, held);
	let filledAt = since;

	function fill(now: number): void {
		tokens = Math.min(most, tokens + Math.max(0, now - (filledAt ?? now)) * perMs);
		filledAt = now;
	}

	return {
		perMinute,
		isFull(now) {
			fill(now);
			return tokens + hair >= most || perMinute === 0;
		},
		withRate(changed, now) {
			fill(now);
			return createBucket(changed, tokens, now);
		},
		left(now) {
			fill(now);
			return Math.floor(tokens + hair);
		},
		take(taken, now) {
			fill(now);
			tokens -= taken;
		},
		nextAt(now) {
			fill(now);
			return tokens + hair >= 1 ? now : Math.ceil(now + (1 - tokens) / perMs);
		},
	};
}
