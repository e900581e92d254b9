import type {Knex} from 'knex';
import type {WebhookEventType} from '../../mail/event.ts';
import {idFloor} from '../../mail/ids.ts';
import type {Mode} from '../../mail/message.ts';
import type {DeliveryState} from '../../mail/webhook.ts';
import {alongIndex, firstThatFit} from '../engine/along-index.ts';
import {rowSource, textAsBytes} from '../engine/dialect.ts';
import {unanswered} from '../engine/postgres-pipeline.ts';

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
					one.dueAt,
					one.createdAt,
				]),
			9,
		);
		await trx
			.raw(
				`insert into webhook_deliveries (id, workspace_id, endpoint_id, message_id, event_id, event_type, body, state,
					attempts, generation, next_attempt_at, created_at)
				select v.column1, v.column2, v.column3, v.column4, v.column5, v.column6, ${textAsBytes(trx, 'v.column7')},
					'pending', 0, 0, v.column8, v.column9
				from (${sql}) as v`,
				bindings as Knex.RawBinding[],
			)
			.options(unanswered);
	}
}

/** The oldest delivery that waits for a listener. */
export async function findWaiting(reader: Knex, endpointId: string): Promise<StoredDelivery | undefined> {
	return await reader('webhook_deliveries').where({endpoint_id: endpointId}).orderBy('id').first(columns);
}

export async function deleteDelivery(trx: Knex.Transaction, id: string): Promise<void> {
	await trx('webhook_deliveries').where({id}).delete();
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
	return await withLastAttempt(reader, await deliveryListQuery(reader, endpointId, page).select(columns));
}

/** The same, no more than fit one answer together; `next` is where the rest begins, null: there is none. */
export async function scanDeliveries(
	reader: Knex,
	endpointId: string,
	{limit, ...page}: DeliveryPage,
): Promise<{readonly rows: readonly StoredDelivery[]; readonly next: string | null}> {
	const found: Array<{id: string}> = await deliveryListQuery(reader, endpointId, {...page, limit: limit + 1}).select(
		'id',
	);
	const ids = await firstThatFit(
		reader,
		'webhook_deliveries',
		found.slice(0, limit).map(({id}) => id),
	);
	const rows = await reader('webhook_deliveries').whereIn('id', ids).orderBy('id', 'desc').select(columns);
	return {rows: await withLastAttempt(reader, rows), next: ids.length < found.length ? (ids.at(-1) ?? null) : null};
}

function deliveryListQuery(
	reader: Knex,
	endpointId: string,
	{after, limit, state, since}: DeliveryPage,
): Knex.QueryBuilder {
	const leading = {endpoint_id: endpointId, ...(state !== undefined && {state})};
	const range = {from: since === undefined ? null : idFloor('whd', since), below: after};
	return alongIndex(reader, 'webhook_deliveries', {leading, id: 'id'}, range).limit(limit);
}

export async function findDelivery(reader: Knex, workspaceId: string, id: string): Promise<StoredDelivery | undefined> {
	const rows = await reader('webhook_deliveries')
		.where({id, workspace_id: workspaceId})
		.whereIn('endpoint_id', presentEndpoints(reader, workspaceId))
		.select(columns);
	return (await withLastAttempt(reader, rows))[0];
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

async function withLastAttempt(
	reader: Knex,
	rows: ReadonlyArray<Omit<StoredDelivery, 'lastStatus' | 'lastError'>>,
): Promise<StoredDelivery[]> {
	if (rows.length === 0) {
		return [];
	}
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
 * nothing. Undefined: there is no such delivery, or its endpoint was deleted, or is not of the mode that is given.
 */
export async function replayDelivery(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	now: string,
	mode?: Mode | undefined,
): Promise<StoredDelivery | undefined> {
	const changed = await restart(trx, now)
		.where({id, workspace_id: workspaceId})
		.whereIn('endpoint_id', presentEndpoints(trx, workspaceId).where(mode === undefined ? {} : {mode}));
	return changed === 0 ? undefined : await findDelivery(trx, workspaceId, id);
}

export type ReplayFilter = {
	readonly workspaceId: string;
	readonly endpointId: string;
	/** Half-open range of the events' time, milliseconds. */
	readonly since: number;
	readonly until: number;
	readonly eventType?: WebhookEventType | undefined;
	readonly state?: DeliveryState | undefined;
};

function replayQuery(connection: Knex, filter: ReplayFilter): Knex.QueryBuilder {
	const {workspaceId, endpointId, since, until, eventType, state} = filter;
	const query = connection('webhook_deliveries')
		.where({endpoint_id: endpointId})
		.whereIn('endpoint_id', presentEndpoints(connection, workspaceId))
		.where('id', '>=', idFloor('whd', since))
		.where('id', '<', idFloor('whd', until));
	if (eventType !== undefined) {
		query.where({event_type: eventType});
	}
	if (state !== undefined) {
		query.where({state});
	}
	return query;
}

/** Starts at most `limit` deliveries anew, oldest first, after the delivery `after` (null: from the first); their ids. */
export async function replayDeliveries(
	trx: Knex.Transaction,
	filter: ReplayFilter,
	{after, limit, now}: {readonly after: string | null; readonly limit: number; readonly now: string},
): Promise<string[]> {
	const some = replayQuery(trx, filter).orderBy('id').limit(limit).select('id');
	const rows: Array<{id: string}> = await (after === null ? some : some.where('id', '>', after));
	const ids = rows.map(({id}) => id);
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

function presentEndpoints(connection: Knex, workspaceId: string): Knex.QueryBuilder {
	return connection('webhook_endpoints').where({workspace_id: workspaceId}).whereNull('deleted_at').select('id');
}

/** Deliveries that wait for an attempt. */
export async function countPending(reader: Knex): Promise<number> {
	const row: {n: number | string} | undefined = await reader('webhook_deliveries')
		.whereNotNull('next_attempt_at')
		.first(reader.raw('count(*) as n'));
	return Number(row?.n ?? 0);
}
