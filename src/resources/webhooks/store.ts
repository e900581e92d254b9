import type {Knex} from 'knex';
import {idFloor} from '../../mail/ids.ts';
import type {Mode, WebhookEventType} from '../../mail/message.ts';
import {type DeliveryState, type DisabledReason, type EndpointForm, listenerUrl} from '../../mail/webhook.ts';
import {rowSource, textAsBytes} from '../../store/engine/dialect.ts';
import {alongIndex, firstThatFit, insertRows, newestFirst, toColumns} from '../../store/engine/rows.ts';
import {findHidden} from '../../store/erasures.ts';
import {unanswered} from '../../store/postgres/postgres-client.ts';
import {dequeueDeliveries, enqueueDeliveries} from './queue-store.ts';

export type Endpoint = EndpointForm & {
	readonly id: string;
	readonly workspaceId: string;
	/** `test` if it was created with a test key and gets only events of test messages; `live` if it gets all events. */
	readonly mode: Mode;
	readonly url: string;
	readonly events: readonly WebhookEventType[];
	/** Sealed for the endpoint's id. */
	readonly secret: string;
	/** The previous secret, sealed in the same way, which also signs until `previousUntil`; `null` if there is none. */
	readonly previousSecret: string | null;
	readonly previousUntil: string | null;
	readonly disabledAt: string | null;
	/** When the current series of failed attempts began; `null` if the last attempt succeeded. */
	readonly failingSince: string | null;
	readonly createdAt: string;
};

/** Returns `failing` if the last attempt failed. */
export function endpointState({
	disabledAt,
	failingSince,
}: Pick<Endpoint, 'disabledAt' | 'failingSince'>): 'active' | 'failing' | 'disabled' {
	if (disabledAt !== null) {
		return 'disabled';
	}
	return failingSince === null ? 'active' : 'failing';
}

type Row = Omit<Endpoint, 'events'> & {readonly events: string};

const columns = toColumns(
	'id workspaceId mode url events format retry secret previousSecret previousUntil disabledAt disabledReason failingSince createdAt',
);

const toEndpoint = (row: Row): Endpoint => ({...row, events: JSON.parse(row.events)});

/** Queries the endpoints that were not deleted. */
function present(connection: Knex): Knex.QueryBuilder {
	return connection('webhook_endpoints').whereNull('deleted_at');
}

/** Returns `false` if the workspace already has `max` endpoints. */
export async function insertEndpoint(trx: Knex.Transaction, endpoint: Endpoint, max: number): Promise<boolean> {
	// Locked because, on PostgreSQL, another node may add an endpoint at this moment.
	await trx('workspaces').where({id: endpoint.workspaceId}).forUpdate().select('id');
	const row: {n: number | string} | undefined = await present(trx)
		.where({workspace_id: endpoint.workspaceId})
		.first(trx.raw('count(*) as n'));
	if (Number(row?.n) >= max) {
		return false;
	}
	const values = columns.valuesOf({...endpoint, events: JSON.stringify(endpoint.events)});
	await insertRows(trx, 'webhook_endpoints', columns.names, [values]);
	return true;
}

/** Returns endpoints, newest first: those after `after`, or from the newest if it is `null`, of one mode or of both. */
export async function listEndpoints(
	reader: Knex,
	workspaceId: string,
	{after, limit, mode}: {readonly after: string | null; readonly limit: number; readonly mode?: Mode | undefined},
): Promise<Endpoint[]> {
	const index = {leading: {workspace_id: workspaceId}, id: 'id'};
	const query = alongIndex(reader, 'webhook_endpoints', index, {below: after}).whereNull('deleted_at').limit(limit);
	if (mode !== undefined) {
		query.where({mode});
	}
	const rows: Row[] = await query.select(columns.selected);
	return rows.map(toEndpoint);
}

export async function hasEndpoints(reader: Knex): Promise<boolean> {
	return (await present(reader).first('id')) !== undefined;
}

export async function findEndpoint(reader: Knex, workspaceId: string, id: string): Promise<Endpoint | undefined> {
	const row: Row | undefined = await present(reader).where({workspace_id: workspaceId, id}).first(columns.selected);
	return row && toEndpoint(row);
}

