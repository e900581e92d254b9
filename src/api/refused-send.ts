import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Refused} from '../accept/accepted.ts';
import type {Clock} from '../mail/clock.ts';
import {callerOf} from './auth.ts';
import {type ApiError, apiError, retryAfter, unavailable} from './errors.ts';
import {type Allowance, type RateLimits, showAllowance} from './rate-limit.ts';

/** An `onRequest` hook that follows `auth.needs`: 429 when the key's window is used up, before the body is read. */
export function limitSends(limits: RateLimits, clock: Clock) {
	return (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void => {
		const caller = callerOf(request);
		const taken = limits.take(caller, 'send');
		const allowance = limits.read(caller, 'send');
		showAllowance(reply, allowance);
		done(taken ? undefined : rateLimited(allowance, clock.now()));
	};
}

/** The answer to a client whose bucket is empty. */
export function rateLimited({reset}: Allowance, now: number): ApiError {
	return apiError('rate_limited', {headers: retryAfter(reset * 1000 - now)});
}

// RFC 9110 §5.5 lets a header hold more; what is stored should be readable.
const idempotencyKey = /^[\x20-\x7e]{1,255}$/;

/** Null: none was given. Throws `bad_request` for one that is not 1 to 255 printable ASCII characters. */
export function readIdempotencyKey(header: string | string[] | undefined): string | null {
	if (header === undefined) {
		return null;
	}
	if (typeof header !== 'string' || !idempotencyKey.test(header)) {
		throw apiError('bad_request', {message: 'An Idempotency-Key must be 1 to 255 printable ASCII characters.'});
	}
	return header;
}

/** What the client of a refused send is told. When the quota refused, the three headers are about the month. */
export function refusedSend({code, quota}: Refused, now: number): ApiError {
	if (code === 'unavailable') {
		return unavailable();
	}
	return quota === undefined
		? apiError(code)
		: apiError(code, {
				headers: {
					'ratelimit-limit': String(quota.limit),
					'ratelimit-remaining': '0',
					'ratelimit-reset': String(quota.endsAt / 1000),
					...retryAfter(quota.endsAt - now),
				},
			});
}
