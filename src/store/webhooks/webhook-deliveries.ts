import type {Knex} from 'knex';
import type {WebhookEventType} from '../../mail/event.ts';
import {idFloor} from '../../mail/ids.ts';
import type {DeliveryState} from '../../mail/webhook.ts';
import {alongIndex, firstThatFit} from '../engine/along-index.ts';
import {rowSource, textAsBytes} from '../engine/dialect.ts';
import {newestFirst} from '../engine/near-ids.ts';
import {unanswered} from '../engine/postgres-pipeline.ts';
import {dequeueDeliveries, enqueueDeliveries} from './webhook-claims.ts';

/** An event for one endpoint. */
export type NewDelivery = {
	readonly id: string;
	readonly workspaceId: string;
	readonly endpointId: string;
	readonly messageId: string;
	readonly eventId: string;
	readonly eventType: WebhookEventType;
	readonly body: string;
	/** Null: the daemon never posts it, because its endpoint is a listener. */
	readonly dueAt: string | null;
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
		await trx
			.raw(
				`insert into webhook_deliveries (id, workspace_id, endpoint_id, message_id, event_id, event_type, body, state,
					attempts, generation, created_at)
				select v.column1, v.column2, v.column3, v.column4, v.column5, v.column6, ${textAsBytes(trx, 'v.column7')},
					'pending', 0, 0, v.column8
				from (${sql}) as v`,
				bindings as Knex.RawBinding[],
			)
			.options(unanswered);
	}
	await enqueueDeliveries(
		trx,
		deliveries.flatMap(({id, endpointId, dueAt}) => (dueAt === null ? [] : [{id, endpointId, dueAt, generation: 0}])),
	);
}

/** The oldest delivery that waits for a listener. */
export async function findWaiting(reader: Knex, endpointId: string): Promise<StoredDelivery | undefined> {
	const rows = await reader('webhook_deliveries')
		.where({endpoint_id: endpointId})
		.orderBy('id')
		.limit(1)
		.select(columns);
	return (await withTries(reader, rows))[0];
}

/** The deliveries about messages, whenever their events came. */
export async function findAbout(reader: Knex, messageIds: readonly string[]): Promise<string[]> {
	return await reader('webhook_deliveries').whereIn('message_id', messageIds).pluck('id');
}

/** Removes deliveries with their attempts; how many there were. */
export async function deleteDeliveries(trx: Knex.Transaction, ids: readonly string[]): Promise<number> {
	let deleted = 0;
	// A few messages may have more deliveries than a statement takes values.
	for (let start = 0; start < ids.length; start += rowsAtOnce) {
		const some = ids.slice(start, start + rowsAtOnce);
		await dequeueDeliveries(trx, some);
		await trx('webhook_attempts').whereIn('delivery_id', some).delete();
		deleted += await trx('webhook_deliveries').whereIn('id', some).delete();
	}
	return deleted;
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
	'last_attempt_at as lastAttemptAt',
	'created_at as createdAt',
] as const;

export type DeliveryPage = {
	/** After this delivery; null: from the newest. */
	readonly after: string | null;
	readonly limit: number;
	readonly state?: DeliveryState | undefined;
	/** Only those whose event came then or later, milliseconds. */
	readonly since?: number | undefined;
};

/** Newest first. */
export async function listDeliveries(reader: Knex, endpointId: string, page: DeliveryPage): Promise<StoredDelivery[]> {
	return await readDeliveries(reader, await listIds(reader, endpointId, page));
}

/** The newest delivery of each endpoint that has one, by the endpoint's id. */
export async function findNewest(reader: Knex, endpointIds: readonly string[]): Promise<Map<string, StoredDelivery>> {
	const ids: string[] = [];
	let missing = endpointIds;
	for (const part of newestFirst(reader, 'whd', {below: null})) {
		if (missing.length === 0) {
			break;
		}
		const range = reader('webhook_deliveries as d').whereRaw('d.endpoint_id = e.id');
		if (part.from !== undefined && part.from !== null) {
			range.where('d.id', '>=', part.from);
		}
		if (part.below !== null) {
			range.where('d.id', '<', part.below);
		}
		const newest = range.orderBy([
			{column: 'd.endpoint_id', order: 'desc'},
			{column: 'd.id', order: 'desc'},
		]);
		const found: Array<{endpoint: string; id: string | null}> = await reader('webhook_endpoints as e')
			.whereIn('e.id', missing)
			.select('e.id as endpoint', newest.limit(1).select('d.id').as('id'));
		ids.push(...found.flatMap(({id}) => id ?? []));
		missing = found.flatMap(({endpoint, id}) => (id === null ? endpoint : []));
	}
	const rows = await readDeliveries(reader, ids);
	return new Map(rows.map(row => [row.endpointId, row]));
}

