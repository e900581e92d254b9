import type {Knex} from 'knex';
import {type InboundSource, type Kept, keptLength} from '../../mail/report.ts';

/** A mail that came in and is kept, without its bytes. */
export type KeptMail = {
	readonly id: string;
	readonly kept: Kept;
	readonly source: InboundSource;
	/** Empty: the null sender. Null: not known. */
	readonly mailFrom: string | null;
	readonly rcptTo: readonly string[];
	/** Octets of the whole mail; `keptLength` of them are there at most. */
	readonly size: number;
	readonly receivedAt: string;
	/** JSON text; null: it was erased. */
	readonly reading: string | null;
	readonly fault: string | null;
	/** Its first octets, of a mail to the operator, of which nothing else tells what it is. */
	readonly head: Uint8Array | null;
};

const columns = [
	'id',
	'kept',
	'source',
	'mail_from as mailFrom',
	'rcpt_to as rcptTo',
	'size',
	'received_at as receivedAt',
	'reading',
	'fault',
] as const;
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

/** Those whose id begins so (hex), at most two. */
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
export type ReadUntil = {
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
