import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import {idTime} from '../mail/ids.ts';
import type {EventType, RecipientState, Role} from '../mail/message.ts';
import {hasOneWriter, queryRows, type Row, rowSource} from './engine/dialect.ts';
import {among, createdNearIds, insertRows, namedIds} from './engine/rows.ts';
import {unanswered} from './postgres/postgres-client.ts';

// Each event has a position in the stream of all events. A reader that has read up to a settled position has missed no
// event before it, regardless of clocks: docs/internals/decisions/0021-event-positions.md.

const reservePositions = 'update changes set event_position = event_position + ? where id = 1';

/**
 * Reserves consecutive positions in a transaction and returns the one before the first. SQLite has one writer at a
 * time, so positions are in the order of commits. Returns `null` with PostgreSQL, which assigns positions when rows are
 * inserted.
 */
export async function takePositions(trx: Knex.Transaction, count: number): Promise<number | null> {
	if (!hasOneWriter(trx)) {
		return null;
	}
	const [{event_position: last}] = await trx.raw(`${reservePositions} returning event_position`, [count]);
	return last - count;
}

/** Inserts rows of events or messages, each with a position. */
export async function insertWithPositions(
	trx: Knex.Transaction,
	table: 'events' | 'messages',
	columns: readonly string[],
	rows: readonly Row[],
): Promise<void> {
	if (!hasOneWriter(trx)) {
		await insertRows(trx, table, columns, rows);
		return;
	}
	const numbered: Row[] = [];
	for (const [index, row] of rows.entries()) {
		numbered.push([...row, index + 1]);
	}
	const {sql, bindings} = rowSource(trx, numbered, columns.length + 1);
	const selected = columns.map((_, index) => `column${index + 1}`);
	const position = `(select event_position from changes where id = 1) + column${columns.length + 1}`;
	const insert = `insert into ${table} (${[...columns, 'position']}) select ${[...selected, position]} from (${sql})`;
	await trx.raw(insert, bindings as Knex.RawBinding[]).options(unanswered);
	await trx.raw(reservePositions, [rows.length]).options(unanswered);
}

/** Returns the last position that was reserved, perhaps by a transaction that is still running. */
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

// Every transaction that inserts an event or a message takes this lock before it reserves a position, and holds it
// until it ends.
const runningWriters = `select virtualtransaction as id from pg_locks where locktype = 'relation' and granted
	and relation in ('events'::regclass, 'messages'::regclass) and database = (select oid from pg_database where datname = current_database())
	and mode = 'RowExclusiveLock'`;

/**
 * Creates a function that returns the latest settled position: no event will be added at or before it. Calls must not
 * overlap. PostgreSQL's transactions may commit in another order than they reserve positions. So a position is settled
 * once all transactions that were writing when it was the last one have ended. The result is 0 until a position is
 * settled.
 */
export function createSettled(reader: Knex): () => Promise<number> {
	if (hasOneWriter(reader)) {
		return () => readLastPosition(reader);
	}
	let settled = 0;
	let candidate: {readonly last: number; readonly writers: readonly string[]} | null = null;
	return async () => {
		// The order matters: a transaction that has reserved a position up to `last` is either among the writers or has
		// ended.
		const last = await readLastPosition(reader);
		const {rows}: {rows: Array<{id: string}>} = await reader.raw(runningWriters);
		const writers = new Set(rows.map(({id}) => id));
		if (writers.size === 0) {
			settled = last;
			candidate = null;
		} else if (candidate === null || !candidate.writers.some(id => writers.has(id))) {
			settled = candidate?.last ?? settled;
			candidate = {last, writers: [...writers]};
		}
		return settled;
	};
}

/*
 * How events are stored: the events of a recipient in one transaction share a row. Its columns are those of the last
 * event; `earlier` has the events before it that can be derived from it
 * (docs/internals/decisions/0026-rows-of-events.md).
 */

/** A new timeline entry. Times are in the store's form, `detail` is JSON text. */
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

/** An event with the earlier events that share its row as JSON text; `null` if it is the only one. */
type SharedRow = NewEvent & {readonly earlier: string | null};

/** A row as it is read. */
export type StoredRow = Omit<StoredEvent, 'detail'> & {readonly detail: string | null; readonly earlier: string | null};

export const rowColumns = ['id', 'type', 'occurred_at as occurredAt', 'recorded_at as recordedAt', 'detail', 'earlier'];

/** If the time is absent, the event occurred when its id was created. */
type Earlier = readonly [id: string, type: 'queued' | 'sent', occurredAt?: string];

const timeOf = (id: string) => storeTime(idTime(id));

type Detail = StoredEvent['detail'];
const parseDetail = (detail: string | null): Detail => JSON.parse(detail ?? '{}');
const sentDetail = ({recipient, role, attempt}: Detail): Detail => ({
	...(recipient !== undefined && {recipient}),
	...(role !== undefined && {role}),
	...(attempt !== undefined && {attempt}),
});

