import type {Knex} from 'knex';
import {alongIndex} from './engine/along-index.ts';

/** A row of `senders`: an address that mail may come from. */
export type Sender = {
	readonly id: string;
	readonly workspace_id: string;
	readonly domain_id: string;
	readonly address: string;
	/** The comparison form (mail/address.ts). */
	readonly address_key: string;
	/** The display name of `From`. */
	readonly name: string | null;
	/** Stored where an operator said so; read, it is else that of its domain. */
	readonly verified_at: string | null;
	readonly disabled_at: string | null;
	readonly created_at: string;
};

/** What a send needs of its sender. */
export type SenderRow = Pick<Sender, 'id' | 'verified_at' | 'disabled_at'>;

/** Read by sends, through a cache. A sender is verified when its domain is, or when an operator said so. */
export async function lookUpSender(
	reader: Knex,
	workspaceId: string,
	addressKey: string,
): Promise<SenderRow | undefined> {
	return await reader('senders as s')
		.join('domains as d', 'd.id', 's.domain_id')
		.where({'s.workspace_id': workspaceId, 's.address_key': addressKey})
		.first('s.id', 's.disabled_at', reader.raw('coalesce(s.verified_at, d.verified_at) as verified_at'));
}

/** False: the workspace has the address already. */
export async function insertSender(trx: Knex.Transaction, sender: Sender): Promise<boolean> {
	const inserted = await trx('senders')
		.insert(sender)
		.onConflict(['workspace_id', 'address_key'])
		.ignore()
		.returning('id');
	return inserted.length === 1;
}

/** Newest first. */
export async function listSenders(reader: Knex, workspaceId: string): Promise<Sender[]> {
	return await sendersQuery(reader, workspaceId, null);
}

/** Newest first, from after the one with the id `after`. */
export async function pageSenders(
	reader: Knex,
	workspaceId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<Sender[]> {
	return await sendersQuery(reader, workspaceId, after).limit(limit);
}

/** Those of a domain, by address, from after the one with the comparison form `after`. */
export async function pageDomainSenders(
	reader: Knex,
	domainId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<Sender[]> {
	const rows = joined(reader, reader('senders as s'))
		.where('s.domain_id', domainId)
		.orderBy('s.address_key')
		.limit(limit);
	return await (after === null ? rows : rows.where('s.address_key', '>', after));
}

export async function findSender(reader: Knex, workspaceId: string, addressKey: string): Promise<Sender | undefined> {
	return await sendersQuery(reader, workspaceId, null).where('s.address_key', addressKey).first();
}

export async function findSenderById(reader: Knex, workspaceId: string, id: string): Promise<Sender | undefined> {
	return await sendersQuery(reader, workspaceId, null).where('s.id', id).first();
}

function sendersQuery(reader: Knex, workspaceId: string, after: string | null): Knex.QueryBuilder {
	return joined(
		reader,
		alongIndex(reader, 'senders as s', {leading: {'s.workspace_id': workspaceId}, id: 's.id'}, {below: after}),
	);
}

/** With what their domains say of them. */
function joined(reader: Knex, senders: Knex.QueryBuilder): Knex.QueryBuilder {
	return senders
		.join('domains as d', 'd.id', 's.domain_id')
		.select('s.*', reader.raw('coalesce(s.verified_at, d.verified_at) as verified_at'));
}

/** The addresses of a domain's senders. */
export async function listDomainSenders(reader: Knex, domainId: string): Promise<string[]> {
	return await reader('senders').where({domain_id: domainId}).orderBy('address_key').pluck('address');
}

/** The comparison forms of the addresses that an operator verified, whatever DNS says. */
export async function listVerifiedByOperator(reader: Knex, workspaceId: string): Promise<string[]> {
	return await reader('senders').where({workspace_id: workspaceId}).whereNotNull('verified_at').pluck('address_key');
}

export async function updateSender(
	trx: Knex.Transaction,
	workspaceId: string,
	addressKey: string,
	changes: Pick<Partial<Sender>, 'name' | 'verified_at' | 'disabled_at'>,
): Promise<void> {
	await trx('senders').where({workspace_id: workspaceId, address_key: addressKey}).update(changes);
}

/** Removes a sender and answers it; undefined: the workspace has no such sender. */
export async function deleteSender(
	trx: Knex.Transaction,
	workspaceId: string,
	by: {readonly id: string} | {readonly addressKey: string},
): Promise<Pick<Sender, 'id' | 'workspace_id' | 'address'> | undefined> {
	const chosen = 'id' in by ? {id: by.id} : {address_key: by.addressKey};
	const sender: Pick<Sender, 'id' | 'workspace_id' | 'address'> | undefined = await trx('senders')
		.where({workspace_id: workspaceId, ...chosen})
		.first('id', 'workspace_id', 'address');
	// Another node may have removed it meanwhile.
	return sender && (await trx('senders').where({id: sender.id}).delete()) === 1 ? sender : undefined;
}
