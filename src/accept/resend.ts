import type {Knex} from 'knex';
import {type Address, parseAddress} from '../mail/address.ts';
import {erasedAddress} from '../mail/message.ts';
import {findSent, listAttachments} from '../store/messages.ts';
import type {Send} from './draft.ts';

/**
 * The content of a message as a new send of the same mode: it passes every check and uses the template's newest
 * version. An erased recipient gets nothing again. Undefined: the workspace has no such message; `erased`: its content
 * was erased.
 */
export async function readResend(reader: Knex, workspaceId: string, id: string): Promise<Send | 'erased' | undefined> {
	const sent = await findSent(reader, workspaceId, id);
	if (!sent || sent.erasedAt !== null || sent.to === erasedAddress) {
		return sent && 'erased';
	}
	const {erasedAt: _, replyTo, cc, ...rest} = sent;
	const recipients: string[] = JSON.parse(cc ?? '[]');
	return {
		...rest,
		workspaceId,
		from: addressOf(sent.from),
		to: addressOf(sent.to),
		cc: recipients.filter(address => address !== erasedAddress).map(addressOf),
		replyTo: replyTo === null || replyTo === erasedAddress ? null : addressOf(replyTo),
		attachments: await listAttachments(reader, id),
		resentFrom: id,
	};
}

function addressOf(text: string): Address {
	const parsed = parseAddress(text, {utf8Local: true});
	if (!parsed.ok) {
		throw new Error('An address that was accepted does not parse.');
	}
	return parsed.address;
}