export async function switchEndpoint(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	{disabledAt, failingSince}: Pick<Endpoint, 'disabledAt' | 'failingSince'>,
): Promise<void> {
	const change = {disabled_at: disabledAt, disabled_reason: null, failing_since: failingSince};
	await present(trx).where({workspace_id: workspaceId, id}).update(change);
}

/** Changes to an endpoint. Properties that are absent or `undefined` stay as they are. */
export type EndpointChanges = {
	readonly [Name in 'url' | 'events' | 'format' | 'retry']?: NonNullable<Endpoint[Name]> | undefined;
};

export async function updateEndpoint(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	{events, ...changes}: EndpointChanges,
): Promise<void> {
	const values = {id, ...changes, events: events && JSON.stringify(events)};
	await present(trx).where({workspace_id: workspaceId, id}).update(values);
}

/** Disables an endpoint; returns its workspace and URL, or `undefined` if it was disabled before. */
export async function disableEndpoint(
	trx: Knex.Transaction,
	id: string,
	{at, reason}: {readonly at: string; readonly reason: DisabledReason},
): Promise<Pick<Endpoint, 'workspaceId' | 'mode' | 'url'> | undefined> {
	const [row] = await present(trx)
		.where({id})
		.whereNull('disabled_at')
		.update({disabled_at: at, disabled_reason: reason})
		.returning(['workspace_id as workspaceId', 'mode', 'url']);
	return row;
}

export type EndpointSecrets = Pick<Endpoint, 'secret' | 'previousSecret' | 'previousUntil'>;

export async function updateSecrets(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	{secret, previousSecret, previousUntil}: EndpointSecrets,
): Promise<void> {
	await present(trx)
		.where({workspace_id: workspaceId, id})
		.update({secret, previous_secret: previousSecret, previous_until: previousUntil});
}

/** Hides an endpoint; `purgeEndpoints` removes its rows. Returns `false` if there is no such endpoint. */
export async function deleteEndpoint(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	now: string,
): Promise<boolean> {
	// The secrets are no longer needed.
	const changes = {deleted_at: now, secret: '', previous_secret: null, previous_until: null};
	const changed = await present(trx).where({workspace_id: workspaceId, id}).update(changes);
	return changed === 1;
}

/** Returns the endpoints of listeners that have not accepted a delivery created before that id. */
export async function findAbandoned(
	reader: Knex,
	before: string,
): Promise<Array<Pick<Endpoint, 'id' | 'workspaceId'>>> {
	return await present(reader)
		.whereLike('url', `${listenerUrl('')}%`)
		.whereExists(
			reader('webhook_deliveries as d')
				.whereRaw('d.endpoint_id = webhook_endpoints.id')
				.where('d.id', '<', before),
		)
		.select('id', 'workspace_id as workspaceId');
}

export type Subscriber = Pick<Endpoint, 'id' | 'workspaceId' | 'mode' | 'url' | 'events' | 'format'>;

/** Returns the endpoints of these workspaces that get events now. */
export async function findSubscribers(trx: Knex.Transaction, workspaceIds: readonly string[]): Promise<Subscriber[]> {
	const rows: Row[] = await present(trx)
		.whereIn('workspace_id', workspaceIds)
		.whereNull('disabled_at')
		.orderBy('id')
		.select('id', 'workspace_id as workspaceId', 'mode', 'url', 'events', 'format');
	return rows.map(row => ({...row, events: JSON.parse(row.events)}));
}

/** An event for one endpoint. */
export type NewDelivery = {
	readonly id: string;
	readonly workspaceId: string;
	readonly endpointId: string;
	/** `null` if the event is about no message, or the message was removed. */
	readonly messageId: string | null;
	readonly eventId: string;
	readonly eventType: WebhookEventType;
	readonly body: string;
	/** `null` if the daemon never posts it, because its endpoint is a listener. */
	readonly dueAt: string | null;
	readonly createdAt: string;
};

const rowsAtOnce = 2000;

