import type {Knex} from 'knex';
import {
	type InboundSource,
	keptLength,
	type ReadingTurn,
	type RetentionReason,
	type StoredInbound,
} from '../../mail/report.ts';
import {queryRows, rowSource} from '../../store/engine/dialect.ts';
import {insertReturning, toColumns} from '../../store/engine/rows.ts';
import {liveDomains} from '../domains/store.ts';

/** An inbound message, which is stored until it has been read. */
export type NewInbound = StoredInbound &
	ReadingTurn & {
		/** The daemon that should read it; `null` for any. */
		readonly node: string | null;
		/** The workspace whose own relay posted it; absent if it is not an event of such a relay. */
		readonly workspaceId?: string | null;
		readonly raw: Buffer;
	};

/** A message that was not read yet, with its content. */
export type UnreadInbound = StoredInbound & {
	readonly raw: Buffer;
	/** How often reading it was started without finishing. */
	readonly begun: number;
};

const newColumns = toColumns(
	'id digest source node workspaceId mailFrom rcptTo client helo raw size receivedAt precedence turn',
);

/** Stores messages; returns the ids of those that are new. */
export async function insertInbound(trx: Knex.Transaction, messages: readonly NewInbound[]): Promise<Set<string>> {
	const inserted = await insertReturning<{id: string}>(
		trx,
		'inbound',
		newColumns.names,
		messages.map(mail =>
			newColumns.valuesOf({
				workspaceId: null,
				client: null,
				helo: null,
				...mail,
				rcptTo: JSON.stringify(mail.rcptTo),
				size: mail.raw.length,
			}),
		),
		'on conflict (id) do nothing returning id',
	);
	return new Set(inserted.map(({id}) => id));
}

type UnreadQuery = {
	/** The messages of this node are read at once. */
	readonly node: string;
	/** Messages of other nodes are read if they were received no later than this, in the store's form. */
	readonly othersUntil: string;
	readonly precedence: ReadingTurn['precedence'];
	/** The turn that was served last; `null` to start with the first one. */
	readonly after?: string | null;
	/** Ids of messages to leave out. */
	readonly except?: readonly string[];
	/** The maximum number of messages of one turn. */
	readonly perTurn: number;
	readonly maxRows: number;
	/** The first message is returned at any size. */
	readonly maxBytes: number;
};

type Row = {
	readonly id: string;
	readonly digest: string;
	readonly source: InboundSource;
	readonly mail_from: string | null;
	readonly rcpt_to: string;
	readonly client: string | null;
	readonly helo: string | null;
	readonly received_at: string;
	readonly size: number;
	readonly turn: string;
	readonly begun: number;
};

/** How many turns are read together. */
const maxGroups = 8;

type Unread = {
	readonly messages: UnreadInbound[];
	/** Whether there may be more, with `after` as the turn that was served last. */
	readonly hasMore: boolean;
	readonly after: string | null;
};

/**
 * Returns the oldest unread messages of each turn, as many as fit. That some columns follow `raw` costs nothing: with
 * `auto_vacuum`, SQLite finds the pages of a long row by its pointer map and reads none in between (128 rows of 1 MB: 7
 * ms, as with `raw` last).
 */
export async function listUnread(reader: Knex, query: UnreadQuery): Promise<Unread> {
	const {after = null, perTurn, maxRows, maxBytes} = query;
	const turns = await listTurns(reader, query);
	if (turns.length === 0) {
		return {messages: [], hasMore: after !== null, after: null};
	}
	const served = turns.slice(0, maxGroups);
	const ofTurns = served.map(turn =>
		reader
			.select('*')
			.from(
				unread(reader, query)
					.where({turn})
					.orderBy('received_at')
					.limit(perTurn)
					.select(
						'id',
						'digest',
						'source',
						'mail_from',
						'rcpt_to',
						'client',
						'helo',
						'received_at',
						'size',
						'turn',
						'begun',
					)
					.as('one_turn'),
			),
	);
	const rows: Row[] = await (ofTurns.shift() as Knex.QueryBuilder).unionAll(ofTurns);
	const sorted = rows.toSorted((a, b) => compare(a.turn, b.turn) || compare(a.received_at, b.received_at));
	const fitting = sorted.slice(0, countFitting(sorted.slice(0, maxRows), maxBytes));
	const isCut = fitting.length < rows.length || served.length < turns.length;
	return {
		messages: await withBytes(reader, fitting),
		hasMore:
			isCut || after !== null || served.some(turn => rows.filter(row => row.turn === turn).length === perTurn),
		after: isCut ? (fitting.at(-1)?.turn ?? null) : null,
	};
}

