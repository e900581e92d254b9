import type {Knex} from 'knex';
import type {Clock} from '../mail/clock.ts';
import type {NewId} from '../mail/ids.ts';
import {storeTime} from '../mail/time.ts';
import {insertAttachments} from '../store/attachments.ts';
import {type Preferences, teachContacts} from '../store/contacts.ts';
import {insertEvents, type NewEvent} from '../store/events.ts';
import {insertMessages} from '../store/messages.ts';
import {pairKey} from '../store/pairs.ts';
import {insertRecipients} from '../store/recipients.ts';
import {findSuppressed} from '../store/suppressions.ts';
import {findOptedOut} from '../store/topics.ts';
import type {GroupWrite} from '../store/writer.ts';
import {type BarredReason, copiesOf, type Entry, messageRow, type NewCopy} from './rows.ts';
import {type Accepted, type Draft, refused} from './send.ts';

/** Writes accepted messages, many in one transaction: contact, message, attachments, recipients, `accepted` event. */
export function createAcceptWrite(clock: Clock, newId: NewId): GroupWrite<Draft, Accepted> {
	return {
		name: 'accept',
		rank: 1,
		bytes: bytesOf,
		async apply(trx, drafts) {
			const now = storeTime(clock.now());
			const reasonOf = await readBarred(trx, drafts);
			const results = drafts.map(draft => judge(draft, reasonOf(draft, draft.send.to.key), newId));
			const entries = results.flatMap((result, index) =>
				result.ok ? [{id: result.id, draft: drafts[index] as Draft}] : [],
			);
			if (entries.length > 0) {
				await insertMail(trx, entries, now, newId);
				await insertCopies(
					trx,
					entries.flatMap(entry => copiesOf(entry, key => reasonOf(entry.draft, key), now, newId)),
					now,
					newId,
				);
			}
			return results;
		},
	};
}

type ReasonOf = (draft: Draft, addressKey: string) => BarredReason | null;

async function readBarred(trx: Knex.Transaction, drafts: readonly Draft[]): Promise<ReasonOf> {
	const pairsOf = ({send}: Draft) => [send.to, ...send.cc].map(({key}) => [send.workspaceId, key] as const);
	const suppressed = await findSuppressed(trx, drafts.flatMap(pairsOf));
	const optedOut = await findOptedOut(trx, drafts.filter(({send}) => send.topicCode !== null).flatMap(pairsOf));
	return ({send}, addressKey) => {
		const pair = pairKey(send.workspaceId, addressKey);
		if (suppressed.has(pair)) {
			return 'suppressed';
		}
		return send.topicCode !== null && optedOut.get(pair)?.has(send.topicCode) ? 'opted_out' : null;
	};
}

/** The last checks, in the order in which their codes win. */
function judge(draft: Draft, reason: BarredReason | null, newId: NewId): Accepted {
	if (reason === 'suppressed') {
		return refused('recipient_suppressed');
	}
	if (draft.send.topicCode !== null && draft.topicId === null) {
		return refused('unknown_unsubscribe_group');
	}
	if (reason === 'opted_out') {
		return refused('recipient_unsubscribed');
	}
	return {ok: true, id: newId('msg')};
}

async function insertMail(trx: Knex.Transaction, entries: readonly Entry[], now: string, newId: NewId): Promise<void> {
	const preferences = await teachContacts(
		trx,
		entries.map(({draft: {send}}) => ({
			id: () => newId('con'),
			workspaceId: send.workspaceId,
			address: send.to.spelling,
			addressKey: send.to.key,
			locale: send.locale,
			timezone: send.timezone,
			// Test sends teach a contact nothing.
			learns: send.mode === 'live',
		})),
		now,
	);
	await insertMessages(
		trx,
		entries.map((entry, index) => messageRow(entry, preferences[index] as Preferences, now)),
	);
	await insertAttachments(
		trx,
		entries.map(({id, draft}) => ({messageId: id, attachments: draft.send.attachments})),
	);
}

async function insertCopies(
	trx: Knex.Transaction,
	copies: readonly NewCopy[],
	now: string,
	newId: NewId,
): Promise<void> {
	await insertRecipients(trx, copies);
	await insertEvents(
		trx,
		copies.filter(copy => copy.role === 'to' || copy.barred !== null).map(copy => eventOf(copy, now, newId)),
	);
}

// `accepted` stands once, for the message; a copy that is not sent has its own entry.
function eventOf(copy: NewCopy, now: string, newId: NewId): NewEvent {
	const {id: recipientId, messageId, address: recipient, role, barred: reason} = copy;
	return {
		id: newId('evt'),
		messageId,
		recipientId,
		type: reason === null ? 'accepted' : 'suppressed',
		occurredAt: now,
		recordedAt: now,
		detail: reason === null ? null : JSON.stringify({recipient, role, reason}),
	};
}

const rowBytes = 1024;

function bytesOf({send}: Draft): number {
	const files = send.attachments.reduce((sum, attachment) => sum + attachment.content.length, 0);
	return rowBytes * (1 + send.cc.length) + (send.data?.length ?? 0) + (send.metadata?.length ?? 0) + files;
}
