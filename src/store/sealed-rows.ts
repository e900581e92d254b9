import type {Knex} from 'knex';

/** Whether anything in the store is sealed with the secret keys: DKIM keys, secrets of webhooks, passwords of smarthosts. */
export async function hasSealedRows(reader: Knex): Promise<boolean> {
	return Boolean(
		(await reader('dkim_keys').first('id')) ??
			(await reader('webhook_endpoints').first('id')) ??
			(await reader('workspaces').where('route', 'like', '%:v1.%@%').first('id')),
	);
}