const compare = (a: string, b: string): number => (a < b ? -1 : Number(a > b));

function unread(
	reader: Knex,
	{node, othersUntil, precedence, except = []}: Pick<UnreadQuery, 'node' | 'othersUntil' | 'precedence' | 'except'>,
): Knex.QueryBuilder {
	return reader('inbound')
		.whereNull('read_at')
		.where({precedence})
		.where(due => due.where({node}).orWhere('received_at', '<=', othersUntil))
		.whereNotIn('id', except);
}

/** Returns the turns with unread messages, from the one after the last: one index lookup for each. */
async function listTurns(reader: Knex, query: UnreadQuery): Promise<string[]> {
	const first = unread(reader, query)
		.where('turn', '>', query.after ?? '')
		.min('turn as turn');
	const next = unread(reader, query).whereRaw('inbound.turn > turns.turn').min('turn');
	const rows: Array<{turn: string}> = await reader
		.withRecursive('turns', ['turn'], all =>
			all
				.from(first.as('first'))
				.select('turn')
				.unionAll(step =>
					step
						.from('turns')
						.whereNotNull('turns.turn')
						.select(reader.raw('(?)', [next])),
				),
		)
		.from('turns')
		.whereNotNull('turn')
		.limit(maxGroups + 1)
		.select('turn');
	return rows.map(({turn}) => turn);
}

async function withBytes(reader: Knex, rows: readonly Row[]): Promise<UnreadInbound[]> {
	const bytes: Array<{id: string; raw: Buffer}> = await reader('inbound')
		.whereIn(
			'id',
			rows.map(({id}) => id),
		)
		// `coalesce` keeps the engine from using the index on unread messages, which it would scan entirely.
		.whereRaw(`coalesce(read_at, '') = ''`)
		.select('id', 'raw');
	const rawOf = new Map(bytes.map(({id, raw}) => [id, raw]));
	return rows.flatMap(row => {
		const raw = rawOf.get(row.id);
		// Another process has read it in the meantime.
		return raw === undefined ? [] : [{...toStoredInbound(row), begun: row.begun, raw}];
	});
}

function countFitting(rows: readonly Row[], maxBytes: number): number {
	let bytes = 0;
	const over = rows.findIndex(({size}) => {
		bytes += size;
		return bytes > maxBytes;
	});
	return over === -1 ? rows.length : Math.max(1, over);
}

function toStoredInbound(row: Row): StoredInbound {
	return {
		id: row.id,
		digest: row.digest,
		source: row.source,
		mailFrom: row.mail_from,
		rcptTo: JSON.parse(row.rcpt_to) as string[],
		...(row.client !== null && {client: row.client, helo: row.helo}),
		receivedAt: row.received_at,
	};
}

/** Returns when the oldest unread message was received; `null` if there is none. */
export async function findOldestUnread(reader: Knex): Promise<string | null> {
	const row: {received_at: string} | undefined = await reader('inbound')
		.whereNull('read_at')
		.orderBy('received_at')
		.first('received_at');
	return row?.received_at ?? null;
}

/** Returns how many messages wait to be read. */
export async function countUnread(reader: Knex): Promise<number> {
	const row: {n: number | string} | undefined = await reader('inbound')
		.whereNull('read_at')
		.first(reader.raw('count(*) as n'));
	return Number(row?.n ?? 0);
}

/** Returns whether the message with this key has this content. */
export async function hasInbound(reader: Knex, id: string, digest: string): Promise<boolean> {
	return (await reader('inbound').where({id, digest}).first('id')) !== undefined;
}

/** Returns how many events of a workspace's own relays wait to be read, counted up to `max`. */
export async function countUnreadEvents(reader: Knex, workspaceId: string, max: number): Promise<number> {
	const unread = reader('inbound')
		.whereNull('read_at')
		.where({workspace_id: workspaceId})
		.limit(max)
		.select('received_at');
	const row: {n: number | string} | undefined = await reader(unread.as('unread')).first(reader.raw('count(*) as n'));
	return Number(row?.n ?? 0);
}