/** Adds rows to the outbox, in the transaction of their events. */
export async function insertDeliveries(trx: Knex.Transaction, deliveries: readonly NewDelivery[]): Promise<void> {
	for (let start = 0; start < deliveries.length; start += rowsAtOnce) {
		const {sql, bindings} = rowSource(
			trx,
			deliveries
				.slice(start, start + rowsAtOnce)
				.map(delivery => [
					delivery.id,
					delivery.workspaceId,
					delivery.endpointId,
					delivery.messageId,
					delivery.eventId,
					delivery.eventType,
					delivery.body,
					delivery.createdAt,
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
		deliveries.flatMap(({id, endpointId, dueAt}) =>
			dueAt === null ? [] : [{id, endpointId, dueAt, generation: 0}],
		),
	);
}

/** Returns the oldest delivery that waits for a listener. */
export async function findWaiting(reader: Knex, endpointId: string): Promise<StoredDelivery | undefined> {
	const rows = await reader('webhook_deliveries')
		.where({endpoint_id: endpointId})
		.orderBy('id')
		.limit(1)
		.select(deliveryColumns);
	return (await withAttempts(reader, rows))[0];
}

/** Returns the ids of all deliveries about these messages. */
export async function findForMessages(reader: Knex, messageIds: readonly string[]): Promise<string[]> {
	return await reader('webhook_deliveries').whereIn('message_id', messageIds).pluck('id');
}

/** Returns the ids of some deliveries about no message, created before a time in milliseconds. */
export async function findWithoutMessage(reader: Knex, before: number): Promise<string[]> {
	return await reader('webhook_deliveries')
		.whereNull('message_id')
		.where('id', '<', idFloor('whd', before))
		.limit(rowsAtOnce)
		.pluck('id');
}

/** Deletes deliveries with their attempts; returns how many. */
export async function deleteDeliveries(trx: Knex.Transaction, ids: readonly string[]): Promise<number> {
	let deleted = 0;
	// A few messages may have more deliveries than a statement accepts parameters.
	for (let start = 0; start < ids.length; start += rowsAtOnce) {
		const part = ids.slice(start, start + rowsAtOnce);
		await dequeueDeliveries(trx, part);
		await trx('webhook_attempts').whereIn('delivery_id', part).delete();
		deleted += await trx('webhook_deliveries').whereIn('id', part).delete();
	}
	return deleted;
}

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
	/** The result of the last attempt; `null` if there was none. */
	readonly lastStatus: number | null;
	readonly lastError: string | null;
};

const {selected: deliveryColumns} = toColumns(
	'id endpointId messageId eventType body state attempts lastAttemptAt createdAt',
);

type DeliveryPage = {
	/** After this delivery; from the newest if `null`. */
	readonly after: string | null;
	readonly limit: number;
	readonly state?: DeliveryState | undefined;
	/** Only deliveries of events at this time or later, in milliseconds. */
	readonly since?: number | undefined;
};

/** Returns a page of deliveries, newest first. */
export async function listDeliveries(reader: Knex, endpointId: string, page: DeliveryPage): Promise<StoredDelivery[]> {
	return await readDeliveries(reader, await listIds(reader, endpointId, page));
}

/** Returns the newest delivery of each endpoint that has one, by the endpoint's id. */
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
		const newestRows: Array<{endpoint: string; id: string | null}> = await reader('webhook_endpoints as e')
			.whereIn('e.id', missing)
			.select('e.id as endpoint', newest.limit(1).select('d.id').as('id'));
		ids.push(...newestRows.flatMap(({id}) => id ?? []));
		missing = newestRows.flatMap(({endpoint, id}) => (id === null ? endpoint : []));
	}
	const rows = await readDeliveries(reader, ids);
	return new Map(rows.map(row => [row.endpointId, row]));
}

/** Like `listDeliveries`, but only as many as fit one response. `next` is where the rest begins, `null` at the end. */
export async function scanDeliveries(
	reader: Knex,
	endpointId: string,
	{limit, ...page}: DeliveryPage,
): Promise<{readonly rows: readonly StoredDelivery[]; readonly next: string | null}> {
	const listedIds = await listIds(reader, endpointId, {...page, limit: limit + 1});
	const ids = await firstThatFit(reader, 'webhook_deliveries', listedIds.slice(0, limit));
	const rows = await readDeliveries(reader, ids);
	return {rows, next: ids.length < listedIds.length ? (ids.at(-1) ?? null) : null};
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
	const rows = await reader('webhook_deliveries').whereIn('id', ids).orderBy('id', 'desc').select(deliveryColumns);
	return await withAttempts(reader, rows);
}

