import type {Knex} from 'knex';
import {idFloor} from '../../mail/ids.ts';
import type {Mode} from '../../mail/message.ts';
import type {SuppressionReason} from '../../mail/suppression.ts';
import {
	alongIndex,
	insertReturning,
	insertRows,
	type Pair,
	pairKey,
	rowOfAddress,
	selectPairs,
	toColumns,
} from '../../store/engine/rows.ts';

export type NewSuppression = {
	readonly id: string;
	readonly workspaceId: string;
	readonly address: string;
	/** In comparison form (mail/address.ts). */
	readonly addressKey: string;
	readonly reason: SuppressionReason;
	/** `api`, `one-click`, `cli`, `dashboard`, `import`, or the id of the message that caused it. */
	readonly source: string;
	/** `test` blocks only test messages; if absent, all messages are blocked. */
	readonly mode?: Mode;
	readonly createdAt: string;
};

export type Suppression = {
	readonly id: string;
	readonly address: string;
	readonly reason: SuppressionReason;
	readonly source: string;
	readonly mode: Mode;
	readonly created_at: string;
};

const columns = ['id', 'address', 'reason', 'source', 'mode', 'created_at'] as const;
const newColumns = toColumns('id workspaceId address addressKey reason source mode createdAt');

/**
 * Adds entries; returns the ids of the added ones. An address that is already listed keeps its entry, but an entry of a
 * test key is replaced by any other. Entries are written in the order of their addresses, because others may write the
 * same ones, and neighbors share pages of the index.
 */
export async function insertSuppressions(
	trx: Knex.Transaction,
	entries: readonly NewSuppression[],
): Promise<Set<string>> {
	const sorted = [...firstOfEach(entries)].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
	const added = await insertReturning<{id: string}>(
		trx,
		'suppressions',
		newColumns.names,
		sorted.map(([, entry]) => newColumns.valuesOf({...entry, mode: entry.mode ?? 'live'})),
		`on conflict (workspace_id, address_key) do update
			set id = excluded.id, address = excluded.address, reason = excluded.reason, source = excluded.source,
				mode = excluded.mode, created_at = excluded.created_at
			where suppressions.mode = 'test' and excluded.mode = 'live' returning id`,
	);
	return new Set(added.map(({id}) => id));
}

/** Returns the first entry of each address, because a PostgreSQL statement must not write a row twice. */
function firstOfEach(entries: readonly NewSuppression[]): Map<string, NewSuppression> {
	const first = new Map<string, NewSuppression>();
	for (const entry of entries) {
		const pair = pairKey(entry.workspaceId, entry.addressKey);
		const before = first.get(pair);
		if (before === undefined || (before.mode === 'test' && entry.mode !== 'test')) {
			first.set(pair, entry);
		}
	}
	return first;
}

/** Returns which addresses are on their workspace's suppression list: the mode of the entry, by `pairKey`. */
export async function findSuppressed(trx: Knex, pairs: readonly Pair[]): Promise<Map<string, Mode>> {
	const rows = await selectPairs<{mode: Mode}>(trx, 'suppressions', ['mode'], pairs);
	return new Map(rows.map(row => [pairKey(row.workspace_id, row.address_key), row.mode]));
}

/** Removes an address from its workspace's list if its entry has this reason and source. */
export async function deleteSuppressionOf(
	trx: Knex.Transaction,
	[workspaceId, addressKey]: Pair,
	{reason, source}: {readonly reason: SuppressionReason; readonly source: string},
): Promise<void> {
	await trx('suppressions').where({workspace_id: workspaceId, address_key: addressKey, reason, source}).delete();
}

/** Returns the entries of these addresses, by `pairKey`. */
export async function readSuppressions(trx: Knex, pairs: readonly Pair[]): Promise<Map<string, Suppression>> {
	const rows = await selectPairs<Suppression>(trx, 'suppressions', columns, pairs);
	return new Map(rows.map(row => [pairKey(row.workspace_id, row.address_key), row]));
}

export type SuppressionFilter = {
	readonly workspaceId: string;
	/** In comparison form. */
	readonly addressKey?: string | undefined;
	readonly reason?: SuppressionReason | undefined;
	/** Entries after this id; from the newest if `null`. */
	readonly after: string | null;
	readonly limit: number;
};

/**
 * Returns entries, newest first. Each filter has an index: `suppressions_by_address`, `suppressions_by_reason`; without
 * one, `suppressions_by_workspace`.
 */
