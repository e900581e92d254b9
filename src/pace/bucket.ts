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
/** The sum of many small parts of a token may be a little less than one. */
const hair = 1e-6;

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
