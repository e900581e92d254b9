import type {Knex} from 'knex';
import {toColumns} from '../../store/engine/rows.ts';
import {deleteDeliveries} from '../webhooks/store.ts';

/** A row of `workspaces`. */
export type Workspace = {
	readonly id: string;
	readonly name: string;
	readonly locale: string | null;
	readonly timezone: string | null;
	readonly monthly_quota: number | null;
	readonly track_opens_at: string | null;
	readonly track_clicks_at: string | null;
	readonly paused_at: string | null;
	readonly pause_reason: string | null;
	/** `workspace` if its own users paused it and may resume it; `null` if an operator did, or it is not paused. */
	readonly paused_by: 'workspace' | null;
	/** When it was last resumed, which is where its reputation starts; `null` if never. */
	readonly reputation_since: string | null;
	/** When its bounce or complaint rate became too high; `null` if it is not. */
	readonly reputation_warned_at: string | null;
	readonly queue_lifetime_s: number | null;
	/** A pool of MAILCTL_SOURCE_POOLS. */
	readonly source_pool: string | null;
	/** `mx`, `relay` or URLs of relays with sealed passwords (mail/route.ts). */
	readonly route: string | null;
	/** JSON text (mail/branding.ts). */
	readonly branding: string | null;
	/** The code of the default topic. It has no effect if the topic was removed. */
	readonly default_topic: string | null;
	/**
	 * How many days its messages, and their content, are retained if that is shorter than the setting of the
	 * installation, which applies if it is `null`.
	 */
	readonly retention_days: number | null;
	readonly content_days: number | null;
	/** The limits for attachments of a send; `null` for the defaults of the API. */
	readonly max_attachments: number | null;
	readonly max_attachment_bytes: number | null;
	/** JSON text (mail/workspace-limits.ts); `null` if it has the default limits. */
	readonly limits: string | null;
	readonly created_at: string;
};

const {names: columns} = toColumns(
	'id name locale timezone monthly_quota track_opens_at track_clicks_at paused_at pause_reason paused_by reputation_since',
	'reputation_warned_at queue_lifetime_s source_pool route branding default_topic retention_days content_days max_attachments',
	'max_attachment_bytes limits created_at',
);

/** Inserts a workspace; absent columns are null. Returns `undefined` if the name is taken. */
export async function insertWorkspace(
	trx: Knex.Transaction,
	workspace: Pick<Workspace, 'id' | 'name' | 'created_at'> & WorkspaceChanges,
): Promise<Workspace | undefined> {
	const [inserted] = await trx('workspaces').insert(workspace).onConflict('name').ignore().returning(columns);
	return inserted;
}

/** Queries the workspaces that are not deleted. The sweep removes the remaining rows of the others. */
function notDeleted(reader: Knex): Knex.QueryBuilder {
	return reader('workspaces').whereNull('deleted_at');
}

/** Queries the ids of deleted workspaces. */
export function deletedWorkspaces(reader: Knex): Knex.QueryBuilder {
	return reader('workspaces').whereNotNull('deleted_at').select('id');
}

/** Returns all workspaces, newest first. */
export async function listWorkspaces(reader: Knex): Promise<Workspace[]> {
	return await notDeleted(reader).select(columns).orderBy('id', 'desc');
}

/** Returns workspaces, newest first, after `after` (or from the newest), whose names contain `named`. */
export async function findWorkspaces(
	reader: Knex,
	{after, limit, named = ''}: {readonly after: string | null; readonly limit: number; readonly named?: string},
): Promise<Workspace[]> {
	const query = notDeleted(reader).select(columns).orderBy('id', 'desc').limit(limit);
	if (after !== null) {
		query.where('id', '<', after);
	}
	if (named !== '') {
		query.whereRaw(`lower(name) like ? escape '\\'`, [`%${named.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`]);
	}
	return await query;
}

