import type {Knex} from 'knex';
import type {Dialect} from './engine/dialect.ts';
import {rowsOf} from './engine/dialect.ts';
import {nearIds} from './engine/near-ids.ts';
import {dropTerms} from './message-terms.ts';
import {deleteDeliveries, findAbout} from './webhooks/webhook-deliveries.ts';

export type Removal = {
	/** Messages after this id are looked at; empty: from the oldest. */
	readonly after: string;
	/** Ids from this one on are kept. */
	readonly before: string;
	/** Of this workspace alone; absent: of all. */
	readonly workspaceId?: string;
	/** So many messages are looked at. */
	readonly limit: number;
};

export type Removed = {
	/** The message after which the next step goes on; null: there are no more. */
	readonly next: string | null;
	/** How many messages are gone. */
	readonly messages: number;
	/** The copies that are gone, and may have files. */
	readonly recipientIds: readonly string[];
};

/**
 * Removes old messages with all that belongs to them, but none with a copy in the queue. Those that another node is
 * removing, or something is just being added to, are passed over.
 */
export async function removeMessages(
	trx: Knex.Transaction,
	dialect: Dialect,
	{after, before, workspaceId, limit}: Removal,
): Promise<Removed> {
	const [scope, only] = workspaceId === undefined ? ['', []] : ['workspace_id = ? and', [workspaceId]];
	const rows: Array<{id: string}> = await rowsOf(
		trx,
		`select id from messages where ${scope} id > ? and id < ? order by id limit ? ${dialect.skipLocked}`,
		[...only, after, before, limit],
	);
	const ids = rows.map(({id}) => id);
	const waiting: string[] = await trx('recipients as r')
		.whereIn('r.message_id', ids)
		.whereRaw(...nearIds(trx, 'r.id', 'rcp', ids))
		.whereExists(trx('queue as q').select('q.recipient_id').whereRaw('q.recipient_id = r.id'))
		.pluck('r.message_id');
	const old = ids.filter(id => !waiting.includes(id));
	// What is just being added to a copy has locked its row, and is there when the others go.
	const recipientIds: string[] = await trx('recipients')
		.whereIn('message_id', old)
		.whereRaw(...nearIds(trx, 'id', 'rcp', old))
		.orderBy('id')
		.forUpdate()
		.pluck('id');
	await dropTerms(trx, old);
	for (const table of ['attempts', 'engagement']) {
		await trx(table).whereIn('recipient_id', recipientIds).delete();
	}
	for (const table of ['events', 'attachments', 'reports']) {
		await trx(table).whereIn('message_id', old).delete();
	}
	await deleteDeliveries(trx, await findAbout(trx, old));
	await trx('recipients').whereIn('id', recipientIds).delete();
	const messages = await trx('messages').whereIn('id', old).delete();
	return {next: ids.length === limit ? (ids.at(-1) ?? null) : null, messages, recipientIds};
}
