const minute = 60_000;
/** Tolerates rounding: the sum of many small parts of a token may be slightly less than one. */
const hair = 1e-6;

/** A token bucket that never lets more than `perMinute` through in any minute. */
export class Bucket {
	readonly perMinute: number;
	readonly #max: number;
	readonly #perMs: number;
	#tokens: number;
	#filledAt: number | null;

	/**
	 * The bucket holds one second's worth, so that claims are not made one by one, and fills that much more slowly.
	 * `held` is its content at the start.
	 */
	constructor(perMinute: number, held = Number.POSITIVE_INFINITY, since: number | null = null) {
		this.perMinute = perMinute;
		this.#max = perMinute === 0 ? 0 : Math.max(1, Math.floor(perMinute / 60));
		this.#perMs = perMinute === 0 ? 0 : (perMinute - this.#max + 1) / minute;
		this.#tokens = Math.min(this.#max, held);
		this.#filledAt = since;
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
		return Math.floor(this.#tokens + hair);
	}

	/** Takes tokens, which must be available; a negative number returns them. */
	take(tokens: number, now: number): void {
		this.#fill(now);
		this.#tokens -= tokens;
	}

	/** Returns when a whole token is available, which may be in the past. */
	nextAt(now: number): number {
		this.#fill(now);
		return this.#tokens + hair >= 1 ? now : Math.ceil(now + (1 - this.#tokens) / this.#perMs);
	}
}
