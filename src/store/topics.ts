import type {Knex} from 'knex';
import {type Pair, pairKey, selectPairs} from './pairs.ts';

/** The topic codes that each of the addresses opted out of, by `pairKey`. An opt-out outlives its topic. */
export async function findOptedOut(trx: Knex, pairs: readonly Pair[]): Promise<Map<string, Set<string>>> {
	const codes = new Map<string, Set<string>>();
	for (const row of await selectPairs<{code: string}>(trx, 'topic_optouts', ['code'], pairs)) {
		const key = pairKey(row.workspace_id, row.address_key);
		codes.set(key, (codes.get(key) ?? new Set()).add(row.code));
	}
	return codes;
}

export type NewOptOut = {
	readonly workspaceId: string;
	readonly code: string;
	readonly address: string;
	readonly addressKey: string;
	readonly source: string;
	readonly createdAt: string;
};

/** Opts an address out of a topic; false: it was already, and its opt-out stays as it is. */
export async function insertOptOut(trx: Knex.Transaction, optOut: NewOptOut): Promise<boolean> {
	const inserted = await trx('topic_optouts')
		.insert({
			workspace_id: optOut.workspaceId,
			code: optOut.code,
			address_key: optOut.addressKey,
			address: optOut.address,
			source: optOut.source,
			created_at: optOut.createdAt,
		})
		.onConflict(['workspace_id', 'address_key', 'code'])
		.ignore()
		.returning('code');
	return inserted.length === 1;
}

/** Takes an opt-out of this source back. */
export async function deleteOptOut(
	trx: Knex.Transaction,
	[workspaceId, addressKey]: Pair,
	{code, source}: {readonly code: string; readonly source: string},
): Promise<void> {
	await trx('topic_optouts').where({workspace_id: workspaceId, address_key: addressKey, code, source}).delete();
}
