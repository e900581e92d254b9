import {apiTime} from '../mail/time.ts';
import type {StoredEvent} from '../store/events.ts';
import type {StoredMessage} from '../store/messages.ts';

/** A message as the API shows it (docs/reference/interface.md, Message), with `mode` and `resent_from` besides. */
export function messageView(message: StoredMessage) {
	return {
		id: message.id,
		status: message.status,
		to: message.to,
		from: message.from,
		reply_to: message.replyTo,
		cc: message.cc,
		attachments: message.attachments.map(({filename, contentType}) => ({filename, content_type: contentType})),
		subject: message.subject,
		template_id: message.templateId,
		template_name: message.templateName,
		template_version: message.templateVersion,
		data: message.data,
		metadata: message.metadata,
		tags: message.tags,
		mode: message.mode,
		resent_from: message.resentFrom,
		created_at: apiTime(message.createdAt),
		updated_at: apiTime(message.updatedAt),
	};
}

/** An entry of the timeline (docs/reference/interface.md, Message event), with `detail` besides. */
export function eventView({id, type, occurredAt, recordedAt, detail}: StoredEvent) {
	return {id, type, occurred_at: apiTime(occurredAt), recorded_at: apiTime(recordedAt), detail};
}