/** Groups events into rows. */
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
 * Returns whether the next event implies everything about this one except its id and time. A `sent` event is placed
 * directly before the next event. Of two ids created in succession within one millisecond, no other id is between them.
 * A `queued` event implies no `sent` event, because its row has the detail of the event that follows.
 */
function isImpliedBy(event: NewEvent, next: NewEvent | undefined): event is NewEvent & {readonly type: Earlier[1]} {
	if (event.messageId !== next?.messageId || event.recipientId !== next.recipientId) {
		return false;
	}
	return event.type === 'queued'
		? event.detail === null && event.recordedAt === event.occurredAt
		: event.type === 'sent' &&
				next.type !== 'queued' &&
				event.recordedAt === next.recordedAt &&
				idTime(event.id) === idTime(next.id) &&
				event.detail === JSON.stringify(sentDetail(parseDetail(next.detail)));
}

/** Returns the events of a row in order, each with the row's other columns. */
export function toEvents<Row extends StoredRow>({
	earlier,
	detail: text,
	...last
}: Row): Array<Omit<Row, 'earlier' | 'detail'> & StoredEvent> {
	const detail = parseDetail(text);
	const before: readonly Earlier[] = JSON.parse(earlier ?? '[]');
	return [
		...before.map(([id, type, occurredAt = timeOf(id)]) => ({
			...last,
			id,
			type,
			occurredAt,
			...(type === 'queued' ? {recordedAt: occurredAt, detail: {}} : {detail: sentDetail(detail)}),
		})),
		{...last, detail},
	];
}

/** Returns the first event of a message, which is derived from the message's row. */
export function acceptedEvent(messageId: string, createdAt: string): StoredEvent {
	const id = `evt${messageId.slice(3)}`;
	return {id, type: 'accepted', occurredAt: createdAt, recordedAt: createdAt, detail: {}};
}

/** Returns the `queued` event of a recipient that was claimed for the first time. */
export function queuedEvent(id: string): Pick<NewEvent, 'id' | 'occurredAt' | 'recordedAt' | 'detail'> & {
	readonly type: 'queued';
} {
	return {id, type: 'queued', occurredAt: timeOf(id), recordedAt: timeOf(id), detail: null};
}

/*
 * A recipient is queued from its first claim on, but that is written into its row only when the claim ends
 * (`takeQueued`). Until then the claim has the id of the `queued` event. All code that shows a state reads it with
 * these expressions.
 */

/** An SQL expression: the id of the `queued` event if the recipient is in its first claim. */
const queuedOf = (recipient: string): string =>
	`case when ${recipient}.state = 'accepted' then (select c.queued from claims as c where c.recipient_id = ${recipient}.id) end`;

/** An SQL expression: the state of a recipient. */
export const stateOf = (recipient: string): string =>
	`case when ${queuedOf(recipient)} is null then ${recipient}.state else 'queued' end`;

/** The columns that `withCurrentState` needs. */
export const stateColumns = (recipient: string): string =>
	`${recipient}.state, ${recipient}.state_at, ${queuedOf(recipient)} as queued_event`;

type ReadState = {
	readonly state: RecipientState;
	readonly state_at: string;
	readonly queued_event: string | null;
};

/** Returns a row with the current state of its recipient, and the time at which it reached that state. */
export function withCurrentState<Row extends ReadState>({
	queued_event: queued,
	...row
}: Row): Omit<Row, 'queued_event'> {
	return queued === null ? row : {...row, state: 'queued', state_at: storeTime(idTime(queued))};
}

/** Writes events. Consecutive events of a recipient share a row where they can. */
export async function insertEvents(trx: Knex.Transaction, events: readonly NewEvent[]): Promise<void> {
	if (events.length === 0) {
		return;
	}
	const columns = ['id', 'message_id', 'recipient_id', 'type', 'occurred_at', 'recorded_at', 'detail', 'earlier'];
	await insertWithPositions(trx, 'events', columns, sharedRows(events).map(toRow));
}

function toRow(row: SharedRow): Row {
	return [row.id, row.messageId, row.recipientId, row.type, row.occurredAt, row.recordedAt, row.detail, row.earlier];
}

