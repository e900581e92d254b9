import type {Knex} from 'knex';
import type {WebhookEventType} from '../mail/event.ts';
import {idFloor} from '../mail/ids.ts';
import type {DeliveryState} from '../mail/webhook.ts';
import {rowSource, textAsBytes} from './dialect.ts';

/** An event for one endpoint, due at once. */
export type NewDelivery = {
	readonly id: string;
	readonly workspaceId: string;
	readonly endpointId: string;
	readonly messageId: string;
	readonly eventId: string;
	readonly eventType: WebhookEventType;
	readonly body: string;
	readonly createdAt: string;
};

const rowsAtOnce = 2000;

/** Adds rows of the outbox, in the transaction of their events. */
export async function insertDeliveries(trx: Knex.Transaction, deliveries: readonly NewDelivery[]): Promise<void> {
	for (let start = 0; start < deliveries.length; start += rowsAtOnce) {
		const {sql, bindings} = rowSource(
			trx,
			deliveries
				.slice(start, start + rowsAtOnce)
				.map(one => [
					one.id,
					one.workspaceId,
					one.endpointId,
					one.messageId,
					one.eventId,
					one.eventType,
					one.body,
					one.createdAt,
				]),
			8,
		);
		await trx.raw(
			`insert into webhook_deliveries (id, workspace_id, endpoint_id, message_id, event_id, event_type, body, state,
				attempts, generation, next_attempt_at, created_at)
			select v.column1, v.column2, v.column3, v.column4, v.column5, v.column6, ${textAsBytes(trx, 'v.column7')}, 'pending',
				0, 0, v.column8, v.column8
			from (${sql}) as v`,
			bindings as Knex.RawBinding[],
		);
	}
}

/** A delivery as it is read. */
export type StoredDelivery = {
	readonly id: string;
	readonly endpointId: string;
	readonly messageId: string | null;
	readonly eventType: WebhookEventType;
	readonly body: Uint8Array;
	readonly state: DeliveryState;
	readonly attempts: number;
	readonly nextAttemptAt: string | null;
	readonly lastAttemptAt: string | null;
	readonly createdAt: string;
	/** What the last attempt came to; null: none was made. */
	readonly lastStatus: number | null;
	readonly lastError: string | null;
};

const columns = [
	'id',
	'endpoint_id as endpointId',
	'message_id as messageId',
	'event_type as eventType',
	'body',
	'state',
	'attempts',
	'next_attempt_at as nextAttemptAt',
	'last_attempt_at as lastAttemptAt',
	'created_at as createdAt',
] as const;

/** Newest first, after the delivery `after` (null: from the newest). */
export async function listDeliveries(
	reader: Knex,
	endpointId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<StoredDelivery[]> {
	return await withLastAttempt(reader, await deliveryListQuery(reader, endpointId, {after, limit}));
}

export function deliveryListQuery(
	reader: Knex,
	endpointId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Knex.QueryBuilder {
	const query = reader('webhook_deliveries').where({endpoint_id: endpointId}).orderBy('id', 'desc').limit(limit);
	return (after === null ? query : query.where('id', '<', after)).select(columns);
}

async function withLastAttempt(
	reader: Knex,
	rows: ReadonlyArray<Omit<StoredDelivery, 'lastStatus' | 'lastError'>>,
): Promise<StoredDelivery[]> {
	const attempts: Array<{deliveryId: string; status: number | null; error: string | null}> = await reader(
		'webhook_attempts',
	)
		.whereIn(
			'delivery_id',
			rows.map(({id}) => id),
		)
		.orderBy(['delivery_id', 'generation', 'n'])
		.select('delivery_id as deliveryId', 'status', 'error');
	// In order, so that the last one stays.
	const last = new Map(attempts.map(attempt => [attempt.deliveryId, attempt]));
	return rows.map(row => ({
		...row,
		lastStatus: last.get(row.id)?.status ?? null,
		lastError: last.get(row.id)?.error ?? null,
	}));
}

/**
 * Starts a delivery anew, whatever became of it: a new generation, so that the end of an attempt that is under way moves
 * nothing. Undefined: there is no such delivery, or its endpoint was deleted.
 */
export async function replayDelivery(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	now: string,
): Promise<StoredDelivery | undefined> {
	const changed = await restart(trx, now)
		.where({id, workspace_id: workspaceId})
		.whereIn('endpoint_id', presentEndpoints(trx, workspaceId));
	if (changed === 0) {
		return undefined;
	}
	const rows = await trx('webhook_deliveries').where({id}).select(columns);
	return (await withLastAttempt(trx, rows))[0];
}

export type ReplayFilter = {
	readonly workspaceId: string;
	/** Events since then, milliseconds. */
	readonly since: number;
	readonly eventType?: WebhookEventType | undefined;
	readonly endpointId?: string | undefined;
};

/** Replays at most `limit` deliveries of one endpoint, oldest first, after the delivery `after`; their ids. */
export async function replayDeliveries(
	trx: Knex.Transaction,
	filter: ReplayFilter & {readonly endpointId: string; readonly after: string | null; readonly limit: number},
	now: string,
): Promise<string[]> {
	const some = trx('webhook_deliveries')
		.where({endpoint_id: filter.endpointId})
		.whereIn('endpoint_id', presentEndpoints(trx, filter.workspaceId))
		.where('id', '>', filter.after ?? idFloor('whd', filter.since))
		.orderBy('id')
		.limit(filter.limit)
		.select('id');
	if (filter.eventType !== undefined) {
		some.where('event_type', filter.eventType);
	}
	const ids: string[] = (await some).map(({id}: {id: string}) => id);
	await restart(trx, now).whereIn('id', ids);
	return ids;
}

function restart(trx: Knex.Transaction, now: string): Knex.QueryBuilder {
	return trx('webhook_deliveries').update({
		state: 'pending',
		attempts: 0,
		generation: trx.raw('generation + 1'),
		next_attempt_at: now,
		claimed_by: null,
	});
}

function presentEndpoints(trx: Knex.Transaction, workspaceId: string): Knex.QueryBuilder {
	return trx('webhook_endpoints').where({workspace_id: workspaceId}).whereNull('deleted_at').select('id');
}

/** Deliveries that wait for an attempt. */
export async function countPending(reader: Knex): Promise<number> {
	const row: {n: number | string} | undefined = await reader('webhook_deliveries')
		.whereNotNull('next_attempt_at')
		.first(reader.raw('count(*) as n'));
	return Number(row?.n ?? 0);
}
