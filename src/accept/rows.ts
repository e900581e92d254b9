import type {Address} from '../mail/address.ts';
import {idTime, type NewId} from '../mail/ids.ts';
import type {Role} from '../mail/message.ts';
import {destinationOf} from '../mail/simulator.ts';
import {storeTime} from '../mail/time.ts';
import type {Preferences} from '../store/contacts.ts';
import type {NewMessage} from '../store/messages.ts';
import type {NewRecipient} from '../store/recipients.ts';
import type {Draft} from './draft.ts';

/** Why an address must not be mailed, by an address's comparison form. */
export type BarredReason = 'suppressed' | 'opted_out';

/** A draft that passed every check, with the id that its message gets. */
export type Entry = {readonly id: string; readonly draft: Draft};

/** A row of `recipients`, with the reason for which it is not sent. */
export type NewCopy = NewRecipient & {readonly barred: BarredReason | null};

export function messageRow({id, draft}: Entry, preferences: Preferences): NewMessage {
	const {send, versionId, topicId} = draft;
	return {
		id,
		workspaceId: send.workspaceId,
		mode: send.mode,
		from: send.from.spelling,
		fromKey: send.from.key,
		to: send.to.spelling,
		toKey: send.to.key,
		replyTo: send.replyTo?.spelling ?? null,
		cc: send.cc.length === 0 ? null : JSON.stringify(send.cc.map(address => address.spelling)),
		templateId: send.templateId,
		versionId,
		data: send.data,
		metadata: send.metadata,
		tags: send.tags,
		topicId,
		topicCode: send.topicCode,
		locale: preferences.locale,
		timezone: preferences.timezone,
		tracking: send.tracking,
		attachments: send.attachments.length,
		resentFrom: send.resentFrom,
		// Ranges of creation are ranges of ids: the two may never tell different times.
		createdAt: storeTime(idTime(id)),
	};
}

/** The `to` copy, then the `cc` copies; one that must not be mailed is final from the start. */
export function copiesOf(
	{id, draft: {send}}: Entry,
	reasonOf: (addressKey: string) => BarredReason | null,
	now: string,
	newId: NewId,
): NewCopy[] {
	const copy = (address: Address, role: Role, barred: BarredReason | null): NewCopy => ({
		id: newId('rcp'),
		workspaceId: send.workspaceId,
		messageId: id,
		address: address.spelling,
		addressKey: address.key,
		role,
		destination: destinationOf(send.mode, address.domain),
		state: barred === null ? 'accepted' : 'suppressed',
		stateAt: now,
		nextAttemptAt: barred === null ? now : null,
		barred,
	});
	return [copy(send.to, 'to', null), ...send.cc.map(address => copy(address, 'cc', reasonOf(address.key)))];
}
