import type {Knex} from 'knex';
import {insertRows} from './insert-rows.ts';

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
