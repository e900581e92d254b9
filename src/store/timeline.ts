import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import {idTime} from '../mail/ids.ts';
import type {EventType, RecipientState, Role} from '../mail/message.ts';
import {hasOneWriter, type Row, rowSource, rowsOf} from './engine/dialect.ts';
import {among, insertRows, namedIds, nearIds} from './engine/rows.ts';

// The position of an event in the stream of all events. A reader up to a settled position has missed none before it,
// regardless of clocks: docs/internals/decisions/0021-event-positions.md.

/**
 * Takes positions for as many events in a transaction, and answers the one before the first. SQLite has one writer at a
 * time: the order of positions is that of commits. Null: PostgreSQL gives them by itself, when rows are inserted.
 */
export async function takePositions(trx: Knex.Transaction, count: number): Promise<number | null> {
	if (!hasOneWriter(trx)) {
		return null;
	}
	const taken = 'update changes set event_position = event_position + ? where id = 1 returning event_position';
	const [{event_position: last}] = await trx.raw(taken, [count]);
	return last - count;
}

/** Inserts rows of events, each with a position. */
export async function insertPlaced(
	trx: Knex.Transaction,
	table: 'events' | 'messages',
	columns: readonly string[],
	rows: readonly Row[],
): Promise<void> {
	const before = await takePositions(trx, rows.length);
	if (before === null) {
		await insertRows(trx, table, columns, rows);
	} else {
		const placed: Row[] = [];
		for (const [index, row] of rows.entries()) {
			placed.push([...row, before + 1 + index]);
		}
		await insertRows(trx, table, [...columns, 'position'], placed);
	}
}

/** The last position that was taken, by transactions that may not have ended. */
export async function readLastPosition(reader: Knex): Promise<number> {
	if (!hasOneWriter(reader)) {
		const {rows} = await reader.raw(
			'select case when is_called then last_value else 0 end as last from event_positions',
		);
		return Number(rows[0].last);
	}
	const row: {last: number} | undefined = await reader('changes').where({id: 1}).first('event_position as last');
	return row?.last ?? 0;
}

// Every transaction that inserts an event or a message takes this lock before it takes a position, and holds it to its
// end.
const writersNow = `select virtualtransaction as id from pg_locks where locktype = 'relation' and granted
	and relation in ('events'::regclass, 'messages'::regclass) and database = (select oid from pg_database where datname = current_database())
	and mode = 'RowExclusiveLock'`;

/**
 * Returns at each call (one at a time) a settled position: no event will come at or before it. On PostgreSQL
 * transactions take positions in one order and commit in another: a position is settled once those that wrote while it
 * was the last have ended. 0: none is settled yet.
 */
export function createSettled(reader: Knex): () => Promise<number> {
	if (hasOneWriter(reader)) {
		return () => readLastPosition(reader);
	}
	let settled = 0;
	let next: {readonly last: number; readonly writers: readonly string[]} | null = null;
	return async () => {
		// In this order: a transaction that has taken a position of before is among the writers, or has ended.
		const last = await readLastPosition(reader);
		const {rows}: {rows: Array<{id: string}>} = await reader.raw(writersNow);
		const writers = new Set(rows.map(({id}) => id));
		if (writers.size === 0) {
			settled = last;
			next = null;
		} else if (next === null || !next.writers.some(id => writers.has(id))) {
			settled = next?.last ?? settled;
			next = {last, writers: [...writers]};
		}
		return settled;
	};
}

/*
 * How events are stored. The events of a recipient in one transaction share a row: its columns are those of the last event, and
 * `earlier` has those before it, if they can be derived from the last (docs/internals/decisions/0026-rows-of-events.md).
 */

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

export type StoredEvent = {
	readonly id: string;
	readonly type: EventType;
	readonly occurredAt: string;
	readonly recordedAt: string;
	readonly detail: Readonly<Record<string, unknown>>;
};

/** An event and those before it that share its row: JSON text, null: it is alone. */
type SharedRow = NewEvent & {readonly earlier: string | null};

/** A row as it is read. */
export type StoredRow = Omit<StoredEvent, 'detail'> & {readonly detail: string | null; readonly earlier: string | null};

export const rowColumns = ['id', 'type', 'occurred_at as occurredAt', 'recorded_at as recordedAt', 'detail', 'earlier'];

/** Without a time it happened when its id was made. */
type Earlier = readonly [id: string, type: 'queued' | 'sent', occurredAt?: string];

const timeOf = (id: string) => storeTime(idTime(id));

