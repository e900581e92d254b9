import type {Clock} from '../kit/clock.ts';
import {mergeEngagement} from '../outcome/engagement.ts';
import type {Hit} from './tracking.ts';

/**
 * A burst ends after `quietMs` without a click on another link, and at the latest after `maxMs`. While `max` bursts
 * are open, further clicks are passed on immediately.
 */
type BurstsOptions = {
	readonly pass: (hit: Hit) => void;
	readonly clock: Pick<Clock, 'monotonic'>;
	readonly quietMs?: number;
	readonly maxMs?: number;
	readonly max?: number;
};

/** The clicks on one recipient's links from one IP address, by link. */
type Burst = {readonly hits: Map<string, Hit>; readonly until: number; timer?: NodeJS.Timeout};

/**
 * Holds clicks briefly to count how many links of a message one IP address follows together. A client that follows all
 * of them is probably a scanner, not a person.
 */
export class Bursts {
	readonly #options: Required<BurstsOptions>;
	readonly #bursts = new Map<string, Burst>();

	constructor(options: BurstsOptions) {
		this.#options = {quietMs: 1500, maxMs: 10_000, max: 10_000, ...options};
	}

	add(hit: Hit): void {
		const {pass, clock, quietMs, maxMs, max} = this.#options;
		const key = `${hit.messageId} ${hit.role} ${hit.address} ${hit.from}`;
		const openBurst = this.#bursts.get(key);
		if (!openBurst && this.#bursts.size >= max) {
			pass({...hit, together: 1});
			return;
		}
		const burst: Burst = openBurst ?? {hits: new Map(), until: clock.monotonic() + maxMs};
		this.#bursts.set(key, burst);
		const earlierHit = burst.hits.get(hit.url);
		burst.hits.set(hit.url, earlierHit ? mergeEngagement(earlierHit, hit) : hit);
		if (!earlierHit) {
			clearTimeout(burst.timer);
			burst.timer = setTimeout(
				() => this.#end(key),
				Math.max(0, Math.min(quietMs, burst.until - clock.monotonic())),
			);
		}
	}

	/** Ends all bursts and passes on their clicks. */
	stop(): void {
		for (const key of this.#bursts.keys()) {
			this.#end(key);
		}
	}

	#end(key: string): void {
		const {hits, timer} = this.#bursts.get(key) as Burst;
		clearTimeout(timer);
		this.#bursts.delete(key);
		for (const hit of hits.values()) {
			this.#options.pass({...hit, together: hits.size});
		}
	}
}