/** Returns the workspace that the first start created; `undefined` if there is none. */
export async function findOldestWorkspace(reader: Knex): Promise<Workspace | undefined> {
	return await notDeleted(reader).orderBy('id').first(columns);
}

/** Queries some paused workspaces, newest first. */
export function findPaused(reader: Knex, limit: number): Knex.QueryBuilder<object, Workspace[]> {
	return notDeleted(reader).whereNotNull('paused_at').select(columns).orderBy('id', 'desc').limit(limit);
}

/** Returns some paused workspaces, newest first, except those paused by their own users. */
export async function findPausedByOthers(reader: Knex, limit: number): Promise<Workspace[]> {
	return await findPaused(reader, limit).whereNull('paused_by');
}

/** Returns the names of workspaces by their ids. */
export async function readWorkspaceNames(reader: Knex, ids: readonly string[]): Promise<Map<string, string>> {
	const rows: Array<{id: string; name: string}> = await notDeleted(reader).whereIn('id', ids).select('id', 'name');
	return new Map(rows.map(({id, name}) => [id, name]));
}

export async function findWorkspace(reader: Knex, id: string): Promise<Workspace | undefined> {
	return await notDeleted(reader).where({id}).first(columns);
}

export async function findWorkspaceByName(reader: Knex, name: string): Promise<Workspace | undefined> {
	return await notDeleted(reader).where({name}).first(columns);
}

/** Returns the workspace of a store that has only one. */
export async function findOnlyWorkspace(reader: Knex): Promise<Workspace | undefined> {
	const rows: Workspace[] = await notDeleted(reader).select(columns).limit(2);
	return rows.length === 1 ? rows[0] : undefined;
}

export async function hasWorkspace(reader: Knex): Promise<boolean> {
	return (await notDeleted(reader).first('id')) !== undefined;
}

export type WorkspaceChanges = Partial<Omit<Workspace, 'id' | 'created_at'>>;

/** Returns `false` if the workspace does not exist. Throws if the new name is taken, so look it up first. */
export async function updateWorkspace(trx: Knex.Transaction, id: string, changes: WorkspaceChanges): Promise<boolean> {
	return (await trx('workspaces').where({id}).update(changes)) === 1;
}

export async function findDeletedWorkspace(reader: Knex): Promise<string | undefined> {
	return (await deletedWorkspaces(reader).orderBy('id').first())?.id;
}

/**
 * Marks a workspace as deleted: it can no longer be found, and its name, replaced by `name`, can be used again. The
 * little that others could still use is removed at once: API keys, its own users, addresses, alerts, relays, and
 * endpoints, which get no more posts. It is also paused, for nodes of the previous version.
 */
export async function markDeleted(
	trx: Knex.Transaction,
	{id, name, now}: {readonly id: string; readonly name: string; readonly now: string},
): Promise<void> {
	for (const table of ['api_keys', 'users', 'inbound_addresses', 'alerts', 'smarthosts', 'conditions']) {
		await trx(table).where({workspace_id: id}).delete();
	}
	await trx('user_sessions').where({workspace_id: id}).update({workspace_id: null});
	await trx('webhook_endpoints').where({workspace_id: id}).whereNull('deleted_at').update({deleted_at: now});
	await trx('workspaces').where({id}).update({name, deleted_at: now, paused_at: now, pause_reason: 'it was deleted'});
}

/** Tables whose number of rows per workspace is unlimited, except messages: name, key, and rows removed per step. */
const lists = [
	['contacts', ['id'], 500],
	['suppressions', ['id'], 500],
	['topic_optouts', ['workspace_id', 'address_key', 'code'], 500],
	['address_health', ['workspace_id', 'address_key'], 500],
	['idempotency_keys', ['workspace_id', 'mode', 'key'], 500],
	['usage_days', ['workspace_id', 'day', 'status'], 500],
	['usage_hours', ['workspace_id', 'hour', 'status'], 500],
	['reputation_hours', ['workspace_id', 'hour'], 500],
	['senders', ['id'], 500],
	['received', ['id'], 20],
	// Their versions are removed with them.
	['templates', ['id'], 5],
	['layouts', ['workspace_id', 'kind', 'name'], 5],
] as const;