export async function listSuppressions(
	reader: Knex,
	{workspaceId, addressKey, reason, after, limit}: SuppressionFilter,
): Promise<Suppression[]> {
	const reasonFilter = reason !== undefined && {reason};
	if (addressKey !== undefined) {
		const address = {workspace_id: workspaceId, address_key: addressKey};
		const entry = rowOfAddress(reader, 'suppressions', address, after).select(...columns);
		return await (reasonFilter ? entry.where(reasonFilter) : entry);
	}
	const leading = {workspace_id: workspaceId, ...reasonFilter};
	return await alongIndex(reader, 'suppressions', {leading, id: 'id'}, {below: after})
		.limit(limit)
		.select(...columns);
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

export async function findSuppression(
	reader: Knex,
	workspaceId: string,
	by: {readonly id: string} | {readonly addressKey: string},
): Promise<(Suppression & {readonly address_key: string}) | undefined> {
	const filter = 'id' in by ? {id: by.id} : {address_key: by.addressKey};
	return await reader('suppressions')
		.where({workspace_id: workspaceId, ...filter})
		.first(...columns, 'address_key');
}

/** Returns `false` if another node has removed it in the meantime. */
export async function deleteSuppression(trx: Knex.Transaction, id: string): Promise<boolean> {
	return (await trx('suppressions').where({id}).delete()) === 1;
}

/** What blocks messages to an address, as far as it concerns one message. Properties that do not apply are `null`. */
type StatusRow = {
	/** The mode of the message; `null` if it was removed. */
	readonly mode: Mode | null;
	readonly topicCode: string | null;
	readonly topicName: string | null;
	readonly description: string | null;
	readonly requiredAt: string | null;
	/** Pauses are ignored. */
	readonly optOutSource: string | null;
	readonly reason: SuppressionReason | null;
	readonly source: string | null;
};

/** Returns `undefined` if there is no such workspace. */
export async function findStatus(
	reader: Knex,
	[workspaceId, addressKey]: Pair,
	{messageId, topicId}: {readonly messageId: string; readonly topicId: string | null},
): Promise<StatusRow | undefined> {
	return await reader('workspaces as w')
		.leftJoin('messages as m', function () {
			this.on('m.workspace_id', 'w.id').andOnVal('m.id', messageId);
		})
		.leftJoin('topics as t', function () {
			this.on('t.workspace_id', 'w.id').andOnVal('t.id', topicId ?? '');
		})
		.leftJoin('topic_optouts as o', function () {
			this.on('o.workspace_id', 'w.id')
				.andOnVal('o.address_key', addressKey)
				.andOn('o.code', 't.code')
				.andOnNull('o.until');
		})
		.leftJoin('suppressions as s', function () {
			this.on('s.workspace_id', 'w.id').andOnVal('s.address_key', addressKey).andOnVal('s.mode', 'live');
		})
		.where('w.id', workspaceId)
		.whereNull('w.deleted_at')
		.first(
			'm.mode',
			't.code as topicCode',
			't.name as topicName',
			't.description',
			't.required_at as requiredAt',
			'o.source as optOutSource',
			's.reason',
			's.source',
		);
}

/** The failures of an address that do not suppress it by themselves, since the last delivery to it. */
export type AddressHealth = {
	readonly softMessages: number;
	/** When the first of them occurred. */
	readonly softSince: string;
	readonly lastMessageId: string;
};

type Row = {
	readonly soft_messages: number;
	readonly soft_since: string | null;
	readonly last_message_id: string | null;
};

/** How long before the first failure a message may have been accepted that was delivered after it, in milliseconds. */
const maxQueueMs = 7 * 86_400_000;

/** Returns the health of the addresses that failed before, by `pairKey`. */
export async function readHealth(trx: Knex.Transaction, pairs: readonly Pair[]): Promise<Map<string, AddressHealth>> {
	const rows = await selectPairs<Row>(
		trx,
		'address_health',
		['soft_messages', 'soft_since', 'last_message_id'],
		pairs,
	);
	return new Map(
		rows.map(row => [
			pairKey(row.workspace_id, row.address_key),
			{
				softMessages: row.soft_messages,
				softSince: row.soft_since ?? '',
				lastMessageId: row.last_message_id ?? '',
			},
		]),
	);
}

/** Stores the health of addresses in a fixed order, because others may write the same ones. */
export async function saveHealth(
	trx: Knex.Transaction,
	rows: ReadonlyArray<{readonly pair: Pair; readonly health: AddressHealth; readonly at: string}>,
): Promise<void> {
	const sorted = rows.toSorted((a, b) => (pairKey(...a.pair) < pairKey(...b.pair) ? -1 : 1));
	await insertRows(
		trx,
		'address_health',
		['workspace_id', 'address_key', 'soft_messages', 'soft_since', 'last_message_id', 'updated_at'],
		sorted.map(({pair, health, at}) => [...pair, health.softMessages, health.softSince, health.lastMessageId, at]),
		`on conflict (workspace_id, address_key) do update set soft_messages = excluded.soft_messages,
			soft_since = excluded.soft_since, last_message_id = excluded.last_message_id, updated_at = excluded.updated_at`,
	);
}

/** Deletes the failures of an address, so that the next one counts as the first. */
export async function removeHealth(trx: Knex.Transaction, [workspaceId, addressKey]: Pair): Promise<void> {
	await trx('address_health').where({workspace_id: workspaceId, address_key: addressKey}).delete();
}

/** Returns whether a recipient with the address was delivered to since `since`, and no report has revoked that. */
export async function hasDelivery(
	trx: Knex.Transaction,
	[workspaceId, addressKey]: Pair,
	since: string,
): Promise<boolean> {
	const accepted = idFloor('msg', Date.parse(since) - maxQueueMs);
	const delivered = trx('recipients')
		.whereIn('recipients.state', ['delivered', 'complained'])
		.where('recipients.state_at', '>', since)
		// Limits the partitions that are read.
		.where('recipients.id', '>=', idFloor('rcp', Date.parse(since) - maxQueueMs))
		.where('recipients.address_key', addressKey);
	const direct = await delivered
		.clone()
		.join('messages', 'messages.id', 'recipients.message_id')
		.where('messages.workspace_id', workspaceId)
		.where('messages.to_key', addressKey)
		.where('messages.id', '>=', accepted)
		.where('recipients.role', 'to')
		.first('recipients.id');
	const copied =
		direct ??
		(await delivered
			.clone()
			.where('recipients.workspace_id', workspaceId)
			.where('recipients.role', 'cc')
			.where('recipients.message_id', '>=', accepted)
			.first('recipients.id'));
	return copied !== undefined;
}
