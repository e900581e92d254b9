import type {Knex} from 'knex';
import type {Role} from '../mail/message.ts';
import {rowSource, rowsOf} from './engine/dialect.ts';
import {nearIds} from './engine/near-ids.ts';

export type EngagementType = 'opened' | 'clicked';

/** How often a copy was opened, or one of its links clicked; times in the store's form. */
export type EngagementCount = {
	readonly recipientId: string;
	readonly kind: EngagementType;
	/** Where the link leads; empty for an open. */
	readonly url: string;
	readonly n: number;
	/** Those of `n` that were a machine's. */
	readonly machineN: number;
	readonly firstAt: string;
	readonly lastAt: string;
};

/**
 * Adds the counts, of which no two may be of the same link, in their order; answers whose first these are. One row stands
 * for all opens of a copy, one for all clicks of one of its links.
 */
export async function addEngagement(trx: Knex.Transaction, counts: readonly EngagementCount[]): Promise<boolean[]> {
	if (counts.length === 0) {
		return [];
	}
	const {sql, bindings} = rowSource(
		trx,
		counts.map(one => [one.recipientId, one.kind, one.url, one.n, one.machineN, one.firstAt, one.lastAt]),
		7,
	);
	const rows: Array<{recipient_id: string; kind: string; url: string; n: number}> = await rowsOf(
		trx,
		`insert into engagement (recipient_id, kind, url, n, machine_n, first_at, last_at) ${sql}
		on conflict (recipient_id, kind, url) do update set
			n = engagement.n + excluded.n,
			machine_n = engagement.machine_n + excluded.machine_n,
			last_at = case when excluded.last_at > engagement.last_at then excluded.last_at else engagement.last_at end
		returning recipient_id, kind, url, n`,
		bindings,
	);
	const totals = new Map(rows.map(row => [`${row.recipient_id} ${row.kind} ${row.url}`, row.n]));
	// What was added is all there is: the row is new.
	return counts.map(one => totals.get(`${one.recipientId} ${one.kind} ${one.url}`) === one.n);
}

/** A copy that may be tracked. */
export type TrackedRecipient = {
	readonly id: string;
	readonly workspaceId: string;
	readonly messageId: string;
	/** As the caller spelled it. */
	readonly address: string;
	readonly role: Role;
	readonly destination: string;
	/** Null: the workspace does not track them (any more). */
	readonly trackOpensAt: string | null;
	readonly trackClicksAt: string | null;
};

/** All copies of these messages, as far as they are still there and not erased; they stay so until the transaction ends. */
export async function findTrackedRecipients(
	trx: Knex.Transaction,
	messageIds: readonly string[],
): Promise<TrackedRecipient[]> {
	return await trx('recipients as r')
		.join('messages as m', 'm.id', 'r.message_id')
		.join('workspaces as w', 'w.id', 'r.workspace_id')
		.whereIn('r.message_id', messageIds)
		.whereRaw(...nearIds(trx, 'r.id', 'rcp', messageIds))
		.whereRaw(...nearIds(trx, 'm.id', 'msg', messageIds))
		.whereNull('m.erased_at')
		.forShare('r')
		.select(
			'r.id',
			'r.workspace_id as workspaceId',
			'r.message_id as messageId',
			'r.address',
			'r.role',
			'r.destination',
			'w.track_opens_at as trackOpensAt',
			'w.track_clicks_at as trackClicksAt',
		);
}

/** What was opened and clicked of a message, by copy, opens first. */
export async function readEngagement(reader: Knex, messageId: string): Promise<EngagementCount[]> {
	return await reader('engagement as e')
		.join('recipients as r', 'r.id', 'e.recipient_id')
		.where('r.message_id', messageId)
		.whereRaw(...nearIds(reader, 'r.id', 'rcp', [messageId]))
		.whereRaw(...nearIds(reader, 'e.recipient_id', 'rcp', [messageId]))
		.orderBy([{column: 'e.recipient_id'}, {column: 'e.kind', order: 'desc'}, {column: 'e.first_at'}, {column: 'e.url'}])
		.select(
			'e.recipient_id as recipientId',
			'e.kind',
			'e.url',
			'e.n',
			'e.machine_n as machineN',
			'e.first_at as firstAt',
			'e.last_at as lastAt',
		);
}