/** The same, no more than fit one answer together; `next` is where the rest begins, null: there is none. */
export async function scanDeliveries(
	reader: Knex,
	endpointId: string,
	{limit, ...page}: DeliveryPage,
): Promise<{readonly rows: readonly StoredDelivery[]; readonly next: string | null}> {
	const found = await listIds(reader, endpointId, {...page, limit: limit + 1});
	const ids = await firstThatFit(reader, 'webhook_deliveries', found.slice(0, limit));
	const rows = await readDeliveries(reader, ids);
	return {rows, next: ids.length < found.length ? (ids.at(-1) ?? null) : null};
}

async function listIds(
	reader: Knex,
	endpointId: string,
	{after, limit, state, since}: DeliveryPage,
): Promise<string[]> {
	const leading = {endpoint_id: endpointId, ...(state !== undefined && {state})};
	const range = {from: since === undefined ? null : idFloor('whd', since), below: after};
	const ids: string[] = [];
	for (const part of newestFirst(reader, 'whd', range)) {
		const query = alongIndex(reader, 'webhook_deliveries', {leading, id: 'id'}, part);
		ids.push(...(await query.limit(limit - ids.length).pluck('id')));
		if (ids.length === limit) {
			break;
		}
	}
	return ids;
}

async function readDeliveries(reader: Knex, ids: readonly string[]): Promise<StoredDelivery[]> {
	if (ids.length === 0) {
		return [];
	}
	const rows = await reader('webhook_deliveries').whereIn('id', ids).orderBy('id', 'desc').select(columns);
	return await withTries(reader, rows);
}

export async function findDelivery(reader: Knex, workspaceId: string, id: string): Promise<StoredDelivery | undefined> {
	const rows = await reader('webhook_deliveries')
		.where({id, workspace_id: workspaceId})
		.whereIn('endpoint_id', presentEndpoints(reader, workspaceId))
		.select(columns);
	return (await withTries(reader, rows))[0];
}

/** An attempt as it was stored; `generation` counts replays. */
export type StoredPost = {
	readonly generation: number;
	readonly n: number;
	readonly at: string;
	readonly status: number | null;
	readonly error: string | null;
	/** How the body of an answer begins that refused. */
	readonly answer: string | null;
	readonly ms: number;
};

/** Oldest first. */
export async function listPosts(reader: Knex, deliveryId: string): Promise<StoredPost[]> {
	return await reader('webhook_attempts')
		.where({delivery_id: deliveryId})
		.orderBy(['generation', 'n'])
		.select('generation', 'n', 'at', 'status', 'error', 'answer', 'ms');
}

/** With the last attempt and the next one. */
async function withTries(
	reader: Knex,
	rows: ReadonlyArray<Omit<StoredDelivery, 'nextAttemptAt' | 'lastStatus' | 'lastError'>>,
): Promise<StoredDelivery[]> {
	if (rows.length === 0) {
		return [];
	}
	const ids = rows.map(({id}) => id);
	const attempts: Array<{deliveryId: string; status: number | null; error: string | null}> = await reader(
		'webhook_attempts',
	)
		.whereIn('delivery_id', ids)
		.orderBy(['delivery_id', 'generation', 'n'])
		.select('delivery_id as deliveryId', 'status', 'error');
	// In order, so that the last one stays.
	const last = new Map(attempts.map(attempt => [attempt.deliveryId, attempt]));
	const queued: Array<{id: string; at: string}> = await reader('webhook_queue')
		.whereIn('delivery_id', ids)
		.select('delivery_id as id', 'next_attempt_at as at');
	const next = new Map(queued.map(({id, at}) => [id, at]));
	return rows.map(row => ({
		...row,
		nextAttemptAt: next.get(row.id) ?? null,
		lastStatus: last.get(row.id)?.status ?? null,
		lastError: last.get(row.id)?.error ?? null,
	}));
}

/** Those of the workspace that were not deleted. */
export function presentEndpoints(connection: Knex, workspaceId: string): Knex.QueryBuilder {
	return connection('webhook_endpoints').where({workspace_id: workspaceId}).whereNull('deleted_at').select('id');
}
