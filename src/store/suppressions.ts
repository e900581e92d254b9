import type {Knex} from 'knex';
import type {SuppressionReason} from '../mail/suppression.ts';
import {insertRows} from './insert-rows.ts';
import {type Pair, pairKey, selectPairs} from './pairs.ts';

export type NewSuppression = {
	readonly id: string;
	readonly workspaceId: string;
	readonly address: string;
	/** The comparison form (mail/address.ts). */
	readonly addressKey: string;
	readonly reason: SuppressionReason;
	/** `api`, `one-click`, `cli`, `import`, or the message it came from. */
	readonly source: string;
	readonly createdAt: string;
};

/** An entry as it stands in the store. */
export type Suppression = {
	readonly id: string;
	readonly address: string;
	readonly reason: SuppressionReason;
	readonly source: string;
	readonly created_at: string;
};

const columns = ['id', 'address', 'reason', 'source', 'created_at'] as const;

/**
 * Adds entries; an address already listed keeps its first entry. Answers the ids of those that were added. They are
 * written in the order of their addresses: others may write the same ones, and neighbours share pages of the index.
 */
export async function insertSuppressions(
	trx: Knex.Transaction,
	entries: readonly NewSuppression[],
): Promise<Set<string>> {
	const sorted = entries
		.map(one => [pairKey(one.workspaceId, one.addressKey), one] as const)
		.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
	const added = await insertRows<{id: string}>(
		trx,
		'suppressions',
		['id', 'workspace_id', 'address', 'address_key', 'reason', 'source', 'created_at'],
		sorted.map(([, one]) => [
			one.id,
			one.workspaceId,
			one.address,
			one.addressKey,
			one.reason,
			one.source,
			one.createdAt,
		]),
		'on conflict (workspace_id, address_key) do nothing returning id',
	);
	return new Set(added.map(({id}) => id));
}

/** Which of the addresses are on their workspace's suppression list, as `pairKey`. */
export async function findSuppressed(trx: Knex, pairs: readonly Pair[]): Promise<Set<string>> {
	const rows = await selectPairs(trx, 'suppressions', [], pairs);
	return new Set(rows.map(row => pairKey(row.workspace_id, row.address_key)));
}

/** Takes an address off its workspace's list, where its entry has this reason and source. */
export async function deleteSuppressionOf(
	trx: Knex.Transaction,
	[workspaceId, addressKey]: Pair,
	{reason, source}: {readonly reason: SuppressionReason; readonly source: string},
): Promise<void> {
	await trx('suppressions').where({workspace_id: workspaceId, address_key: addressKey, reason, source}).delete();
}

/** The entries of these addresses, by `pairKey`. */
export async function readSuppressions(trx: Knex, pairs: readonly Pair[]): Promise<Map<string, Suppression>> {
	const rows = await selectPairs<Suppression>(trx, 'suppressions', columns, pairs);
	return new Map(rows.map(row => [pairKey(row.workspace_id, row.address_key), row]));
}

export type SuppressionFilter = {
	readonly workspaceId: string;
	/** The comparison form. */
	readonly addressKey?: string | undefined;
	readonly reason?: SuppressionReason | undefined;
	/** Entries that follow this id; null: from the newest. */
	readonly after: string | null;
	readonly limit: number;
};

/** Newest first. */
export async function listSuppressions(reader: Knex, filter: SuppressionFilter): Promise<Suppression[]> {
	return await suppressionListQuery(reader, filter);
}

/** Each filter has its index: `suppressions_by_address`, `suppressions_by_reason`, none `suppressions_by_workspace`. */
export function suppressionListQuery(
	reader: Knex,
	{workspaceId, addressKey, reason, after, limit}: SuppressionFilter,
): Knex.QueryBuilder {
	const query = reader('suppressions').where({workspace_id: workspaceId}).orderBy('id', 'desc').limit(limit);
	if (addressKey !== undefined) {
		query.where({address_key: addressKey});
	}
	if (reason !== undefined) {
		query.where({reason});
	}
	if (after !== null) {
		query.where('id', '<', after);
	}
	return query.select(...columns);
}

export async function countSuppressions(
	reader: Knex,
	workspaceId: string,
	reason: SuppressionReason | undefined,
): Promise<number> {
	const [row] = await reader('suppressions')
		.where({workspace_id: workspaceId, ...(reason !== undefined && {reason})})
		.count('* as entries');
	return Number(row?.entries ?? 0);
}

/** Removes an entry and answers it; undefined: the workspace has no such entry. */
export async function deleteSuppression(
	trx: Knex.Transaction,
	workspaceId: string,
	by: {readonly id: string} | {readonly addressKey: string},
): Promise<Suppression | undefined> {
	const chosen = 'id' in by ? {id: by.id} : {address_key: by.addressKey};
	const entry: Suppression | undefined = await trx('suppressions')
		.where({workspace_id: workspaceId, ...chosen})
		.first(...columns);
	// Another node may have removed it meanwhile.
	return entry && (await trx('suppressions').where({id: entry.id}).delete()) === 1 ? entry : undefined;
}
