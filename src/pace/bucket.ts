const minute = 60_000;
/** The sum of many small parts of a token may be a little less than one. */
const hair = 1e-6;

/** A token bucket that never lets more than `perMinute` through in any minute. */
export class Bucket {
	readonly perMinute: number;
	readonly #most: number;
	readonly #perMs: number;
	#tokens: number;
	#filledAt: number | null;

	/**
	 * Holds a second's worth, so that claims are not made one by one; that is taken off the rate. `held`: at the start.
	 */
	constructor(perMinute: number, held = Number.POSITIVE_INFINITY, since: number | null = null) {
		this.perMinute = perMinute;
		this.#most = perMinute === 0 ? 0 : Math.max(1, Math.floor(perMinute / 60));
		this.#perMs = perMinute === 0 ? 0 : (perMinute - this.#most + 1) / minute;
		this.#tokens = Math.min(this.#most, held);
		this.#filledAt = since;
	}

	#fill(now: number): void {
		this.#tokens = Math.min(this.#most, this.#tokens + Math.max(0, now - (this.#filledAt ?? now)) * this.#perMs);
		this.#filledAt = now;
	}

	/** A bucket that holds as much and is filled at another rate from now on. */
	withRate(perMinute: number, now: number): Bucket {
		this.#fill(now);
		return new Bucket(perMinute, this.#tokens, now);
	}

	/** Whole tokens there are now. */
	left(now: number): number {
		this.#fill(now);
		return Math.floor(this.#tokens + hair);
	}

	/** Takes tokens, which must be there; a negative number gives back. */
	take(tokens: number, now: number): void {
		this.#fill(now);
		this.#tokens -= tokens;
	}

	/** When there is a whole token, perhaps in the past. */
	nextAt(now: number): number {
		this.#fill(now);
		return this.#tokens + hair >= 1 ? now : Math.ceil(now + (1 - this.#tokens) / this.#perMs);
	}
}
