import type {Knex} from 'knex';
import {insertReceived, type NewReceived} from '../store/received.ts';
import {type EventWriter, notify} from './outbox.ts';

/** A mail to a workspace, and what endpoints get of it. */
export type ReceivedMail = {readonly mail: NewReceived; readonly detail: Readonly<Record<string, unknown>>};

/** Stores mails and notifies endpoints of them, in the transaction in which they are marked as read. */
export async function recordReceived(
	trx: Knex.Transaction,
	received: readonly ReceivedMail[],
	eventWriter: EventWriter,
): Promise<void> {
	if (received.length === 0) {
		return;
	}
	const mails = received.map(({mail}) => mail);
	const added = new Set(await insertReceived(trx, mails));
	const fresh = received.filter(({mail}) => added.has(mail));
	await notify(
		trx,
		fresh.map(({mail: {id, workspaceId, inReplyTo, receivedAt}, detail}) => ({
			...{
				type: 'received',
				workspaceId,
				messageId: inReplyTo,
				recipient: null,
				at: receivedAt,
				detail,
				keptFor: id,
			},
		})),
		eventWriter,
	);
}
