import type {DoneFuncWithErrOrRes, FastifyReply, FastifyRequest} from 'fastify';

/**
 * An `onSend` hook: a client that has not taken its answer after `limit` milliseconds loses its connection. Node bounds only how
 * long a request may take to arrive; an answer that nobody reads would hold its memory and its descriptor for ever.
 */
export function createUnreadLimit(limit: number) {
	return (_request: FastifyRequest, {raw}: FastifyReply, payload: unknown, done: DoneFuncWithErrOrRes): void => {
		const timer = setTimeout(() => raw.destroy(), limit);
		raw.once('close', () => clearTimeout(timer));
		done(null, payload);
	};
}
