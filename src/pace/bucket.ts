/** A token bucket that never lets more than `perMinute` through in any minute. */
export type Bucket = {
	readonly perMinute: number;
	/** Whole tokens there are now (monotonic milliseconds). */
	readonly left: (now: number) => number;
	/** Takes tokens, which must be there; a negative number gives back. */
	readonly take: (tokens: number, now: number) => void;
	/** When there is a whole token, perhaps in the past. */
	readonly nextAt: (now: number) => number;
};

const minute = 60_000;

/** It holds a second's worth, so that claims are not made one by one; what it holds is taken off the rate. */
export function createBucket(perMinute: number): Bucket {
	const most = Math.max(1, Math.floor(perMinute / 60));
	const perMs = (perMinute - most + 1) / minute;
	let tokens = most;
	let filledAt: number | null = null;

	function fill(now: number): void {
		tokens = Math.min(most, tokens + Math.max(0, now - (filledAt ?? now)) * perMs);
		filledAt = now;
	}

	return {
		perMinute,
		left(now) {
			fill(now);
			// The sum of many small parts of a token may be a hair less than one.
			return Math.floor(tokens + 1e-9);
		},
		take(taken, now) {
			fill(now);
			tokens -= taken;
		},
		nextAt(now) {
			fill(now);
			return tokens + 1e-9 >= 1 ? now : now + (1 - tokens) / perMs;
		},
	};
}