/** Returns addresses of recipients by their ids. Removed recipients are missing. */
export async function findRecipientAddresses(reader: Knex, ids: readonly string[]): Promise<Map<string, string>> {
	const marks = new Array(ids.length).fill('?').join(',');
	const rows: Array<{id: string; address: string}> = await queryRows(
		reader,
		`select id, address from recipients where id in (${marks})`,
		[...ids],
	);
	return new Map(rows.map(({id, address}) => [id, address]));
}

/** Returns the hosts of all domains' own return paths, in use or not. */
export async function listReturnPathHosts(reader: Knex): Promise<string[]> {
	const rows: Array<{host: string}> = await liveDomains(reader).distinct(
		reader.raw("coalesce(return_path_domain, 'bounce.' || name) as host"),
	);
	return rows.map(({host}) => host);
}

/** Records that reading these messages starts (1), or was abandoned for a reason unrelated to them (-1). */
export async function countBegun(trx: Knex.Transaction, ids: readonly string[], by: 1 | -1): Promise<void> {
	await trx('inbound').whereIn('id', ids.toSorted()).whereRaw(isUnread).increment('begun', by);
}

/** The outcome of reading a message. */
export type InboundEnd = {
	/** The row's key. */
	readonly id: string;
	readonly at: string;
	/** Why the message itself is retained, up to `keptLength`; `null` if its content is removed. */
	readonly kept: RetentionReason | null;
	/** Whether a message that is not retained had no effect, so that its row is removed too. */
	readonly isDiscarded: boolean;
	/** How it was interpreted, JSON text; `null` if it is not retained. */
	readonly reading: string | null;
	readonly fault: string | null;
};

/** Marks messages as read. Those that were marked in the meantime stay as they are. */
export async function markRead(trx: Knex.Transaction, outcomes: readonly InboundEnd[]): Promise<void> {
	// In a fixed order, because others may be writing the same rows.
	const sorted = outcomes.toSorted((a, b) => (a.id < b.id ? -1 : 1));
	const cut = ', raw = case when inbound.size > ? then substr(inbound.raw, 1, ?) else inbound.raw end';
	const retained = sorted.filter(end => end.kept !== null);
	await update(trx, retained, cut, [keptLength, keptLength]);
	const emptied = sorted.filter(end => end.kept === null && !end.isDiscarded);
	await update(trx, emptied, ', raw = ?', [Buffer.alloc(0)]);
	const forgotten = sorted.filter(end => end.kept === null && end.isDiscarded).map(({id}) => id);
	if (forgotten.length > 0) {
		await trx('inbound').whereIn('id', forgotten).whereRaw(isUnread).delete();
	}
}

/** `coalesce` keeps the engine from using the index on unread messages, which it would scan entirely. */
const isUnread = "coalesce(inbound.read_at, '') = ''";

async function update(
	trx: Knex.Transaction,
	outcomes: readonly InboundEnd[],
	more: string,
	bindings: Knex.RawBinding[],
): Promise<void> {
	if (outcomes.length === 0) {
		return;
	}
	const rows = outcomes.map(({id, at, kept, reading, fault}) => [id, at, kept, reading, fault]);
	const source = rowSource(trx, rows, 5);
	await trx.raw(
		`update inbound set read_at = v.column2, kept = v.column3, reading = v.column4, fault = v.column5,
			workspace_id = case when v.column3 is null then null else inbound.workspace_id end${more}
			from (${source.sql}) as v
			where inbound.id = v.column1 and ${isUnread}`,
		[...bindings, ...(source.bindings as Knex.RawBinding[])],
	);
}

/** Read messages received before these times are removed, in the store's form. */
type ReadUntil = {
	/** For messages of which only the ids are left. */
	readonly emptied: string;
	readonly retained: string;
};

/** Removes at most `limit` old messages that were read; returns how many. */
export async function purgeRead(trx: Knex.Transaction, {emptied, retained}: ReadUntil, limit: number): Promise<number> {
	const old = trx('inbound')
		.where('received_at', '<', emptied)
		.whereNotNull('read_at')
		.where(mail => mail.whereNull('kept').orWhere('received_at', '<', retained))
		.limit(limit)
		.select('id');
	return await trx('inbound').whereIn('id', old).delete();
}
