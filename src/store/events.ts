import type {Knex} from 'knex';
import type {EventType} from '../mail/event.ts';
import {nearIds} from './engine/near-ids.ts';
import {insertPlaced} from './event-positions.ts';
import {
	acceptedEvent,
	eventsOf,
	type NewEvent,
	queuedEvent,
	rowColumns,
	type StoredEvent,
	type StoredRow,
	sharedRows,
} from './event-rows.ts';
import {queuedOf} from './queue/claimed-state.ts';

export type {NewEvent, StoredEvent} from './event-rows.ts';

/** Writes events; those of a copy that follow one another share a row where they can. */
export async function insertEvents(trx: Knex.Transaction, events: readonly NewEvent[]): Promise<void> {
	if (events.length === 0) {
		return;
	}
	const columns = ['id', 'message_id', 'recipient_id', 'type', 'occurred_at', 'recorded_at', 'detail', 'earlier'];
	const rows = sharedRows(events).map(
		one =>
			[
				...[one.id, one.messageId, one.recipientId, one.type, one.occurredAt, one.recordedAt],
				...[one.detail, one.earlier],
			] as const,
	);
	await insertPlaced(trx, 'events', columns, rows);
}

/** A message's timeline, oldest first, after the event `after` (null: from the start). */
export async function readEvents(
	reader: Knex,
	messageId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<StoredEvent[]> {
	// Before the rows: should its try end meanwhile, `queued` is in one of them.
	const begun = await readBegun(reader, messageId);
	const page: StoredRow[] = await reader('events')
		.where({message_id: messageId})
		.where('id', '>', after ?? '')
		.orderBy('id')
		.limit(limit)
		.select(rowColumns);
	// `queued` may have its place here, and its row, which has the id of its last event, behind the end.
	const beyond = page.length < limit ? undefined : await findQueuedRow(reader, messageId);
	const events = new Map(
		[...begun, ...[...page, ...(beyond ? [beyond] : [])].flatMap(eventsOf)].map(event => [event.id, event]),
	);
	return [...events.values()]
		.filter(({id}) => id > (after ?? ''))
		.sort((a, b) => (a.id < b.id ? -1 : 1))
		.slice(0, limit);
}

/**
 * The row that has a message's `queued` event, which is among its first ones. As an expression, for PostgreSQL to look row by row:
 * it believes every second one to be it.
 */
async function findQueuedRow(reader: Knex, messageId: string): Promise<StoredRow | undefined> {
	return await reader('events')
		.where({message_id: messageId})
		.whereRaw(`coalesce(type = 'queued' or earlier like '%"queued"%', false)`)
		.orderBy('id')
		.first(rowColumns);
}

/** The events of a message that have no row of their own: its acceptance, and `queued` during the first try. */
async function readBegun(reader: Knex, messageId: string): Promise<StoredEvent[]> {
	const [near, ofMessage] = nearIds(reader, 'r.id', 'rcp', [messageId]);
	const message: {position: unknown; created_at: string; queued: string | null} | undefined = await reader(
		'messages as m',
	)
		.where({'m.id': messageId})
		.first(
			'm.position',
			'm.created_at',
			reader.raw(
				`(select ${queuedOf('r')} from recipients as r where r.message_id = m.id and r.role = 'to' and ${near}) as queued`,
				ofMessage,
			),
		);
	return [
		...(message && message.position !== null ? [acceptedEvent(messageId, message.created_at)] : []),
		...(message?.queued ? [{...queuedEvent(message.queued), detail: {}}] : []),
	];
}

/** The details of a copy's events of one type, of which each has a row of its own. */
export async function readDetails(
	reader: Knex,
	{
		messageId,
		recipientId,
		type,
	}: {
		readonly messageId: string;
		readonly recipientId: string;
		readonly type: Exclude<EventType, 'accepted' | 'queued' | 'sent'>;
	},
): Promise<Array<StoredEvent['detail']>> {
	const rows: Array<{detail: string | null}> = await reader('events')
		.where({message_id: messageId, recipient_id: recipientId, type})
		.select('detail');
	return rows.map(({detail}) => JSON.parse(detail ?? '{}'));
}
