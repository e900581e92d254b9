import type {Knex} from 'knex';
import type {EventType} from '../mail/event.ts';
import {insertRows} from './insert-rows.ts';

/** A timeline entry to be written; times in the store's form, `detail` as JSON text. */
export type NewEvent = {
	readonly id: string;
	readonly messageId: string;
	readonly recipientId: string | null;
	readonly type: EventType;
	readonly occurredAt: string;
	readonly recordedAt: string;
	readonly detail: string | null;
};

export async function insertEvents(trx: Knex.Transaction, events: readonly NewEvent[]): Promise<void> {
	await insertRows(
		trx,
		'events',
		['id', 'message_id', 'recipient_id', 'type', 'occurred_at', 'recorded_at', 'detail'],
		events.map(one => [one.id, one.messageId, one.recipientId, one.type, one.occurredAt, one.recordedAt, one.detail]),
	);
}
