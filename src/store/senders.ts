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
	return await reader('senders').where({workspace_id: workspaceId}).orderBy('id', 'desc');
}

export async function findSender(reader: Knex, workspaceId: string, addressKey: string): Promise<Sender | undefined> {
	return await reader('senders').where({workspace_id: workspaceId, address_key: addressKey}).first();
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
