import type {Knex} from 'knex';
import type {WebhookEventType} from '../../mail/event.ts';
import {idFloor} from '../../mail/ids.ts';
import type {Mode} from '../../mail/message.ts';
import type {DeliveryState} from '../../mail/webhook.ts';
import {enqueueDeliveries} from './webhook-claims.ts';
import {findDelivery, presentEndpoints, type StoredDelivery} from './webhook-deliveries.ts';

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
	const found: string[] = await trx('webhook_deliveries')
		.where({id, workspace_id: workspaceId})
		.whereIn('endpoint_id', presentEndpoints(trx, workspaceId).where(mode === undefined ? {} : {mode}))
		.pluck('id');
	await restart(trx, found, now);
	return await (found.length === 0 ? undefined : findDelivery(trx, workspaceId, id));
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
	await restart(trx, ids, now);
	return ids;
}

async function restart(trx: Knex.Transaction, ids: readonly string[], now: string): Promise<void> {
	if (ids.length === 0) {
		return;
	}
	await trx('webhook_queue').whereIn('delivery_id', ids).orderBy('delivery_id').forUpdate().select('delivery_id');
	const begun: Array<{id: string; endpointId: string; generation: number}> = await trx('webhook_deliveries')
		.whereIn('id', ids)
		.update({state: 'pending', attempts: 0, generation: trx.raw('generation + 1')})
		.returning(['id', 'endpoint_id as endpointId', 'generation']);
	await enqueueDeliveries(
		trx,
		begun.map(one => ({...one, dueAt: now})),
	);
}