/** The same for tables of its domains. */
const domainLists = [
	['dmarc_days', ['domain_id', 'day', 'ip', 'dkim', 'spf', 'disposition', 'why'], 500],
	['dmarc_reports', ['domain_id', 'org', 'report_id'], 500],
] as const;

/** Removes some of these rows. Returns `false` if none remain. */
export async function removeLists(trx: Knex.Transaction, workspaceId: string): Promise<boolean> {
	const own = (table: string) => trx(table).where({workspace_id: workspaceId});
	const endpoints = own('webhook_endpoints').select('id');
	const deliveries = await trx('webhook_deliveries').whereIn('endpoint_id', endpoints).limit(500).pluck('id');
	if ((await deleteDeliveries(trx, deliveries)) > 0) {
		return true;
	}
	// One index contains the unread events of its relays, another one the retained events.
	for (const condition of ['read_at is null', 'kept is not null']) {
		const events = await own('inbound').whereRaw(condition).limit(500).pluck('id');
		if (events.length > 0) {
			await trx('inbound').whereIn('id', events).delete();
			return true;
		}
	}
	const ofDomains = (table: string) => trx(table).whereIn('domain_id', own('domains').select('id'));
	for (const [select, tablesToClear] of [
		[own, lists],
		[ofDomains, domainLists],
	] as const) {
		for (const [table, key, limit] of tablesToClear) {
			const rows = select(table)
				.select([...key])
				.limit(limit);
			const removed = await trx(table)
				.whereIn([...key], rows)
				.delete();
			if (removed > 0) {
				return true;
			}
		}
	}
	return false;
}

/** Deletes the workspace with the rest of its rows. */
export async function deleteWorkspaceRow(trx: Knex.Transaction, id: string): Promise<void> {
	await trx('lane_waits').where({workspace_id: id}).delete();
	await trx('workspaces').where({id}).delete();
}

const tables = {
	msg: 'messages',
	rcp: 'recipients',
	key: 'api_keys',
	tpl: 'templates',
	usg: 'topics',
	whe: 'webhook_endpoints',
	whd: 'webhook_deliveries',
	con: 'contacts',
	sup: 'suppressions',
} as const;

/** The kinds of ids that commands accept. */
export type OwnedKind = keyof typeof tables;

export type OwnedId = {readonly id: string; readonly workspace_id: string};

/** Returns the first `limit` ids that begin with a text, of one workspace or of all, each with its workspace. */
export async function findIds(
	reader: Knex,
	kind: OwnedKind,
	{
		start,
		workspaceId,
		limit,
	}: {readonly start: string; readonly workspaceId?: string | undefined; readonly limit: number},
): Promise<OwnedId[]> {
	const column = kind === 'tpl' ? 'public_id' : 'id';
	const query = reader(tables[kind])
		.select({id: column, workspace_id: 'workspace_id'})
		// No character of an id sorts after `z`, in any collation.
		.whereBetween(column, [start, start.padEnd(start.length + 26, 'z')])
		.orderBy(column)
		.limit(limit);
	query.whereNotIn('workspace_id', deletedWorkspaces(reader));
	if (kind === 'tpl') {
		query.whereNull('deleted_at');
	}
	if (workspaceId !== undefined) {
		query.where({workspace_id: workspaceId});
	}
	return await query;
}

/** Returns the workspaces with retention settings of their own. */
export async function findRetentionOverrides(
	reader: Knex,
): Promise<ReadonlyArray<Pick<Workspace, 'id' | 'retention_days' | 'content_days'>>> {
	return await notDeleted(reader)
		.whereRaw('(retention_days is not null or content_days is not null)')
		.orderBy('id')
		.select('id', 'retention_days', 'content_days');
}
