import type {Knex} from 'knex';
import {keptLength, type RetentionReason, type StoredInbound} from '../../mail/report.ts';
import {toColumns} from '../../store/engine/rows.ts';

/** A retained inbound message, without its content. */
export type KeptMail = Pick<StoredInbound, 'id' | 'source' | 'mailFrom' | 'rcptTo' | 'receivedAt'> & {
	readonly kept: RetentionReason;
	/** The size of the whole message in octets; at most `keptLength` of them are stored. */
	readonly size: number;
	/** JSON text; `null` if it was erased. */
	readonly reading: string | null;
	readonly fault: string | null;
	/** The first octets of a message to the operator, because nothing else describes it. */
	readonly head: Uint8Array | null;
};

const {selected: columns} = toColumns('id kept source mailFrom rcptTo size receivedAt reading fault');
const head = "case when kept = 'operator' then substr(raw, 1, 16384) end as head";

/** Returns retained messages, newest first. With `before`, only those older than that one. */
export async function listKept(
	reader: Knex,
	limit: number,
	before?: Pick<KeptMail, 'receivedAt' | 'id'>,
): Promise<KeptMail[]> {
	const rows = await reader('inbound')
		.whereNotNull('kept')
		.where(query => void (before && query.whereRaw('(received_at, id) < (?, ?)', [before.receivedAt, before.id])))
		.orderBy([
			{column: 'received_at', order: 'desc'},
			{column: 'id', order: 'desc'},
		])
		.limit(limit)
		.select(...columns, reader.raw(head));
	return rows.map(keptMail);
}

/** Returns at most two retained messages whose ids begin with this text (hex). */
export async function findKept(reader: Knex, beginning: string): Promise<KeptMail[]> {
	const rows = await reader('inbound')
		.whereBetween('id', [beginning, `${beginning}g`])
		.whereNotNull('kept')
		.limit(2)
		.select(...columns, reader.raw(head));
	return rows.map(keptMail);
}

/** Returns the content of a message, as far as it is stored. */
export async function readRaw(reader: Knex, id: string): Promise<Buffer | undefined> {
	return (await reader('inbound').where({id}).first('raw'))?.raw;
}

function keptMail(row: Omit<KeptMail, 'rcptTo'> & {rcptTo: string}): KeptMail {
	return {...row, rcptTo: JSON.parse(row.rcptTo)};
}

/** The limits of what is retained. */
export type KeptCaps = {readonly messages: number; readonly bytes: number};

/**
 * The share of the caps that is reserved for messages to postmaster@ and abuse@, so that reports from strangers cannot
 * displace them. It is also each workspace's share for events of its own relays, which displace nothing else.
 */
const ownShare = 0.1;
const shareOf = ({messages, bytes}: KeptCaps): KeptCaps => ({
	messages: Math.floor(messages * ownShare),
	bytes: Math.floor(bytes * ownShare),
});

/** Removes the oldest retained messages beyond the caps, at most `limit`; returns how many. */
export async function trimKept(trx: Knex.Transaction, caps: KeptCaps, limit: number): Promise<number> {
	let removed = await trimInstallation(trx, caps, limit);
	const {messages, bytes} = shareOf(caps);
	const workspaceIds: string[] = await trx('inbound')
		.whereNotNull('kept')
		.whereNotNull('workspace_id')
		.groupBy('workspace_id')
		.havingRaw(`count(*) > ? or ${octets} > ?`, [messages, keptLength, keptLength, bytes])
		.pluck('workspace_id');
	for (const workspaceId of workspaceIds) {
		removed += await trimWorkspace(trx, workspaceId, caps, limit - removed);
	}
	return removed;
}

/** Like `trimKept`, for retained messages that belong to no workspace. */
export async function trimInstallation(trx: Knex.Transaction, caps: KeptCaps, limit: number): Promise<number> {
	const retained = () => trx('inbound').whereNotNull('kept').whereNull('workspace_id');
	const removed = await trim(trx, () => retained().where('kept', '<>', 'operator'), caps, limit);
	return removed + (await trim(trx, () => retained().where('kept', '=', 'operator'), shareOf(caps), limit - removed));
}

/** Like `trimKept`, for events of a workspace's own relays. */
export async function trimWorkspace(
	trx: Knex.Transaction,
	workspaceId: string,
	caps: KeptCaps,
	limit: number,
): Promise<number> {
	const retained = () => trx('inbound').whereNotNull('kept').where({workspace_id: workspaceId});
	return await trim(trx, retained, shareOf(caps), limit);
}

const octets = 'sum(case when size > ? then ? else size end)';

async function trim(
	trx: Knex.Transaction,
	retained: () => Knex.QueryBuilder,
	{messages, bytes}: KeptCaps,
	limit: number,
): Promise<number> {
	const [total] = await retained()
		.count('* as mails')
		.select(trx.raw(`${octets} as bytes`, [keptLength, keptLength]));
	let [mailsOver, bytesOver] = [Number(total?.mails) - messages, Number(total?.bytes) - bytes];
	if (limit <= 0 || (mailsOver <= 0 && bytesOver <= 0)) {
		return 0;
	}
	const oldest: Array<{id: string; size: number}> = await retained()
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
