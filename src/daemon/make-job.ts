import {erasedAddress} from '../mail/erased.ts';
import type {Attachment} from '../mail/message.ts';
import {trackingOf} from '../mail/tracking.ts';
import type {MakeJob} from '../queue/makers.ts';
import type {Claimed} from '../store/queue/claims.ts';

export type Sending = {
	readonly attachments: readonly Attachment[];
	/** The domain's active keys: their ids, joined by commas. */
	readonly signing: string;
	readonly returnPathDomain: string;
};

/** What a maker is told of a claimed copy. The locale is the send's, then the workspace's, then `en`; so the zone. */
export function makeJob(copy: Claimed, {attachments, signing, returnPathDomain}: Sending): MakeJob {
	return {
		recipientId: copy.id,
		messageId: copy.message_id,
		workspaceId: copy.workspace_id,
		workspaceName: copy.workspace_name,
		address: copy.address,
		role: copy.role,
		acceptedAt: Date.parse(copy.created_at),
		from: copy.from_address,
		fromName: copy.sender_name,
		to: copy.to_address,
		cc: ccOf(copy),
		replyTo: copy.reply_to === erasedAddress ? null : copy.reply_to,
		templateId: copy.template_id,
		versionId: copy.version_id,
		locale: copy.locale ?? copy.workspace_locale ?? 'en',
		workspaceLocale: copy.workspace_locale,
		timezone: copy.timezone ?? copy.workspace_timezone ?? 'UTC',
		data: copy.data,
		topicId: copy.topic_id,
		topicCode: copy.topic_code,
		tracking: trackingOf(copy),
		attachments,
		signing,
		returnPathDomain,
	};
}

/** Those that the Cc header names: nobody can write to whoever was erased meanwhile. */
function ccOf({cc}: Claimed): string[] {
	const addresses: string[] = cc === null ? [] : JSON.parse(cc);
	return addresses.filter(address => address !== erasedAddress);
}