/** Returns a message's timeline, oldest first, after the event `after`, or from the start if it is `null`. */
export async function readEvents(
	reader: Knex,
	messageId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<StoredEvent[]> {
	// Read before the rows: if the attempt ends in the meantime, one of the rows has the `queued` event.
	const begun = await readBegun(reader, messageId);
	const page: StoredRow[] = await reader('events')
		.where({message_id: messageId})
		.where('id', '>', after ?? '')
		.orderBy('id')
		.limit(limit)
		.select(rowColumns);
	// The `queued` event may belong on this page although its row, whose id is that of its last event, is on a later
	// page.
	const queuedRow = page.length < limit ? undefined : await findQueuedRow(reader, messageId);
	const events = new Map(
		[...begun, ...[...page, ...(queuedRow ? [queuedRow] : [])].flatMap(toEvents)].map(event => [event.id, event]),
	);
	return [...events.values()]
		.filter(({id}) => id > (after ?? ''))
		.sort((a, b) => (a.id < b.id ? -1 : 1))
		.slice(0, limit);
}

/**
 * Finds the row with a message's `queued` event, which is among its first rows. The condition is an expression, so that
 * PostgreSQL checks row by row; otherwise it estimates that every second row matches.
 */
async function findQueuedRow(reader: Knex, messageId: string): Promise<StoredRow | undefined> {
	return await reader('events')
		.where({message_id: messageId})
		.whereRaw(`coalesce(type = 'queued' or earlier like '%"queued"%', false)`)
		.orderBy('id')
		.first(rowColumns);
}

/** Returns the events of a message without rows of their own: its acceptance, and `queued` during the first attempt. */
async function readBegun(reader: Knex, messageId: string): Promise<StoredEvent[]> {
	const [near, ofMessage] = createdNearIds(reader, 'r.id', 'rcp', [messageId]);
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

/** Returns the details of a recipient's events of one type. Types that may share a row are excluded. */
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

/** A claim on a recipient. `queued` is the id of its `queued` event if this is its first claim. */
type Claim = {readonly recipient_id: string; readonly attempts: number; readonly queued: string | null};

const claimColumns = ['recipient_id', 'attempts', 'queued'] as const;

/** Ends claims without an outcome. After a first claim the recipient stays queued, and its event is stored. */
export async function endClaims(trx: Knex.Transaction, claims: Knex.QueryBuilder): Promise<number> {
	return (await removeClaims(trx, claims)).length;
}

/**
 * Ends the claims of a daemon that died. Each message may have been sent, so the recipient's attempts show a possible
 * duplicate. This does not count as an attempt.
 */
export async function endCutOff(trx: Knex.Transaction, claims: Knex.QueryBuilder, now: string): Promise<number> {
	const ended = await removeClaims(trx, claims);
	const reply = 'possible duplicate: the daemon stopped during this attempt, and the message may have been sent';
	await insertRows(
		trx,
		'attempts',
		['recipient_id', 'n', 'position', 'at', 'phase', 'reply', 'ms'],
		// Position -1 sorts before the conversations of the next attempt.
		ended.map(({recipient_id: id, attempts}) => [id, attempts + 1, -1, now, 'dot', reply, 0]),
		'on conflict (recipient_id, n, position) do nothing',
	);
	return ended.length;
}

async function removeClaims(trx: Knex.Transaction, claims: Knex.QueryBuilder): Promise<Claim[]> {
	const ended = await takeClaims(trx, claims);
	await storeQueued(trx, ended);
	return ended;
}

/**
 * Deletes claims and returns them, without storing `queued`. For callers that lock other rows in between, because rows
 * of `recipients` are locked last.
 */
export async function takeClaims(
	trx: Knex.Transaction,
	claims: Knex.QueryBuilder,
	lock = lockInOrder,
): Promise<Claim[]> {
	const claimed: Claim[] = await lock(claims.orderBy('recipient_id').select([...claimColumns]));
	await (claimed.length > 0 && selectClaims(trx, claimed).delete());
	return claimed;
}

/** Removes the `queued` event from claims of recipients whose state changes during an attempt. The caller stores it. */
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
	await (first.length > 0 && selectClaims(trx, first).update({queued: null}));
	return first;
}

/** For use before rows of the queue are locked. After that, use `lockLate`. */
const lockInOrder = async (claims: Knex.QueryBuilder): Promise<Claim[]> => await claims.forUpdate();

function selectClaims(trx: Knex.Transaction, claims: readonly Claim[]): Knex.QueryBuilder {
	return trx('claims').whereRaw(
		...among(
			trx,
			'recipient_id',
			claims.map(({recipient_id: id}) => id),
		),
	);
}

/**
 * Moves the recipients of first claims to `queued` and stores their events. A recipient whose state has already changed
 * keeps it.
 */
export async function storeQueued(trx: Knex.Transaction, claims: readonly Claim[]): Promise<void> {
	const firstClaims = claims.flatMap(({recipient_id: id, queued}) => (queued === null ? [] : [{id, queued}]));
	if (firstClaims.length === 0) {
		return;
	}
	const {sql, bindings} = rowSource(
		trx,
		firstClaims.map(({id, queued}) => [id, storeTime(idTime(queued))]),
		2,
	);
	const [named, ids] = namedIds(
		trx,
		'recipients.id',
		firstClaims.map(({id}) => id),
	);
	const moved: Array<{id: string; message_id: string; role: Role}> = await queryRows(
		trx,
		`update recipients set state = 'queued', state_at = v.column2 from (${sql}) as v
		where recipients.id = v.column1 and recipients.state = 'accepted' and ${named}
		returning recipients.id, recipients.message_id, recipients.role`,
		[...bindings, ...ids],
	);
	const eventOf = new Map(firstClaims.map(({id, queued}) => [id, queued]));
	await insertEvents(
		trx,
		moved
			.filter(({role}) => role === 'to')
			.map(({id, message_id: messageId}) => ({
				...queuedEvent(eventOf.get(id) as string),
				messageId,
				recipientId: id,
			})),
	);
}