type Detail = StoredEvent['detail'];
const parsed = (detail: string | null): Detail => JSON.parse(detail ?? '{}');
const sentDetail = ({recipient, role, attempt}: Detail): Detail => ({
	...(recipient !== undefined && {recipient}),
	...(role !== undefined && {role}),
	...(attempt !== undefined && {attempt}),
});

/** Puts events into rows. */
export function sharedRows(events: readonly NewEvent[]): SharedRow[] {
	const rows: SharedRow[] = [];
	let earlier: Earlier[] = [];
	for (const [index, event] of events.entries()) {
		if (isImpliedBy(event, events[index + 1])) {
			const {id, type, occurredAt} = event;
			earlier.push(occurredAt === timeOf(id) ? [id, type] : [id, type, occurredAt]);
		} else {
			rows.push({...event, earlier: earlier.length === 0 ? null : JSON.stringify(earlier)});
			earlier = [];
		}
	}
	return rows;
}

/**
 * Whether the next event says all that is to be known of this one, but its id and its time. `sent` has its place right
 * before: of two ids that were made one after the other within a millisecond no other is between.
 */
function isImpliedBy(event: NewEvent, next: NewEvent | undefined): event is NewEvent & {readonly type: Earlier[1]} {
	if (event.messageId !== next?.messageId || event.recipientId !== next.recipientId) {
		return false;
	}
	return event.type === 'queued'
		? event.detail === null && event.recordedAt === event.occurredAt
		: event.type === 'sent' &&
				event.recordedAt === next.recordedAt &&
				idTime(event.id) === idTime(next.id) &&
				event.detail === JSON.stringify(sentDetail(parsed(next.detail)));
}

/** The events of a row in their order, each with what else the row has. */
export function eventsOf<Row extends StoredRow>({
	earlier,
	detail: text,
	...last
}: Row): Array<Omit<Row, 'earlier' | 'detail'> & StoredEvent> {
	const detail = parsed(text);
	const before: readonly Earlier[] = JSON.parse(earlier ?? '[]');
	return [
		...before.map(([id, type, occurredAt = timeOf(id)]) => ({
			...last,
			...{id, type, occurredAt},
			...(type === 'queued' ? {recordedAt: occurredAt, detail: {}} : {detail: sentDetail(detail)}),
		})),
		{...last, detail},
	];
}

/** The first event of a message, which is encoded in the message's row. */
export function acceptedEvent(messageId: string, createdAt: string): StoredEvent {
	const id = `evt${messageId.slice(3)}`;
	return {id, type: 'accepted', occurredAt: createdAt, recordedAt: createdAt, detail: {}};
}

/** The event of a recipient that was claimed for the first time. */
export function queuedEvent(id: string): Pick<NewEvent, 'id' | 'occurredAt' | 'recordedAt' | 'detail'> & {
	readonly type: 'queued';
} {
	return {id, type: 'queued', occurredAt: timeOf(id), recordedAt: timeOf(id), detail: null};
}

/*
 * A recipient is queued from its first claim on, but only the end of the claim writes that into its row (`takeQueued`). Until then
 * the claim shows it, which has the id of the `queued` event. All code that shows a state reads it with these expressions.
 */

/** An expression: the id of the event, if the recipient is in its first claim. */
const queuedOf = (recipient: string): string =>
	`case when ${recipient}.state = 'accepted' then (select c.queued from claims as c where c.recipient_id = ${recipient}.id) end`;

/** An expression: the state of a recipient. */
export const stateOf = (recipient: string): string =>
	`case when ${queuedOf(recipient)} is null then ${recipient}.state else 'queued' end`;

/** Columns for `shown`. */
export const stateColumns = (recipient: string): string =>
	`${recipient}.state, ${recipient}.state_at, ${queuedOf(recipient)} as queued_event`;

type ReadState = {
	readonly state: RecipientState;
	readonly state_at: string;
	readonly queued_event: string | null;
};

/** A row with the state that its recipient has, and since when. */
export function shown<Row extends ReadState>({queued_event: queued, ...row}: Row): Omit<Row, 'queued_event'> {
	return queued === null ? row : {...row, state: 'queued', state_at: storeTime(idTime(queued))};
}

/** Writes events; those of a recipient that follow one another share a row where they can. */
export async function insertEvents(trx: Knex.Transaction, events: readonly NewEvent[]): Promise<void> {
	if (events.length === 0) {
		return;
	}
	const columns = ['id', 'message_id', 'recipient_id', 'type', 'occurred_at', 'recorded_at', 'detail', 'earlier'];
	await insertPlaced(trx, 'events', columns, sharedRows(events).map(rowOf));
}

