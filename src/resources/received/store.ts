import type {Knex} from 'knex';
import {inTurn} from '../../kit/clock.ts';
import {domainOf} from '../../mail/address.ts';
import {idFloor} from '../../mail/ids.ts';
import {type Received, type ReceivedContent, wildcardOf} from '../../mail/received.ts';
import {alongIndex, among, insertReturning, insertRows, toColumns} from '../../store/engine/rows.ts';
import {isReadableMail} from '../../store/erasures.ts';
import {byRows, scanRanges, toRange} from '../../store/message-scan.ts';
import {type Domain, liveDomains} from '../domains/store.ts';
import {deleteDeliveries, findForMessages} from '../webhooks/store.ts';

/** A row of `inbound_addresses`: messages to it belong to its workspace. */
export type InboundAddress = {
	readonly id: string;
	readonly workspace_id: string;
	/** In comparison form; `*@` matches all addresses of a domain. */
	readonly address: string;
	readonly created_at: string;
};

/** Returns `false` if the address is taken. */
export async function insertInboundAddress(trx: Knex.Transaction, row: InboundAddress): Promise<boolean> {
	const inserted = await trx('inbound_addresses').insert(row).onConflict('address').ignore().returning('id');
	return inserted.length > 0;
}

/** Returns the addresses of a workspace, newest first. */
export async function listInboundAddresses(reader: Knex, workspaceId: string): Promise<InboundAddress[]> {
	return await reader('inbound_addresses').where({workspace_id: workspaceId}).orderBy('id', 'desc');
}

