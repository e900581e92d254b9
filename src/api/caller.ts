import type {Knex} from 'knex';
import type {AttachmentLimits} from '../mail/attachment-limits.ts';
import {isId} from '../mail/ids.ts';
import type {Mode} from '../mail/message.ts';
import {findMessageStatus, type MessageStatus} from '../store/messages.ts';
import {type Endpoint, findEndpoint} from '../store/webhooks.ts';
import {apiError} from './errors.ts';

/** Who makes the request: what a valid key grants. */
export type Caller = {
	readonly keyId: string;
	readonly workspaceId: string;
	readonly mode: Mode;
	readonly scopes: readonly string[];
	/** The key's own (`requests/seconds`); null: the usual one. */
	readonly rateLimit: string | null;
	/** Of its workspace; absent: the usual ones. */
	readonly attachments?: AttachmentLimits;
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
 * An endpoint that the caller may see; throws `not_found`. A test key sees none of live keys: the secret would let it
 * forge what live mail is said to have done.
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
