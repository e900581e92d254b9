import {maxMessageIdLength, replyHeaders} from '../mail/added-header.ts';
import {isId} from '../mail/ids.ts';
import {extrasJson, readExtras, submittedId} from '../mail/message.ts';
import type {Send} from '../send/draft.ts';
import {findRepliedTo} from '../store/messages.ts';
import type {ApiParts} from './api-parts.ts';
import {type Caller, visibleMode} from './caller.ts';

/** The violation if `toThreadedReply` finds no message. */
export const replyTargetNotFound = {field: 'inReplyTo', message: 'must be a message of this workspace, msg_…'} as const;

/** Returns the send as a reply to the message `inReplyTo`, or `null` if the caller cannot see that message. */
export async function toThreadedReply(
	{reader, messageIdOf}: Pick<ApiParts, 'reader' | 'messageIdOf'>,
	caller: Caller,
	{inReplyTo: id}: {readonly inReplyTo?: string | undefined},
	send: Send,
): Promise<Send | null> {
	if (id === undefined) {
		return send;
	}
	const original = isId('msg', id) ? await findRepliedTo(reader, caller.workspaceId, id) : undefined;
	if (!original || original.mode !== (visibleMode(caller) ?? original.mode)) {
		return null;
	}
	const messageId = submittedId([original]) ?? `<${messageIdOf(id, original.from)}>`;
	if (messageId.length > maxMessageIdLength) {
		return null;
	}
	const extras = readExtras(send.extras);
	const headers = [...replyHeaders(messageId, readExtras(original.extras).headers), ...(extras.headers ?? [])];
	return {...send, extras: extrasJson({...extras, headers})};
}
