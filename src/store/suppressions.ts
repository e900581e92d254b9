import type {Knex} from 'knex';
import {insertRows} from './insert-rows.ts';
import {type Pair, pairKey, selectPairs} from './pairs.ts';

export type SuppressionReason = 'hard_bounce' | 'complaint' | 'manual' | 'unsubscribe';

export type NewSuppression = {
	readonly id: string;
	readonly workspaceId: string;
	readonly address: string;
	readonly addressKey: string;
	readonly reason: SuppressionReason;
	/** `api`, `one-click`, or the message it came from. */
	readonly source: string;
	readonly createdAt: string;
};

/** Adds entries; an address already listed keeps its first entry. */
export async function insertSuppressions(trx: Knex.Transaction, entries: readonly NewSuppression[]): Promise<void> {
	await insertRows(
		trx,
		'suppressions',
		['id', 'workspace_id', 'address', 'address_key', 'reason', 'source', 'created_at'],
		entries.map(one => [one.id, one.workspaceId, one.address, one.addressKey, one.reason, one.source, one.createdAt]),
		'on conflict (workspace_id, address_key) do nothing',
	);
}

/** Which of the addresses are on their workspace's suppression list, as `pairKey`. */
export async function findSuppressed(trx: Knex, pairs: readonly Pair[]): Promise<Set<string>> {
	const rows = await selectPairs(trx, 'suppressions', [], pairs);
	return new Set(rows.map(row => pairKey(row.workspace_id, row.address_key)));
}

/** Adds an entry; false: the address is listed already, and its entry stays as it is. */
export async function insertSuppression(trx: Knex.Transaction, entry: NewSuppression): Promise<boolean> {
	const inserted = await trx('suppressions')
		.insert({
			id: entry.id,
			workspace_id: entry.workspaceId,
			address: entry.address,
			address_key: entry.addressKey,
			reason: entry.reason,
			source: entry.source,
			created_at: entry.createdAt,
		})
		.onConflict(['workspace_id', 'address_key'])
		.ignore()
		.returning('id');
	return inserted.length === 1;
}

/** Takes an address off its workspace's list, where its entry has this reason and source. */
export async function deleteSuppressionOf(
	trx: Knex.Transaction,
	[workspaceId, addressKey]: Pair,
	{reason, source}: {readonly reason: SuppressionReason; readonly source: string},
): Promise<void> {
	await trx('suppressions').where({workspace_id: workspaceId, address_key: addressKey, reason, source}).delete();
}
