import type {Knex} from 'knex';
import type {EventType, Recipient} from '../mail/message.ts';
import type {ReportKind} from '../mail/report.ts';
import {createdNearIds, insertReturning, toColumns} from './engine/rows.ts';

const recipientColumns = toColumns(
	'id workspace_id message_id address address_key role destination state sent_at attempts',
);

/**
 * Returns the recipients with these ids, or of these messages, and locks them until the transaction ends. Recipients of
 * deleted workspaces are left out.
 */
export async function findReportedRecipients(
	trx: Knex.Transaction,
	by: {readonly recipientIds: readonly string[]} | {readonly messageIds: readonly string[]},
): Promise<
	Array<
		Omit<Recipient, 'state_at' | 'last_reply'> & {
			/** The topic of the message. */
			readonly topic_id: string | null;
			/** The message's extras as JSON (`readExtras`). */
			readonly extras: string | null;
		}
	>
> {
	const [column, ids] =
		'recipientIds' in by ? (['c.id', by.recipientIds] as const) : (['c.message_id', by.messageIds] as const);
	if (ids.length === 0) {
		return [];
	}
	return await trx('recipients as c')
		.join('messages as m', 'm.id', 'c.message_id')
		.join('workspaces as w', 'w.id', 'c.workspace_id')
		.whereIn(column, ids)
		.whereRaw(...createdNearIds(trx, 'c.id', 'rcp', ids))
		.whereRaw(...createdNearIds(trx, 'm.id', 'msg', ids))
		// In a fixed order, because others may be locking the same rows.
		.orderBy('c.id')
		.forNoKeyUpdate('c')
		.select(...recipientColumns.selectedOf('c'), 'm.topic_id', 'm.extras');
}

/** Returns recipients by the id in a relay's reply to their message. */
export async function findByProviderIds(
	reader: Knex,
	providerIds: readonly string[],
): Promise<Array<{readonly id: string; readonly providerId: string}>> {
	return providerIds.length === 0
		? []
		: await reader('attempts')
				.whereIn('provider_id', [...providerIds])
				.distinct('recipient_id as id', 'provider_id as providerId')
				.limit(maxPerProvider);
}

/** A reply identifies one message. If several match, more of them add nothing. */
const maxPerProvider = 10;

/**
 * Returns the newest live message to an address (comparison form) since then, in each workspace that sent to it. The
 * ids of messages contain their time of acceptance.
 */
export async function findLastMailed(trx: Knex.Transaction, addressKey: string, since: string): Promise<string[]> {
	const newest = trx('messages as m')
		.where({'m.workspace_id': trx.ref('w.id'), 'm.to_key': addressKey, 'm.mode': 'live'})
		.where('m.id', '>=', since)
		.orderBy('m.id', 'desc')
		.limit(1)
		.select('m.id');
	const rows: Array<{id: string | null}> = await trx('workspaces as w').select({id: newest});
	return rows.flatMap(({id}) => (id === null ? [] : [id]));
}

/** What an inbound message reported about a recipient. */
export type NewReport = {
	readonly id: string;
	readonly workspaceId: string;
	readonly messageId: string;
	readonly recipientId: string;
	/** The SHA-256 of the inbound message, in hex. */
	readonly inboundSha256: string;
	readonly kind: ReportKind;
	readonly category: string | null;
	readonly rule: string | null;
	readonly matched: string | null;
	/** JSON text. */
	readonly detail: string;
	readonly createdAt: string;
};

const columns = toColumns(
	'id workspaceId messageId recipientId inboundSha256 kind category rule matched detail createdAt',
);

/** Adds reports, one for each inbound message and recipient. Returns the ids of the added ones. */
export async function insertReports(trx: Knex.Transaction, reports: readonly NewReport[]): Promise<Set<string>> {
	const added = await insertReturning<{id: string}>(
		trx,
		'reports',
		columns.names,
		reports.map(columns.valuesOf),
		'on conflict do nothing returning id',
	);
	return new Set(added.map(({id}) => id));
}

export async function deleteReports(trx: Knex.Transaction, ids: readonly string[]): Promise<void> {
	if (ids.length > 0) {
		await trx('reports').whereIn('id', ids).delete();
	}
}

/** Returns the number of reports about each recipient that has any. */
export async function countReports(
	trx: Knex.Transaction,
	recipientIds: readonly string[],
): Promise<Map<string, number>> {
	const rows: Array<{recipientId: string; n: number | string}> = await trx('reports')
		.whereIn('recipient_id', recipientIds)
		// The condition of the index on these rows.
		.whereNotNull('inbound_sha256')
		.groupBy('recipient_id')
		.select('recipient_id as recipientId')
		.count('* as n');
	return new Map(rows.map(({recipientId, n}) => [recipientId, Number(n)]));
}

/** Returns the deliveries, bounces and complaints in the timelines of messages, by recipient. */
export async function readEnds(
	trx: Knex.Transaction,
	messageIds: readonly string[],
): Promise<Array<{recipientId: string; type: EventType; detail: Readonly<Record<string, unknown>>}>> {
	if (messageIds.length === 0) {
		return [];
	}
	const rows: Array<{recipientId: string; type: EventType; detail: string | null}> = await trx('events')
		.whereIn('message_id', messageIds)
		.whereIn('type', ['delivered', 'bounced', 'complained'])
		.select('recipient_id as recipientId', 'type', 'detail');
	return rows.map(row => ({...row, detail: JSON.parse(row.detail ?? '{}')}));
}

/** A stored report. */
export type StoredReport = Omit<NewReport, 'workspaceId' | 'messageId' | 'inboundSha256' | 'detail'> & {
	readonly detail: Readonly<Record<string, unknown>>;
};

const shownColumns = toColumns('id recipientId kind category rule matched detail createdAt');

/** Returns the reports about a message, oldest first, at most `limit`. */
export async function readReports(reader: Knex, messageId: string, limit: number): Promise<StoredReport[]> {
	const rows: Array<Omit<StoredReport, 'detail'> & {detail: string | null}> = await reader('reports')
		.where({message_id: messageId})
		.orderBy('id')
		.limit(limit)
		.select(shownColumns.selected);
	return rows.map(row => ({...row, detail: JSON.parse(row.detail ?? '{}')}));
}