export async function findDelivery(reader: Knex, workspaceId: string, id: string): Promise<StoredDelivery | undefined> {
	const rows = await reader('webhook_deliveries')
		.where({id, workspace_id: workspaceId})
		.whereIn('endpoint_id', presentEndpoints(reader, workspaceId))
		.select(deliveryColumns);
	return (await withAttempts(reader, rows))[0];
}

/** Adds the result of the last attempt and the time of the next one. */
async function withAttempts(
	reader: Knex,
	rows: ReadonlyArray<Omit<StoredDelivery, 'nextAttemptAt' | 'lastStatus' | 'lastError'>>,
): Promise<StoredDelivery[]> {
	const hidden = await findHidden(
		reader,
		rows.flatMap(({messageId}) => messageId ?? []),
	);
	const visible = rows.filter(({messageId}) => messageId === null || !hidden.has(messageId));
	if (visible.length === 0) {
		return [];
	}
	const ids = visible.map(({id}) => id);
	const attempts: Array<{deliveryId: string; status: number | null; error: string | null}> = await reader(
		'webhook_attempts',
	)
		.whereIn('delivery_id', ids)
		.orderBy(['delivery_id', 'generation', 'n'])
		.select('delivery_id as deliveryId', 'status', 'error');
	// Later attempts replace earlier ones.
	const last = new Map(attempts.map(attempt => [attempt.deliveryId, attempt]));
	const queued: Array<{id: string; at: string}> = await reader('webhook_queue')
		.whereIn('delivery_id', ids)
		.select('delivery_id as id', 'next_attempt_at as at');
	const next = new Map(queued.map(({id, at}) => [id, at]));
	return visible.map(row => ({
		...row,
		// It is the id of a received message if the delivery is about one.
		messageId: row.messageId?.startsWith('msg_') ? row.messageId : null,
		nextAttemptAt: next.get(row.id) ?? null,
		lastStatus: last.get(row.id)?.status ?? null,
		lastError: last.get(row.id)?.error ?? null,
	}));
}

function presentEndpoints(connection: Knex, workspaceId: string): Knex.QueryBuilder {
	return connection('webhook_endpoints').where({workspace_id: workspaceId}).whereNull('deleted_at').select('id');
}

/**
 * Restarts a delivery in any state. The new generation makes the outcome of a running attempt irrelevant. Returns
 * `undefined` if the delivery does not exist, or its endpoint was deleted or has another mode.
 */
export async function replayDelivery(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	now: string,
	mode?: Mode | undefined,
): Promise<StoredDelivery | undefined> {
	const ids: string[] = await trx('webhook_deliveries')
		.where({id, workspace_id: workspaceId})
		.whereIn('endpoint_id', presentEndpoints(trx, workspaceId).where(mode === undefined ? {} : {mode}))
		.pluck('id');
	await restart(trx, ids, now);
	return await (ids.length === 0 ? undefined : findDelivery(trx, workspaceId, id));
}

type ReplayFilter = {
	readonly workspaceId: string;
	readonly endpointId: string;
	/** The half-open range of the events' times, in milliseconds. */
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

/** Restarts at most `limit` deliveries, oldest first, after `after` or from the first; returns their ids. */
export async function replayDeliveries(
	trx: Knex.Transaction,
	filter: ReplayFilter,
	{after, limit, now}: {readonly after: string | null; readonly limit: number; readonly now: string},
): Promise<string[]> {
	const query = replayQuery(trx, filter).orderBy('id').limit(limit).select('id');
	const rows: Array<{id: string}> = await (after === null ? query : query.where('id', '>', after));
	const ids = rows.map(({id}) => id);
	await restart(trx, ids, now);
	return ids;
}

async function restart(trx: Knex.Transaction, ids: readonly string[], now: string): Promise<void> {
	if (ids.length === 0) {
		return;
	}
	await trx('webhook_queue').whereIn('delivery_id', ids).orderBy('delivery_id').forUpdate().select('delivery_id');
	const restarted: Array<{id: string; endpointId: string; generation: number}> = await trx('webhook_deliveries')
		.whereIn('id', ids)
		.update({state: 'pending', attempts: 0, generation: trx.raw('generation + 1')})
		.returning(['id', 'endpoint_id as endpointId', 'generation']);
	await enqueueDeliveries(
		trx,
		restarted.map(delivery => ({...delivery, dueAt: now})),
	);
}
