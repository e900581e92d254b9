import type {FastifyRequest} from 'fastify';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';

const maxRetained = 200;

/** How long an answer is shared, milliseconds. Open pages get no notice sooner. */
export const sharedMs = 1000;

/** The `rest` of counting the queue: it is as long as the queue. A million that wait take half a second. */
export const countingRest = 20;

/**
 * Reads once what many open pages ask for at the same moment. A page that is opened reads for itself. `name` must
 * contain all that the answer depends on, the workspace first. `rest`: an answer is shared for this many times as long
 * as it took, so that open pages cost a small part of the time, regardless of their number.
 */
export function createShared(clock: Pick<Clock, 'monotonic'>, rest = 0) {
	const kept = new LRUCache<string, {readonly until: number; readonly answer: Promise<unknown>}>({max: maxRetained});
	return <Result>(
		{request}: {readonly request: Pick<FastifyRequest, 'headers'>},
		name: string,
		read: () => Promise<Result>,
	): Promise<Result> => {
		if (request.headers['hx-request'] === undefined) {
			return read();
		}
		const now = clock.monotonic();
		const known = kept.get(name);
		if (known && now < known.until) {
			return known.answer as Promise<Result>;
		}
		const answer = read();
		kept.set(name, {until: rest === 0 ? now + sharedMs : Number.POSITIVE_INFINITY, answer});
		answer.then(
			() =>
				kept.set(name, {until: Math.max(now + sharedMs, now + (rest + 1) * (clock.monotonic() - now)), answer}),
			// Only the requests that wait now get a failure.
			() => kept.delete(name),
		);
		return answer;
	};
}
