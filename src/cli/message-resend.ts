import {erasedAddress} from '../mail/erased.ts';
import {listAttachments} from '../store/attachments.ts';
import {findSent, type SentMessage} from '../store/messages.ts';
import {CliError} from './fault.ts';
import {postAs} from './post-message.ts';
import type {Session} from './session.ts';

/** Sends what a message said as a new one, which passes every check and uses the template's newest version. */
export async function resend(session: Session, _options: object, id: string): Promise<void> {
	const {id: workspaceId} = await session.workspace();
	const reader = await session.reader();
	const sent = await findSent(reader, workspaceId, id);
	if (!sent) {
		throw new CliError('data', `there is no message ${id}`, 'see mailctl message list');
	}
	if (sent.erasedAt !== null || sent.to === erasedAddress) {
		throw new CliError('data', `the message ${id} was erased`, 'there is nothing left of it to send again');
	}
	const files = await listAttachments(reader, id);
	const body = {
		...bodyOf(sent),
		attachments: files.map(({filename, contentType, content}) => ({
			filename,
			contentType,
			content: Buffer.from(content).toString('base64'),
		})),
	};
	const accepted = await postAs(session, {workspaceId, mode: sent.mode}, body, {'x-mailctl-resent-from': id});
	session.show({id: accepted.id, resent_from: id}, () => [accepted.id]);
}

function bodyOf(sent: SentMessage): object {
	return {
		from: sent.from,
		to: sent.to,
		templateId: sent.templateId,
		data: sent.data,
		replyTo: sent.replyTo === erasedAddress ? null : sent.replyTo,
		// Whoever was erased gets nothing again.
		cc: sent.cc.filter(address => address !== erasedAddress),
		metadata: sent.metadata,
		tags: sent.tags,
		unsubscribeGroup: sent.topicCode,
		locale: sent.locale,
		timezone: sent.timezone,
		tracking: sent.tracking,
	};
}
