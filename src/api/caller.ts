import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Knex} from 'knex';
import {isId} from '../mail/ids.ts';
import type {Mode} from '../mail/message.ts';
import {findMessageStatus, type MessageStatus} from '../store/messages.ts';
import {type Endpoint, findEndpoint} from '../store/webhooks.ts';
import {apiError, retryAfter} from './errors.ts';
import type {FailureLimit} from './rate-limit.ts';

/** Who makes the request: what a valid key grants. */
export type Caller = {
	readonly keyId: string;
	readonly workspaceId: string;
	readonly mode: Mode;
	readonly scopes: readonly string[];
	/** The key's own (`requests/seconds`); null: the usual one. */
	readonly rateLimit: string | null;
};

/** The mode of the messages, webhooks and deliveries that a key may see; undefined: any. */
export function visibleMode({mode}: Caller): 'test' | undefined {
	return mode === 'test' ? mode : undefined;
}

/** A message that the caller may see; throws `message_not_found`. */
export async function visibleMessage(reader: Knex, caller: Caller, id: string): Promise<MessageStatus> {
	const found = isId('msg', id) ? await findMessageStatus(reader, caller.workspaceId, id) : undefined;
	if (!found || found.mode !== (visibleMode(caller) ?? found.mode)) {
		throw apiError('message_not_found');
	}
	return found;
}

/**
 * An endpoint that the caller may see; throws `not_found`. A test key sees none of live keys: the secret would let it forge what
 * live mail is said to have done.
 */
export async function visibleEndpoint(reader: Knex, caller: Caller, id: string): Promise<Endpoint> {
	const endpoint = isId('whe', id) ? await findEndpoint(reader, caller.workspaceId, id) : undefined;
	if (!endpoint || endpoint.mode !== (visibleMode(caller) ?? endpoint.mode)) {
		throw apiError('not_found');
	}
	return endpoint;
}

declare module 'fastify' {
	interface FastifyRequest {
		/** Set on every route that asked for a scope. */
		caller: Caller | null;
	}
}

/** Answers a request that has no valid key or token. */
export type Refuse = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void;

/**
 * 401, and after too many failures of the client 429. A request without the header tries nothing: it is not counted, so that a
 * prober without a key learns what it lacks.
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
