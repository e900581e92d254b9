import type {Knex} from 'knex';
import type {EventType} from '../mail/event.ts';
import type {Mode} from '../mail/message.ts';
import {insertRows} from './engine/insert-rows.ts';
import {takePositions} from './event-positions.ts';

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
	if (events.length === 0) {
		return;
	}
	const columns = ['id', 'message_id', 'recipient_id', 'type', 'occurred_at', 'recorded_at', 'detail'];
	const rows = events.map(
		one => [one.id, one.messageId, one.recipientId, one.type, one.occurredAt, one.recordedAt, one.detail] as const,
	);
	const before = await takePositions(trx, rows.length);
	if (before === null) {
		await insertRows(trx, 'events', columns, rows);
	} else {
		const numbered = rows.map((row, index) => [...row, before + 1 + index]);
		await insertRows(trx, 'events', [...columns, 'position'], numbered);
	}
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

/** An event in the stream, with the message that it is about. */
export type StreamedEvent = StoredEvent & {
	readonly position: number;
	readonly messageId: string;
	readonly mode: Mode;
};

export type StreamPart = {
	readonly events: readonly StreamedEvent[];
	/** All up to here was read. */
	readonly position: number;
};

const positionsAtOnce = 5000;
const eventsAtOnce = 200;

/**
 * The events of a workspace after a position, up to another, in their order. It reads a bounded part: the work is the same
 * however many events other workspaces have between them.
 */
export async function readStream(
	reader: Knex,
	workspaceId: string,
	{after, upTo}: {readonly after: number; readonly upTo: number},
): Promise<StreamPart> {
	const end = Math.min(upTo, after + positionsAtOnce);
	const {query} = await eventsBetween(reader, workspaceId, {after, upTo: end});
	const rows: Array<Omit<StreamedEvent, 'detail' | 'position'> & {position: number | string; detail: string | null}> =
		await query
			.orderBy('e.position')
			.limit(eventsAtOnce)
			.select('e.position', 'e.id', 'e.type', 'e.occurred_at as occurredAt', 'e.recorded_at as recordedAt', 'e.detail')
			.select('e.message_id as messageId', 'm.mode');
	const events = rows.map(row => ({...row, position: Number(row.position), detail: JSON.parse(row.detail ?? '{}')}));
	return {events, position: rows.length < eventsAtOnce ? end : (events.at(-1)?.position ?? end)};
}

/** Whether something happened to a workspace after a position, up to another. Where too much happened to look, it did. */
export async function hasEvents(
	reader: Knex,
	workspaceId: string,
	{after, upTo}: {readonly after: number; readonly upTo: number},
): Promise<boolean> {
	if (upTo - after > positionsAtOnce) {
		return true;
	}
	const {query} = await eventsBetween(reader, workspaceId, {after, upTo});
	const found = await query.first(reader.raw('1'));
	return found !== undefined;
}

/** In an object, for a query that is awaited runs. */
async function eventsBetween(
	reader: Knex,
	workspaceId: string,
	{after, upTo}: {readonly after: number; readonly upTo: number},
): Promise<{readonly query: Knex.QueryBuilder}> {
	const query = reader('events as e')
		// SQLite joins in this order, where it would read all messages of the workspace first.
		.joinRaw('cross join messages as m')
		.whereRaw('m.id = e.message_id')
		.where('e.position', '>', after)
		.where('e.position', '<=', upTo)
		.where('m.workspace_id', workspaceId);
	if (reader.client.driverName !== 'pg') {
		return {query};
	}
	// By name: to plan the join for all days takes PostgreSQL five times as long as to look for the few that it is about.
	const ids: string[] = await reader('events')
		.where('position', '>', after)
		.where('position', '<=', upTo)
		.distinct()
		.pluck('message_id');
	return {query: query.whereIn('m.id', ids).whereIn('e.message_id', ids)};
}

/** The event at a position, and whose it is; undefined: there is none, or retention has removed it. */
export async function findAtPosition(
	reader: Knex,
	position: number,
): Promise<{readonly id: string; readonly workspaceId: string} | undefined> {
	const event: {id: string; message_id: string} | undefined = await reader('events')
		.where({position})
		.first('id', 'message_id');
	const message: {workspace_id: string} | undefined =
		event && (await reader('messages').where({id: event.message_id}).first('workspace_id'));
	return event && message && {id: event.id, workspaceId: message.workspace_id};
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
