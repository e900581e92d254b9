import type {Knex} from 'knex';
import type {WebhookEventType} from '../../mail/event.ts';
import type {Mode} from '../../mail/message.ts';
import {listenerUrl} from '../../mail/webhook.ts';
import {alongIndex} from '../engine/along-index.ts';
import {deleteDeliveries} from './webhook-deliveries.ts';

/** An endpoint that events are posted to. */
export type Endpoint = {
	readonly id: string;
	readonly workspaceId: string;
	/** `test`: a test key made it, and it gets events of test mail alone; `live`: it gets all. */
	readonly mode: Mode;
	readonly url: string;
	readonly events: readonly WebhookEventType[];
	/** Sealed for the endpoint's id. */
	readonly secret: string;
	/** The secret before it, sealed likewise, which signs too until `previousUntil`; null: there is none. */
	readonly previousSecret: string | null;
	readonly previousUntil: string | null;
	readonly disabledAt: string | null;
	/** When the first attempt failed after the last one that did not; null: the last one did not. */
	readonly failingSince: string | null;
	readonly createdAt: string;
};

/** `failing`: the last attempt failed. */
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

const columns = [
	'id',
	'workspace_id as workspaceId',
	'mode',
	'url',
	'events',
	'secret',
	'previous_secret as previousSecret',
	'previous_until as previousUntil',
	'disabled_at as disabledAt',
	'failing_since as failingSince',
	'created_at as createdAt',
] as const;

const toEndpoint = (row: Row): Endpoint => ({...row, events: JSON.parse(row.events)});

/** Endpoints that were not deleted. */
function present(connection: Knex): Knex.QueryBuilder {
	return connection('webhook_endpoints').whereNull('deleted_at');
}

/** False: the workspace has `most` endpoints already. */
export async function insertEndpoint(trx: Knex.Transaction, endpoint: Endpoint, most: number): Promise<boolean> {
	// On PostgreSQL another node may add one at this moment.
	await trx('workspaces').where({id: endpoint.workspaceId}).forUpdate().select('id');
	const row: {n: number | string} | undefined = await present(trx)
		.where({workspace_id: endpoint.workspaceId})
		.first(trx.raw('count(*) as n'));
	if (Number(row?.n) >= most) {
		return false;
	}
	await trx('webhook_endpoints').insert({
		id: endpoint.id,
		workspace_id: endpoint.workspaceId,
		mode: endpoint.mode,
		url: endpoint.url,
		events: JSON.stringify(endpoint.events),
		secret: endpoint.secret,
		previous_secret: endpoint.previousSecret,
		previous_until: endpoint.previousUntil,
		disabled_at: endpoint.disabledAt,
		failing_since: endpoint.failingSince,
		created_at: endpoint.createdAt,
	});
	return true;
}

/** Newest first, after the endpoint `after` (null: from the newest), of this mode (undefined: of any). */
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
	const rows: Row[] = await query.select(columns);
	return rows.map(toEndpoint);
}

/** Whether any workspace has an endpoint. */
export async function hasEndpoints(reader: Knex): Promise<boolean> {
	return (await present(reader).first('id')) !== undefined;
}

export async function findEndpoint(reader: Knex, workspaceId: string, id: string): Promise<Endpoint | undefined> {
	const row: Row | undefined = await present(reader).where({workspace_id: workspaceId, id}).first(columns);
	return row && toEndpoint(row);
}

/** False: there is no such endpoint. */
export async function switchEndpoint(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	disabledAt: string | null,
): Promise<boolean> {
	const changed = await present(trx).where({workspace_id: workspaceId, id}).update({disabled_at: disabledAt});
	return changed === 1;
}

/** False: there is no such endpoint. */
export async function updateEndpoint(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	{url, events}: Partial<Pick<Endpoint, 'url' | 'events'>>,
): Promise<boolean> {
	const changes = {...(url !== undefined && {url}), ...(events && {events: JSON.stringify(events)})};
	return (
		(await present(trx)
			.where({workspace_id: workspaceId, id})
			.update({id, ...changes})) === 1
	);
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

/** From now on nobody finds it; `purgeEndpoints` takes its rows away. False: there is no such endpoint. */
export async function deleteEndpoint(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	now: string,
): Promise<boolean> {
	// The secrets are of no use to anybody any more.
	const gone = {deleted_at: now, secret: '', previous_secret: null, previous_until: null};
	const changed = await present(trx).where({workspace_id: workspaceId, id}).update(gone);
	return changed === 1;
}

/** Endpoints of listeners that did not take a delivery from before that id. */
export async function findAbandoned(
	reader: Knex,
	before: string,
): Promise<Array<Pick<Endpoint, 'id' | 'workspaceId'>>> {
	return await present(reader)
		.whereLike('url', `${listenerUrl('')}%`)
		.whereExists(
			reader('webhook_deliveries as d').whereRaw('d.endpoint_id = webhook_endpoints.id').where('d.id', '<', before),
		)
		.select('id', 'workspace_id as workspaceId');
}

/** Removes at most `limit` deliveries of deleted endpoints, then the endpoint itself. True: there may be more. */
export async function purgeEndpoints(trx: Knex.Transaction, limit: number): Promise<boolean> {
	const row: {id: string} | undefined = await trx('webhook_endpoints').whereNotNull('deleted_at').first('id');
	if (!row) {
		return false;
	}
	const some = await trx('webhook_deliveries').where({endpoint_id: row.id}).orderBy('id').limit(limit).pluck('id');
	if ((await deleteDeliveries(trx, some)) === 0) {
		await trx('webhook_endpoints').where({id: row.id}).delete();
	}
	return true;
}

export type Subscriber = Pick<Endpoint, 'id' | 'workspaceId' | 'mode' | 'url' | 'events'>;

/** The endpoints of some workspaces that get events now. */
export async function findSubscribers(trx: Knex.Transaction, workspaceIds: readonly string[]): Promise<Subscriber[]> {
	const rows: Row[] = await present(trx)
		.whereIn('workspace_id', workspaceIds)
		.whereNull('disabled_at')
		.orderBy('id')
		.select('id', 'workspace_id as workspaceId', 'mode', 'url', 'events');
	return rows.map(row => ({...row, events: JSON.parse(row.events)}));
}
