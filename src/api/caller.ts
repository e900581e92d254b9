import type {Knex} from 'knex';
import {apiError} from '../mail/api-error.ts';
import type {AttachmentLimits} from '../mail/attachment-limits.ts';
import {isId} from '../mail/ids.ts';
import type {Mode} from '../mail/message.ts';
import {type Endpoint, findEndpoint} from '../resources/webhooks/store.ts';
import {type ContentStatus, findMessageStatus} from '../store/messages.ts';

/** The caller of a request, with what its key grants. */
export type Caller = {
	readonly keyId: string;
	readonly workspaceId: string;
	readonly mode: Mode;
	readonly scopes: readonly string[];
	/** The rate limit of the key (`requests/seconds`); `null` for the default. */
	readonly rateLimit: string | null;
	/** The attachment limits of its workspace, if they differ from the defaults. */
	readonly attachments?: AttachmentLimits;
};

/** Returns the mode of the messages, webhooks and deliveries that a key may see, or `undefined` for all. */
export function visibleMode({mode}: Caller): 'test' | undefined {
	return mode === 'test' ? mode : undefined;
}

/** Returns a message that the caller may see. Throws `message_not_found` otherwise. */
export async function requireVisibleMessage(reader: Knex, caller: Caller, id: string): Promise<ContentStatus> {
	const message = isId('msg', id) ? await findMessageStatus(reader, caller.workspaceId, id) : undefined;
	if (!message || message.mode !== (visibleMode(caller) ?? message.mode)) {
		throw apiError('message_not_found');
	}
	return message;
}

/**
 * Returns an endpoint that the caller may see. Throws `not_found` otherwise. A test key sees no endpoints of live keys:
 * with their secrets it could forge events of live messages.
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
		/** Set on every route that requires a scope. */
		caller: Caller | null;
	}
}
