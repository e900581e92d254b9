import type {FastifyRequest} from 'fastify';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';

const maxRetained = 200;

/** How long a result is shared, in milliseconds. Open pages get no notice sooner. */
export const sharedMs = 1000;

/** The `rest` for counting the queue, which takes half a second for a million waiting messages. */
export const countingRest = 20;

/**
 * Shares the result of one read between many open pages. A page that is just being opened reads for itself. `name` must
 * contain everything that the result depends on, the workspace first. A result is shared for `rest` times as long as its
 * read took, so that open pages cost a small fraction of the time, regardless of their number.
 */
export function createShared(clock: Pick<Clock, 'monotonic'>, rest = 0) {
	const results = new LRUCache<string, {readonly until: number; readonly result: Promise<unknown>}>({
		max: maxRetained,
	});
	return <Result>(
		{request}: {readonly request: Pick<FastifyRequest, 'headers'>},
		name: string,
		read: () => Promise<Result>,
	): Promise<Result> => {
		if (request.headers['hx-request'] === undefined) {
			return read();
		}
		const now = clock.monotonic();
		const known = results.get(name);
		if (known && now < known.until) {
			return known.result as Promise<Result>;
		}
		const result = read();
		results.set(name, {until: rest === 0 ? now + sharedMs : Number.POSITIVE_INFINITY, result});
		result.then(
			() => {
				const until = Math.max(now + sharedMs, now + (rest + 1) * (clock.monotonic() - now));
				results.set(name, {until, result});
			},
			// Only requests that are waiting now get the error.
			() => results.delete(name),
		);
		return result;
	};
}
