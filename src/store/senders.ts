import type {Knex} from 'knex';

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
	return await sendersQuery(reader, workspaceId).orderBy('s.id', 'desc');
}

/** Newest first, from after the one with the id `after`. */
export async function pageSenders(
	reader: Knex,
	workspaceId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<Sender[]> {
	const query = sendersQuery(reader, workspaceId).orderBy('s.id', 'desc').limit(limit);
	return await (after === null ? query : query.where('s.id', '<', after));
}

export async function findSender(reader: Knex, workspaceId: string, addressKey: string): Promise<Sender | undefined> {
	return await sendersQuery(reader, workspaceId).where('s.address_key', addressKey).first();
}

function sendersQuery(reader: Knex, workspaceId: string): Knex.QueryBuilder {
	return reader('senders as s')
		.join('domains as d', 'd.id', 's.domain_id')
		.where('s.workspace_id', workspaceId)
		.select('s.*', reader.raw('coalesce(s.verified_at, d.verified_at) as verified_at'));
}

/** The addresses of a domain's senders. */
export async function listDomainSenders(reader: Knex, domainId: string): Promise<string[]> {
	return await reader('senders').where({domain_id: domainId}).orderBy('address_key').pluck('address');
}

export async function updateSender(
	trx: Knex.Transaction,
	workspaceId: string,
	addressKey: string,
	changes: Pick<Partial<Sender>, 'verified_at' | 'disabled_at'>,
): Promise<void> {
	await trx('senders').where({workspace_id: workspaceId, address_key: addressKey}).update(changes);
}

/** False: there is no such sender. */
export async function deleteSender(trx: Knex.Transaction, workspaceId: string, addressKey: string): Promise<boolean> {
	return (await trx('senders').where({workspace_id: workspaceId, address_key: addressKey}).delete()) === 1;
}

/** False: the workspace has no sender with this id. */
export async function deleteSenderById(trx: Knex.Transaction, workspaceId: string, id: string): Promise<boolean> {
	return (await trx('senders').where({workspace_id: workspaceId, id}).delete()) === 1;
}
