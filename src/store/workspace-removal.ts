import type {Knex} from 'knex';
import {deleteDeliveries} from './webhooks/webhook-deliveries.ts';

/** What a workspace may have any number of, besides messages: the table, its key, and how many rows a step takes. */
const lists = [
	['contacts', ['id'], 500],
	['suppressions', ['id'], 500],
	['topic_optouts', ['workspace_id', 'address_key', 'code'], 500],
	['address_health', ['workspace_id', 'address_key'], 500],
	['idempotency_keys', ['workspace_id', 'mode', 'key'], 500],
	// With all their versions.
	['templates', ['id'], 5],
] as const;

/** Ends what others could still use: API keys, users of it alone, and endpoints, to which nothing more is posted. */
export async function closeWorkspace(trx: Knex.Transaction, workspaceId: string, now: string): Promise<void> {
	await trx('api_keys').where({workspace_id: workspaceId}).delete();
	await trx('users').where({workspace_id: workspaceId}).delete();
	await trx('webhook_endpoints').where({workspace_id: workspaceId}).whereNull('deleted_at').update({deleted_at: now});
}

/** Removes some of its lists; false: there is nothing more. */
export async function removeLists(trx: Knex.Transaction, workspaceId: string): Promise<boolean> {
	const endpoints = trx('webhook_endpoints').where({workspace_id: workspaceId}).select('id');
	const deliveries = await trx('webhook_deliveries').whereIn('endpoint_id', endpoints).limit(500).pluck('id');
	if ((await deleteDeliveries(trx, deliveries)) > 0) {
		return true;
	}
	for (const [table, key, limit] of lists) {
		const some = trx(table)
			.where({workspace_id: workspaceId})
			.select([...key])
			.limit(limit);
		if (
			(await trx(table)
				.whereIn([...key], some)
				.delete()) > 0
		) {
			return true;
		}
	}
	return false;
}

/**
 * Removes the workspace with the rest of its rows. False: it has a message, which came meanwhile; the transaction must not be
 * committed. That is asked last: whatever accepts mail needs the workspace's row, and waits here or comes too late.
 */
export async function deleteWorkspaceRow(trx: Knex.Transaction, id: string): Promise<boolean> {
	await trx('lane_waits').where({workspace_id: id}).delete();
	await trx('workspaces').where({id}).delete();
	return (await trx('messages').where({workspace_id: id}).first('id')) === undefined;
}
