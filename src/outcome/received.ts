import type {Knex} from 'knex';
import {insertReceived, type NewReceived} from '../resources/received/store.ts';
import {type EventWriter, notify} from './outbox.ts';

/** Mail received for a workspace, and what endpoints get for it. */
export type ReceivedMail = {readonly mail: NewReceived; readonly detail: Readonly<Record<string, unknown>>};

/** Stores received mail and notifies endpoints, in the transaction that marks it as read. */
export async function recordReceived(
	trx: Knex.Transaction,
	received: readonly ReceivedMail[],
	eventWriter: EventWriter,
): Promise<void> {
	if (received.length === 0) {
		return;
	}
	const messages = received.map(({mail}) => mail);
	const added = new Set(await insertReceived(trx, messages));
	const inserted = received.filter(({mail}) => added.has(mail));
	await notify(
		trx,
		inserted.map(({mail: {id, workspaceId, inReplyTo, receivedAt}, detail}) => ({
			type: 'received',
			workspaceId,
			messageId: inReplyTo,
			recipient: null,
			at: receivedAt,
			detail,
			receivedId: id,
		})),
		eventWriter,
	);
}
