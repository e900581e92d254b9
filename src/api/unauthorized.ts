import type {FastifyReply, FastifyRequest} from 'fastify';
import {apiError, retryAfter} from './errors.ts';
import type {FailureLimit} from './failure-limit.ts';

/** Answers a request that has no valid key or token. */
export type Refuse = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void;

/**
 * 401, and after too many failures of the client 429. A request without the header tries nothing: it is not counted, so that a
 * prober without a key is told what it lacks.
 */
export function createRefuse(countFailure: FailureLimit): Refuse {
	return ({headers, ip}, reply, done) => {
		const wait = headers.authorization === undefined ? null : countFailure(ip);
		if (wait === null) {
			reply.code(401).header('www-authenticate', 'Bearer').send({error: 'Unauthorized'});
			return;
		}
		const message = 'Too many requests with a wrong key came from this address.';
		done(apiError('rate_limited', {message, headers: retryAfter(wait)}));
	};
}