/** Returns a page of addresses, newest first, after the one with the id `after`. */
export async function pageInboundAddresses(
	reader: Knex,
	workspaceId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<InboundAddress[]> {
	const index = {leading: {workspace_id: workspaceId}, id: 'id'};
	return await alongIndex(reader, 'inbound_addresses', index, {below: after}).limit(limit);
}

export async function findInboundAddress(
	reader: Knex,
	workspaceId: string,
	id: string,
): Promise<InboundAddress | undefined> {
	return await reader('inbound_addresses').where({workspace_id: workspaceId, id}).first();
}

export async function deleteInboundAddress(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
): Promise<InboundAddress | undefined> {
	const row = await trx('inbound_addresses').where({workspace_id: workspaceId, id}).first();
	await trx('inbound_addresses').where({workspace_id: workspaceId, id}).delete();
	return row;
}

/** Deletes and returns the addresses at a domain that belong to other workspaces. */
export async function deleteOthersInbound(
	trx: Knex.Transaction,
	workspaceId: string,
	domain: string,
): Promise<InboundAddress[]> {
	const others = () =>
		trx('inbound_addresses').whereNot({workspace_id: workspaceId}).whereLike('address', `%@${domain}`);
	const rows = await others();
	await others().delete();
	return rows;
}

/** Deletes the addresses of a workspace at a domain or below it. */
export async function deleteInboundAt(
	trx: Knex.Transaction,
	{workspace_id, name}: Pick<Domain, 'workspace_id' | 'name'>,
): Promise<void> {
	const isAtDomain = (row: Knex.QueryBuilder) =>
		row.whereLike('address', `%@${name}`).orWhereLike('address', `%.${name}`);
	await trx('inbound_addresses').where({workspace_id}).where(isAtDomain).delete();
}

/** Returns the domains for which any workspace receives mail. */
export async function listInboundDomains(reader: Knex): Promise<string[]> {
	const addresses: string[] = await reader('inbound_addresses').pluck('address');
	return [...new Set(addresses.map(domainOf))];
}

/**
 * Returns the workspaces of these addresses; an address without one is missing. An exact address takes precedence over
 * `*@`.
 */
export async function findInboxes(reader: Knex, addresses: readonly string[]): Promise<Map<string, string>> {
	const keys = [...new Set(addresses.flatMap(address => [address, wildcardOf(address)]))];
	const rows: InboundAddress[] = await reader('inbound_addresses').whereIn('address', keys);
	const owners = new Map(rows.map(row => [row.address, row.workspace_id]));
	return new Map(
		addresses.flatMap(address => {
			const owner = owners.get(address) ?? owners.get(wildcardOf(address));
			return owner === undefined ? [] : [[address, owner]];
		}),
	);
}

/** Returns the domains of all workspaces that are equal to this one or above it. */
export async function listDomainsAbove(
	reader: Knex,
	domain: string,
): Promise<Array<Pick<Domain, 'workspace_id' | 'state'>>> {
	const names = domain.split('.').map((_, from, labels) => labels.slice(from).join('.'));
	return await liveDomains(reader).whereIn('name', names).select('workspace_id', 'state');
}

/** Returns recipients by their ids, with their messages. */
export async function findReplied(
	reader: Knex,
	ids: readonly string[],
): Promise<Array<Record<'id' | 'workspaceId' | 'messageId' | 'address', string>>> {
	const {selected} = toColumns('id workspaceId messageId address');
	return ids.length === 0 ? [] : await reader('recipients').whereIn('id', ids).select(selected);
}

/** Returns those of the messages that belong to the workspace. */
export async function findOwnMessages(reader: Knex, workspaceId: string, ids: readonly string[]): Promise<string[]> {
	const own = reader('messages').where({workspace_id: workspaceId});
	return ids.length === 0 ? [] : await own.whereIn('id', ids).pluck('id');
}

/** A message received for a workspace, before it is stored. */
export type NewReceived = Omit<Received, 'size'> & {
	/** The row of `inbound` that it came from. */
	readonly inboundId: string;
	readonly content: ReceivedContent;
	readonly files: readonly Uint8Array[];
	/** The search terms of the message. */
	readonly terms: readonly string[];
	readonly raw: Buffer;
};

const listed = toColumns('id workspaceId inReplyTo fault summary size receivedAt');
const stored = toColumns('id workspaceId inReplyTo fault summary size receivedAt inboundId content raw');

/** Stores messages and returns the new ones. The same message is stored only once for a workspace. */
export async function insertReceived(trx: Knex.Transaction, messages: readonly NewReceived[]): Promise<NewReceived[]> {
	const rows = messages.map(({summary, content, raw, ...mail}) =>
		stored.valuesOf({
			...mail,
			raw,
			size: raw.length,
			summary: JSON.stringify(summary),
			content: JSON.stringify(content),
		}),
	);
	const suffix = 'on conflict (inbound_id, workspace_id) do nothing returning id';
	const inserted = await insertReturning<{id: string}>(trx, 'received', stored.names, rows, suffix);
	const added = new Set(inserted.map(({id}) => id));
	const fresh = messages.filter(({id}) => added.has(id));
	const terms = fresh.flatMap(mail => [...new Set(mail.terms)].map(term => [mail.workspaceId, term, mail.id]));
	await insertRows(trx, 'received_terms', ['workspace_id', 'term', 'received_id'], terms);
	const files = fresh.flatMap(({id, files}) => files.map((content, n) => [id, n, Buffer.from(content)]));
	await insertRows(trx, 'received_files', ['received_id', 'n', 'content'], files);
	return fresh;
}

type Row = Omit<Received, 'summary'> & {readonly summary: string};
const fromRow = (row: Row): Received => ({...row, summary: JSON.parse(row.summary)});

export type ReceivedFilter = {
	readonly workspaceId: string;
	/** Terms that must all match: `from:…`, `to:…`, `re:…`, `w:…` (inbound/received.ts). */
	readonly terms: readonly string[];
	/** In milliseconds. */
	readonly since?: number | undefined;
	readonly until?: number | undefined;
};

/**
 * Returns received messages, newest first. The term with the fewest messages leads, and a page may end before it is
 * full. `next` is where the rest begins.
 */
export async function listReceived(
	reader: Knex,
	{workspaceId, terms, ...times}: ReceivedFilter,
	{after, limit}: {readonly after: string | null; readonly limit: number} = {after: null, limit: 100},
): Promise<{readonly rows: readonly Received[]; readonly next: string | null}> {
	const own = {workspace_id: workspaceId};
	const lead = (table: string, leading: Readonly<Record<string, string>>, id: string) =>
		byRows(reader, range => alongIndex(reader, table, {leading, id}, range).select(`${id} as id`));
	const ofTerms = terms.map(term => lead('received_terms', {...own, term}, 'received_id'));
	const leads = terms.length === 0 ? [lead('received', own, 'id')] : ofTerms;
	const match = async (ids: readonly string[]) => {
		const condition = among(reader, 'received_id', ids);
		const queries = terms.map(term =>
			reader('received_terms')
				.where({...own, term})
				.whereRaw(...condition)
				.pluck('received_id'),
		);
		const sets = (await Promise.all(queries)).map(receivedIds => new Set<string>(receivedIds));
		return ids.filter(id => sets.every(set => set.has(id)));
	};
	const {ids, next} = await scanRanges([toRange('rcv', times, after)], leads, terms.length > 1 ? match : null, limit);
	const rows: Row[] = await reader('received')
		.whereRaw(...among(reader, 'id', ids))
		.whereRaw(isReadableMail)
		.orderBy('id', 'desc')
		.select(listed.selected);
	return {rows: rows.map(fromRow), next};
}

/** Returns a received message with its content. */
export async function findReceived(
	reader: Knex,
	workspaceId: string,
	id: string,
): Promise<(Received & {readonly content: ReceivedContent}) | undefined> {
	const row = await reader('received')
		.where({id, workspace_id: workspaceId})
		.whereRaw(isReadableMail)
		.first(...listed.selected, 'content');
	return row && {...fromRow(row), content: JSON.parse(row.content)};
}

/** A message as it was received, or one of its files, to be read in pieces. */
export type StoredBytes = {readonly size: number; readonly pieces: AsyncGenerator<Buffer>};

const pieceLength = 1024 * 1024;
/** Reads one piece at a time, because SQLite holds the whole message in memory while it reads a piece of it. */
const readInTurn = inTurn();

/** Reads piece by piece, as they are consumed. Throws if the message is deleted in the meantime. */
export async function openReceivedBytes(
	reader: Knex,
	workspaceId: string,
	id: string,
	file?: number,
): Promise<StoredBytes | undefined> {
	const column = file === undefined ? 'raw' : 'content';
	const bytes = () => receivedBytes(reader, workspaceId, id, file);
	const measured: {size: number | string} | undefined = await bytes().first(reader.raw(`length(${column}) as size`));
	if (measured === undefined) {
		return undefined;
	}
	const size = Number(measured.size);
	async function* pieces() {
		for (let from = 0; from < size; from += pieceLength) {
			const piece = reader.raw(`substr(${column}, ?, ?) as piece`, [from + 1, pieceLength]);
			const row: {piece: Uint8Array} | undefined = await readInTurn(async () => await bytes().first(piece));
			if (row === undefined) {
				throw new Error(`The received mail ${id} was deleted while it was being read.`);
			}
			yield Buffer.from(row.piece);
		}
	}
	return {size, pieces: pieces()};
}

function receivedBytes(reader: Knex, workspaceId: string, id: string, file: number | undefined): Knex.QueryBuilder {
	const mail = reader('received').where({id, workspace_id: workspaceId}).whereRaw(isReadableMail);
	return file === undefined
		? mail
		: reader('received_files').whereIn('received_id', mail.select('id')).where({n: file});
}

/** Returns the content of a message as it was received. */
export async function readReceivedBytes(reader: Knex, workspaceId: string, id: string): Promise<Buffer | undefined> {
	const row: {bytes: Uint8Array} | undefined = await reader('received')
		.where({id, workspace_id: workspaceId})
		.whereRaw(isReadableMail)
		.first({bytes: 'raw'});
	return row && Buffer.from(row.bytes);
}

/** Deletes messages with their webhook deliveries; returns how many. */
export async function deleteReceived(trx: Knex.Transaction, ids: readonly string[]): Promise<number> {
	if (ids.length === 0) {
		return 0;
	}
	await deleteDeliveries(trx, await findForMessages(trx, ids));
	// Their digests remain known, so that the same messages are not stored again.
	const inbound = trx('received').whereIn('id', ids).select('inbound_id');
	await trx('inbound').whereIn('id', inbound).update({mail_from: null, rcpt_to: '[]', helo: null, client: null});
	return await trx('received').whereIn('id', ids).delete();
}

/** Deletes some messages from before a time in milliseconds. */
export async function purgeReceived(trx: Knex.Transaction, before: number, limit: number): Promise<number> {
	const ids: string[] = await trx('received').where('id', '<', idFloor('rcv', before)).limit(limit).pluck('id');
	return await deleteReceived(trx, ids);
}

/** Deletes some messages from or to an address (comparison form). */
export async function eraseReceived(
	trx: Knex.Transaction,
	workspaceId: string,
	addressKey: string,
	limit: number,
): Promise<number> {
	const ids: string[] = await trx('received_terms')
		.where({workspace_id: workspaceId})
		.whereIn('term', [`from:${addressKey}`, `to:${addressKey}`])
		.limit(limit)
		.pluck('received_id');
	return await deleteReceived(trx, [...new Set(ids)]);
}