function rowOf(one: ReturnType<typeof sharedRows>[number]): Row {
	return [
		...[one.id, one.messageId, one.recipientId, one.type, one.occurredAt, one.recordedAt],
		...[one.detail, one.earlier],
	];
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
 * The row that has a message's `queued` event, which is among its first ones. As an expression, for PostgreSQL to look
 * row by row: it believes every second one to be it.
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

/** The details of a recipient's events of one type that has rows of its own. */
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

/** What a claim says of its recipient: `queued` is the id of the event of a first one. */
type Claim = {readonly recipient_id: string; readonly attempts: number; readonly queued: string | null};

const claimColumns = ['recipient_id', 'attempts', 'queued'] as const;

/** Ends claims without an outcome. After a first claim the recipient stays queued, and its event is stored. */
export async function endClaims(trx: Knex.Transaction, claims: Knex.QueryBuilder): Promise<number> {
	return (await end(trx, claims)).length;
}

/**
 * The same after the daemon died: each recipient may have been sent, so its timeline says so. It does not count as an
 * attempt.
 */
export async function endCutOff(trx: Knex.Transaction, claims: Knex.QueryBuilder, now: string): Promise<number> {
	const ended = await end(trx, claims);
	const reply = 'possible duplicate: the daemon ended while it had this copy, which may have been sent';
	await insertRows(
		trx,
		'attempts',
		['recipient_id', 'n', 'position', 'at', 'phase', 'reply', 'ms'],
		// Before the conversations of the try that follows.
		ended.map(({recipient_id: id, attempts}) => [id, attempts + 1, -1, now, 'dot', reply, 0]),
		'on conflict (recipient_id, n, position) do nothing',
	);
	return ended.length;
}

async function end(trx: Knex.Transaction, claims: Knex.QueryBuilder): Promise<Claim[]> {
	const ended = await takeClaims(trx, claims);
	await storeQueued(trx, ended);
	return ended;
}

/** The same in two steps, for those who lock something between: rows of `recipients` come last. */
export async function takeClaims(
	trx: Knex.Transaction,
	claims: Knex.QueryBuilder,
	lock = lockInOrder,
): Promise<Claim[]> {
	const taken: Claim[] = await lock(claims.orderBy('recipient_id').select([...claimColumns]));
	await (taken.length > 0 && claimsOf(trx, taken).delete());
	return taken;
}

/** Takes the event out of the claims of recipients that change their state during an attempt: the caller stores it. */
export async function takeQueued(
	trx: Knex.Transaction,
	recipientIds: readonly string[],
	lock = lockInOrder,
): Promise<Claim[]> {
	const first: Claim[] = await lock(
		trx('claims')
			.whereIn('recipient_id', recipientIds)
			.whereNotNull('queued')
			.orderBy('recipient_id')
			.select([...claimColumns]),
	);
	await (first.length > 0 && claimsOf(trx, first).update({queued: null}));
	return first;
}

/** Before rows of the queue are locked. After that it is `lockLate`. */
const lockInOrder = async (claims: Knex.QueryBuilder): Promise<Claim[]> => await claims.forUpdate();

function claimsOf(trx: Knex.Transaction, claims: readonly Claim[]): Knex.QueryBuilder {
	return trx('claims').whereRaw(
		...among(
			trx,
			'recipient_id',
			claims.map(({recipient_id: id}) => id),
		),
	);
}

/**
 * Moves the recipients of first claims on to `queued`, and stores their events. A recipient that had moved already
 * keeps its state.
 */
export async function storeQueued(trx: Knex.Transaction, claims: readonly Claim[]): Promise<void> {
	const first = claims.flatMap(({recipient_id: id, queued}) => (queued === null ? [] : [{id, queued}]));
	if (first.length === 0) {
		return;
	}
	const {sql, bindings} = rowSource(
		trx,
		first.map(({id, queued}) => [id, storeTime(idTime(queued))]),
		2,
	);
	const [named, ids] = namedIds(
		trx,
		'recipients.id',
		first.map(({id}) => id),
	);
	const moved: Array<{id: string; message_id: string; role: Role}> = await rowsOf(
		trx,
		`update recipients set state = 'queued', state_at = v.column2 from (${sql}) as v
		where recipients.id = v.column1 and recipients.state = 'accepted' and ${named}
		returning recipients.id, recipients.message_id, recipients.role`,
		[...bindings, ...ids],
	);
	const eventOf = new Map(first.map(({id, queued}) => [id, queued]));
	await insertEvents(
		trx,
		moved
			.filter(({role}) => role === 'to')
			.map(({id, message_id: messageId}) => ({
				...queuedEvent(eventOf.get(id) as string),
				...{messageId, recipientId: id},
			})),
	);
}
