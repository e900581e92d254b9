import type {Knex} from 'knex';
import {idFloor} from '../mail/ids.ts';
import {insertRows} from './engine/insert-rows.ts';
import {type Pair, pairKey, selectPairs} from './engine/pairs.ts';

/** Failures of an address that do not suppress by themselves, since the last delivery to it. */
export type AddressHealth = {
	readonly softMessages: number;
	/** When the first of them was. */
	readonly softSince: string;
	readonly lastMessageId: string;
};

type Row = {
	readonly soft_messages: number;
	readonly soft_since: string | null;
	readonly last_message_id: string | null;
};

/** How long before the first failure a message may have been accepted whose delivery came after it, milliseconds. */
const longestQueueMs = 7 * 86_400_000;

/** The health of those addresses that failed before, by `pairKey`. */
export async function readHealth(trx: Knex.Transaction, pairs: readonly Pair[]): Promise<Map<string, AddressHealth>> {
	const rows = await selectPairs<Row>(trx, 'address_health', ['soft_messages', 'soft_since', 'last_message_id'], pairs);
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

/** Writes the health of addresses, in an order of its own: others may write the same ones. */
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

/** Forgets the failures of an address: the next one is the first. */
export async function removeHealth(trx: Knex.Transaction, [workspaceId, addressKey]: Pair): Promise<void> {
	await trx('address_health').where({workspace_id: workspaceId, address_key: addressKey}).delete();
}

/** Whether a copy for the address stands as delivered since then: no report took it back. */
export async function hasDelivery(
	trx: Knex.Transaction,
	[workspaceId, addressKey]: Pair,
	since: string,
): Promise<boolean> {
	const accepted = idFloor('msg', Date.parse(since) - longestQueueMs);
	const delivered = trx('recipients')
		.whereIn('recipients.state', ['delivered', 'complained'])
		.where('recipients.state_at', '>', since)
		// The days in which they are.
		.where('recipients.id', '>=', idFloor('rcp', Date.parse(since) - longestQueueMs))
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
