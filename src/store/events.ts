import type {Knex} from 'knex';
import type {EventType} from '../mail/event.ts';
import {insertRows} from './engine/insert-rows.ts';

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

export type StoredEvent = {
	readonly id: string;
	readonly type: EventType;
	readonly occurredAt: string;
	readonly recordedAt: string;
	readonly detail: Readonly<Record<string, unknown>>;
};

/** A message's timeline, oldest first, after the event `after` (null: from the start). */
export async function readEvents(
	reader: Knex,
	messageId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<StoredEvent[]> {
	const rows: Array<Omit<StoredEvent, 'detail'> & {detail: string | null}> = await reader('events')
		.where({message_id: messageId})
		.where('id', '>', after ?? '')
		.orderBy('id')
		.limit(limit)
		.select('id', 'type', 'occurred_at as occurredAt', 'recorded_at as recordedAt', 'detail');
	return rows.map(row => ({...row, detail: JSON.parse(row.detail ?? '{}')}));
}

/** The details of a copy's events of one type. */
export async function readDetails(
	reader: Knex,
	{messageId, recipientId, type}: {readonly messageId: string; readonly recipientId: string; readonly type: EventType},
): Promise<Array<StoredEvent['detail']>> {
	const rows: Array<{detail: string | null}> = await reader('events')
		.where({message_id: messageId, recipient_id: recipientId, type})
		.select('detail');
	return rows.map(({detail}) => JSON.parse(detail ?? '{}'));
}
