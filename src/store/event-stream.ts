import type {Knex} from 'knex';
import type {Mode} from '../mail/message.ts';
import {hasDays} from './engine/dialect.ts';
import {isReadable} from './erasures.ts';
import {acceptedEvent, readLastPosition, rowColumns, type StoredEvent, type StoredRow, toEvents} from './timeline.ts';

/** An event in the stream with its message. Events that share a row have the same position. */
export type StreamedEvent = StoredEvent & {
	readonly position: number;
	readonly messageId: string;
	readonly mode: Mode;
};

export type StreamPart = {
	readonly events: readonly StreamedEvent[];
	/** Everything up to this position was read. */
	readonly position: number;
};

/** The positions after one, up to another. */
type Range = {readonly after: number; readonly upTo: number};

const positionsAtOnce = 5000;
const rowsAtOnce = 200;

/**
 * Returns the events of a workspace within a range of positions, in order. It reads a bounded part of the range, so the
 * work is the same however many events of other workspaces are in between.
 */
export async function readStream(reader: Knex, workspaceId: string, {after, upTo}: Range): Promise<StreamPart> {
	const end = Math.min(upTo, after + positionsAtOnce);
	const range = {after, upTo: end};
	const accepted: Array<{position: number | string; messageId: string; mode: Mode; createdAt: string}> =
		await acceptedBetween(reader, workspaceId, range)
			.orderBy('m.position')
			.limit(rowsAtOnce)
			.select('m.position', 'm.id as messageId', 'm.mode', 'm.created_at as createdAt');
	const {query} = await rowsBetween(reader, workspaceId, range);
	const rows: Array<StoredRow & {position: number | string; messageId: string; mode: Mode}> = await query
		.orderBy('e.position')
		.limit(rowsAtOnce)
		.select(rowColumns.map(column => `e.${column}`))
		.select('e.position', 'e.message_id as messageId', 'm.mode');
	const entries = [
		...accepted.map(({createdAt, ...message}) => ({
			position: Number(message.position),
			events: [{...message, ...acceptedEvent(message.messageId, createdAt)}],
		})),
		...rows.map(row => ({position: Number(row.position), events: toEvents(row)})),
	];
	const page = entries.sort((a, b) => a.position - b.position).slice(0, rowsAtOnce);
	return {
		events: page.flatMap(({position, events}) => events.map(event => ({...event, position}))),
		position: entries.length < rowsAtOnce ? end : (page.at(-1)?.position ?? end),
	};
}

/** Yields all current events of a workspace after a position, page by page. */
export async function* eventsUntilNow(
	reader: Knex,
	workspaceId: string,
	{after, isVisible = () => true}: {readonly after: number; readonly isVisible?: (event: StreamedEvent) => boolean},
): AsyncGenerator<readonly StreamedEvent[]> {
	const upTo = await readLastPosition(reader);
	let position = after;
	do {
		const part = await readStream(reader, workspaceId, {after: position, upTo});
		yield part.events.filter(isVisible);
		position = part.position;
	} while (position < upTo);
}

/**
 * Whether a workspace has events within a range of positions. Returns `true` if the range is too large to check.
 */
export async function hasEvents(reader: Knex, workspaceId: string, {after, upTo}: Range): Promise<boolean> {
	if (upTo - after > positionsAtOnce) {
		return true;
	}
	const constant = reader.raw('1');
	if ((await acceptedBetween(reader, workspaceId, {after, upTo}).first(constant)) !== undefined) {
		return true;
	}
	const {query} = await rowsBetween(reader, workspaceId, {after, upTo});
	return (await query.first(constant)) !== undefined;
}

/** Queries the messages that were accepted within this range. */
function acceptedBetween(reader: Knex, workspaceId: string, {after, upTo}: Range): Knex.QueryBuilder {
	return (
		reader('messages as m')
			.where('m.position', '>', after)
			.where('m.position', '<=', upTo)
			// As an expression, because the engine might otherwise read all messages of the workspace.
			.whereRaw("m.workspace_id || '' = ?", [workspaceId])
	);
}

/** Returns the query in an object, because awaiting a query runs it. */
async function rowsBetween(
	reader: Knex,
	workspaceId: string,
	{after, upTo}: Range,
): Promise<{readonly query: Knex.QueryBuilder}> {
	const query = reader('events as e')
		// SQLite joins in this order. Otherwise it would read all messages of the workspace first.
		.joinRaw('cross join messages as m')
		.whereRaw('m.id = e.message_id')
		.where('e.position', '>', after)
		.where('e.position', '<=', upTo)
		.where('m.workspace_id', workspaceId)
		.whereRaw(isReadable('m'));
	if (!hasDays(reader)) {
		return {query};
	}
	// The ids are listed, because planning the join for all days takes PostgreSQL five times as long as finding the few
	// that the range concerns.
	const ids: string[] = await reader('events')
		.where('position', '>', after)
		.where('position', '<=', upTo)
		.distinct()
		.pluck('message_id');
	return {query: query.whereIn('m.id', ids).whereIn('e.message_id', ids)};
}

/** Returns the ids of the events at a position, in order; `undefined` if there are none or they were removed. */
export async function findAtPosition(reader: Knex, position: number): Promise<readonly string[] | undefined> {
	const row: (StoredRow & {messageId: string}) | undefined = await reader('events')
		.where({position})
		.first([...rowColumns, 'message_id as messageId']);
	const messages = reader('messages').first('id', 'created_at as createdAt');
	const message: {id: string; createdAt: string} | undefined = await (row === undefined
		? messages.where({position})
		: messages.where({id: row.messageId}));
	if (message === undefined) {
		return undefined;
	}
	const events = row === undefined ? [acceptedEvent(message.id, message.createdAt)] : toEvents(row);
	return events.map(({id}) => id);
}
