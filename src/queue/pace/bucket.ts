const minute = 60_000;
/** Tolerates rounding errors: the sum of many fractions of a token may be slightly less than one. */
const tolerance = 1e-6;

/** A token bucket that never lets more than `perMinute` through in any minute. */
export class Bucket {
	readonly perMinute: number;
	readonly #max: number;
	readonly #perMs: number;
	#tokens: number;
	#filledAt: number | null;

	/**
	 * The bucket holds one second's worth of tokens, so that callers can take several at once. It fills more slowly
	 * than `perMinute` by about that amount, so that a full bucket plus a minute's inflow does not exceed the rate.
	 * `content` is the number of tokens at `filledAt`; by default the bucket starts full.
	 */
	constructor(perMinute: number, content = Number.POSITIVE_INFINITY, filledAt: number | null = null) {
		this.perMinute = perMinute;
		this.#max = perMinute === 0 ? 0 : Math.max(1, Math.floor(perMinute / 60));
		this.#perMs = perMinute === 0 ? 0 : (perMinute - this.#max + 1) / minute;
		this.#tokens = Math.min(this.#max, content);
		this.#filledAt = filledAt;
	}

	#fill(now: number): void {
		this.#tokens = Math.min(this.#max, this.#tokens + Math.max(0, now - (this.#filledAt ?? now)) * this.#perMs);
		this.#filledAt = now;
	}

	/** Returns a bucket with the same content that fills at another rate from now on. */
	withRate(perMinute: number, now: number): Bucket {
		this.#fill(now);
		return new Bucket(perMinute, this.#tokens, now);
	}

	/** Returns the number of whole tokens available. */
	left(now: number): number {
		this.#fill(now);
		return Math.floor(this.#tokens + tolerance);
	}

	/** Takes tokens, which must be available; a negative number returns them. */
	take(tokens: number, now: number): void {
		this.#fill(now);
		this.#tokens -= tokens;
	}

	/** Returns when a whole token is available: `now` or later, never (infinity) if the rate is zero. */
	nextAt(now: number): number {
		this.#fill(now);
		return this.#tokens + tolerance >= 1 ? now : Math.ceil(now + (1 - this.#tokens) / this.#perMs);
	}
}
