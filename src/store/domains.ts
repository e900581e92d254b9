import type {Knex} from 'knex';

/** A row of `domains`: where senders of a workspace may be. */
export type Domain = {
	readonly id: string;
	readonly workspace_id: string;
	/** A-labels. */
	readonly name: string;
	readonly ownership_token: string;
	/** Null: `bounce.<name>` is offered and MAILCTL_RETURN_PATH_DOMAIN used. */
	readonly return_path_domain: string | null;
	readonly state: 'pending' | 'verified' | 'degraded' | 'failed';
	readonly state_at: string;
	readonly verified_at: string | null;
	readonly checked_at: string | null;
	readonly failures: number;
	readonly created_at: string;
};

/** False: the workspace has the domain already. */
export async function insertDomain(trx: Knex.Transaction, domain: Domain): Promise<boolean> {
	const inserted = await trx('domains').insert(domain).onConflict(['workspace_id', 'name']).ignore().returning('id');
	return inserted.length === 1;
}

/** Newest first. */
export async function listDomains(reader: Knex, workspaceId: string): Promise<Domain[]> {
	return await reader('domains').where({workspace_id: workspaceId}).orderBy('id', 'desc');
}

export async function findDomain(reader: Knex, workspaceId: string, name: string): Promise<Domain | undefined> {
	return await reader('domains').where({workspace_id: workspaceId, name}).first();
}
