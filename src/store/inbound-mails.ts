import type {Knex} from 'knex';
import {type CameIn, type InboundSource, type Kept, keptLength} from '../mail/report.ts';
import {rowSource, rowsOf} from './engine/dialect.ts';
import {columnsOf, insertReturning} from './engine/rows.ts';

/** A mail that came in, as it is kept until it was read. */
export type NewInbound = CameIn & {
	/** The daemon that is to read it; null: any. */
	readonly node: string | null;
	readonly raw: Buffer;
};

/** A mail that was not read yet, with its bytes. */
export type UnreadInbound = CameIn & {readonly raw: Buffer};

const newColumns = columnsOf('id digest source node mailFrom rcptTo client helo raw size receivedAt');

/** Stores mails; answers the ids of those that were not there yet. */
export async function insertInbound(trx: Knex.Transaction, mails: readonly NewInbound[]): Promise<Set<string>> {
	const inserted = await insertReturning<{id: string}>(
		trx,
		'inbound',
		newColumns.names,
		mails.map(mail =>
			newColumns.valuesOf({
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
	/** Its own mails are read at once. */
	readonly node: string;
	/** Mails of others are read if they came in no later than this, in the store's form. */
	readonly othersUntil: string;
	/** Ids of mails that are not wanted now. */
	readonly except?: readonly string[];
	readonly mostRows: number;
	/** The first one is returned at any size. */
	readonly mostBytes: number;
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
};

/**
 * The oldest mails that were not read, as many as fit, and whether there are more. That columns stand behind `raw` costs
 * nothing: with auto_vacuum SQLite finds the pages of a long row by its pointer map, and reads none in between (128 rows of
 * 1 MB: 7 ms, as with `raw` last).
 */
export async function listUnread(
	reader: Knex,
	{node, othersUntil, except = [], mostRows, mostBytes}: UnreadQuery,
): Promise<{readonly mails: UnreadInbound[]; readonly more: boolean}> {
	const rows: Row[] = await reader('inbound')
		.whereNull('read_at')
		.where(due => due.where({node}).orWhere('received_at', '<=', othersUntil))
		.whereNotIn('id', except)
		.orderBy('received_at')
		.limit(mostRows)
		.select('id', 'digest', 'source', 'mail_from', 'rcpt_to', 'client', 'helo', 'received_at', 'size');
	const fitting = rows.slice(0, countFitting(rows, mostBytes));
	const bytes: Array<{id: string; raw: Buffer}> = await reader('inbound')
		.whereIn(
			'id',
			fitting.map(({id}) => id),
		)
		// Not the index on unread mails, which would be read as a whole.
		.whereRaw(`coalesce(read_at, '') = ''`)
		.select('id', 'raw');
	const rawOf = new Map(bytes.map(({id, raw}) => [id, raw]));
	const mails = fitting.flatMap(row => {
		const raw = rawOf.get(row.id);
		// Another process read it meanwhile.
		return raw === undefined ? [] : [{...cameInOf(row), raw}];
	});
	return {mails, more: fitting.length < rows.length || rows.length === mostRows};
}

function countFitting(rows: readonly Row[], mostBytes: number): number {
	let bytes = 0;
	const over = rows.findIndex(({size}) => {
		bytes += size;
		return bytes > mostBytes;
	});
	return over === -1 ? rows.length : Math.max(1, over);
}

function cameInOf(row: Row): CameIn {
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

/** When the oldest mail came in that was not read; null: all were. */
export async function findOldestUnread(reader: Knex): Promise<string | null> {
	const row: {received_at: string} | undefined = await reader('inbound')
		.whereNull('read_at')
		.orderBy('received_at')
		.first('received_at');
	return row?.received_at ?? null;
}

/** How many mails wait to be read. */
export async function countUnread(reader: Knex): Promise<number> {
	const row: {n: number | string} | undefined = await reader('inbound')
		.whereNull('read_at')
		.first(reader.raw('count(*) as n'));
	return Number(row?.n ?? 0);
}

/** Addresses of recipients by their ids; those that are gone are missing. */
export async function findRecipientAddresses(reader: Knex, ids: readonly string[]): Promise<Map<string, string>> {
	const marks = new Array(ids.length).fill('?').join(',');
	const rows: Array<{id: string; address: string}> = await rowsOf(
		reader,
		`select id, address from recipients where id in (${marks})`,
		[...ids],
	);
	return new Map(rows.map(({id, address}) => [id, address]));
}

/** The hosts of all domains' own return paths, in use or not. */
export async function listReturnPathHosts(reader: Knex): Promise<string[]> {
	const rows: Array<{host: string}> = await reader('domains').distinct(
		reader.raw("coalesce(return_path_domain, 'bounce.' || name) as host"),
	);
	return rows.map(({host}) => host);
}

/** The end of a mail's reading. */
export type InboundEnd = {
	/** The row's key. */
	readonly id: string;
	readonly at: string;
	/** Why the mail itself is kept, as far as `keptLength`; null: its bytes go. */
	readonly kept: Kept | null;
	/** For a mail that is not kept: it had no effect, so its row goes too. */
	readonly forgotten: boolean;
	/** How it was read, JSON text; null where it is not kept. */
	readonly reading: string | null;
	readonly fault: string | null;
};

/** Marks mails as read; those that were marked meanwhile stay as they are. */
export async function markRead(trx: Knex.Transaction, ends: readonly InboundEnd[]): Promise<void> {
	// In one order: others may be writing the same rows.
	const sorted = ends.toSorted((a, b) => (a.id < b.id ? -1 : 1));
	const cut = ', raw = case when inbound.size > ? then substr(inbound.raw, 1, ?) else inbound.raw end';
	const kept = sorted.filter(end => end.kept !== null);
	await update(trx, kept, cut, [keptLength, keptLength]);
	const emptied = sorted.filter(end => end.kept === null && !end.forgotten);
	await update(trx, emptied, ', raw = ?', [Buffer.alloc(0)]);
	const forgotten = sorted.filter(end => end.kept === null && end.forgotten).map(({id}) => id);
	if (forgotten.length > 0) {
		await trx('inbound').whereIn('id', forgotten).whereRaw(isUnread).delete();
	}
}

/** Not by the index on unread mails, which would be read as a whole. */
const isUnread = "coalesce(inbound.read_at, '') = ''";

async function update(
	trx: Knex.Transaction,
	ends: readonly InboundEnd[],
	more: string,
	bindings: Knex.RawBinding[],
): Promise<void> {
	if (ends.length === 0) {
		return;
	}
	const rows = ends.map(({id, at, kept, reading, fault}) => [id, at, kept, reading, fault]);
	const source = rowSource(trx, rows, 5);
	await trx.raw(
		`update inbound set read_at = v.column2, kept = v.column3, reading = v.column4, fault = v.column5${more}
			from (${source.sql}) as v
			where inbound.id = v.column1 and ${isUnread}`,
		[...bindings, ...(source.bindings as Knex.RawBinding[])],
	);
}

/** How far a mailbox was read, in its reader's form; null: not at all. */
export async function readCheckpoint(reader: Knex, mailbox: string): Promise<string | null> {
	const row = await reader('mailbox_checkpoints').where({mailbox}).first('position');
	return row?.position ?? null;
}

export async function saveCheckpoint(
	trx: Knex.Transaction,
	{mailbox, position, at}: {readonly mailbox: string; readonly position: string; readonly at: string},
): Promise<void> {
	await trx('mailbox_checkpoints').insert({mailbox, position, updated_at: at}).onConflict('mailbox').merge();
}

/** A mail that came in and is kept, without its bytes. */
export type KeptMail = Pick<CameIn, 'id' | 'source' | 'mailFrom' | 'rcptTo' | 'receivedAt'> & {
	readonly kept: Kept;
	/** Octets of the whole mail; `keptLength` of them are there at most. */
	readonly size: number;
	/** JSON text; null: it was erased. */
	readonly reading: string | null;
	readonly fault: string | null;
	/** Its first octets, kept for a mail to the operator, which nothing else describes. */
	readonly head: Uint8Array | null;
};

const {selected: columns} = columnsOf('id kept source mailFrom rcptTo size receivedAt reading fault');
const head = "case when kept = 'operator' then substr(raw, 1, 16384) end as head";

/** Newest first; `before`: those that are older than this one. */
export async function listKept(
	reader: Knex,
	limit: number,
	before?: Pick<KeptMail, 'receivedAt' | 'id'>,
): Promise<KeptMail[]> {
	const rows = await reader('inbound')
		.whereNotNull('kept')
		.where(mails => void (before && mails.whereRaw('(received_at, id) < (?, ?)', [before.receivedAt, before.id])))
		.orderBy([
			{column: 'received_at', order: 'desc'},
			{column: 'id', order: 'desc'},
		])
		.limit(limit)
		.select(...columns, reader.raw(head));
	return rows.map(keptMail);
}

/** Those with an id that begins so (hex), at most two. */
export async function findKept(reader: Knex, beginning: string): Promise<KeptMail[]> {
	const rows = await reader('inbound')
		.whereBetween('id', [beginning, `${beginning}g`])
		.whereNotNull('kept')
		.limit(2)
		.select(...columns, reader.raw(head));
	return rows.map(keptMail);
}

/** The bytes of a mail, as far as they are kept. */
export async function readRaw(reader: Knex, id: string): Promise<Buffer | undefined> {
	return (await reader('inbound').where({id}).first('raw'))?.raw;
}

function keptMail(row: Omit<KeptMail, 'rcptTo'> & {rcptTo: string}): KeptMail {
	return {...row, rcptTo: JSON.parse(row.rcptTo)};
}

/** How much is kept at most. */
export type KeptCaps = {readonly mails: number; readonly bytes: number};

/** The share of the caps that mail to postmaster@ and abuse@ has for itself, so that reports from anybody cannot displace it. */
const operatorShare = 0.1;

/** Removes the oldest of what is kept beyond the caps, at most `limit` mails; how many they were. */
export async function trimKept(trx: Knex.Transaction, {mails, bytes}: KeptCaps, limit: number): Promise<number> {
	const forOperator = {mails: mails * operatorShare, bytes: bytes * operatorShare};
	const removed = await trimKind(trx, '<>', {mails, bytes}, limit);
	return removed + (await trimKind(trx, '=', forOperator, limit - removed));
}

/** `is`: mail to the operator (`=`), or everything else (`<>`). */
async function trimKind(
	trx: Knex.Transaction,
	is: '=' | '<>',
	{mails, bytes}: KeptCaps,
	limit: number,
): Promise<number> {
	const kept = () => trx('inbound').whereNotNull('kept').where('kept', is, 'operator');
	const octets = trx.raw('sum(case when size > ? then ? else size end) as bytes', [keptLength, keptLength]);
	const [total] = await kept().count('* as mails').select(octets);
	let [mailsOver, bytesOver] = [Number(total?.mails) - mails, Number(total?.bytes) - bytes];
	if (limit <= 0 || (mailsOver <= 0 && bytesOver <= 0)) {
		return 0;
	}
	const oldest: Array<{id: string; size: number}> = await kept()
		.orderBy(['received_at', 'id'])
		.limit(limit)
		.select('id', 'size');
	const ids: string[] = [];
	for (const {id, size} of oldest) {
		if (mailsOver <= 0 && bytesOver <= 0) {
			break;
		}
		ids.push(id);
		mailsOver--;
		bytesOver -= Math.min(size, keptLength);
	}
	return ids.length === 0 ? 0 : await trx('inbound').whereIn('id', ids).delete();
}

/** Until when mails that were read are removed, in the store's form. */
type ReadUntil = {
	/** Nothing of these is left but their ids. */
	readonly emptied: string;
	readonly kept: string;
};

/** Removes old mails that were read, at most `limit`; how many they were. */
export async function purgeRead(trx: Knex.Transaction, {emptied, kept}: ReadUntil, limit: number): Promise<number> {
	const old = trx('inbound')
		.where('received_at', '<', emptied)
		.whereNotNull('read_at')
		.where(mail => mail.whereNull('kept').orWhere('received_at', '<', kept))
		.limit(limit)
		.select('id');
	return await trx('inbound').whereIn('id', old).delete();
}
