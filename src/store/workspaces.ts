import type {Knex} from 'knex';
import {columnsOf} from './engine/rows.ts';
import {deleteDeliveries} from './webhooks.ts';

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
	/** `workspace`: its own users paused it, and may resume it. Null: the operator did, or it is not paused. */
	readonly paused_by: 'workspace' | null;
	/** When it was last resumed: its reputation counts from here. Null: never. */
	readonly reputation_since: string | null;
	/** Since when its figures are high; null: they are not. */
	readonly reputation_warned_at: string | null;
	readonly queue_lifetime_s: number | null;
	/** A pool of MAILCTL_SOURCE_POOLS. */
	readonly source_pool: string | null;
	/** `mx`, `relay` or URLs of smarthosts, the passwords in them sealed (mail/route.ts). */
	readonly route: string | null;
	/** JSON text (mail/branding.ts). */
	readonly branding: string | null;
	/** The code of the topic of sends that name none. One that was removed counts as none. */
	readonly default_topic: string | null;
	/** Days that its messages, and their content, are kept, where those of the installation are more; null: as the installation says. */
	readonly retention_days: number | null;
	readonly content_days: number | null;
	/** What attachments a send may have; null: as the interface says. */
	readonly max_attachments: number | null;
	readonly max_attachment_bytes: number | null;
	readonly created_at: string;
};

const {names: columns} = columnsOf(
	'id name locale timezone monthly_quota track_opens_at track_clicks_at paused_at pause_reason paused_by reputation_since',
	'reputation_warned_at queue_lifetime_s source_pool route branding default_topic retention_days content_days max_attachments',
	'max_attachment_bytes created_at',
);

/** What is left out is null. Undefined: the name is taken. */
export async function insertWorkspace(
	trx: Knex.Transaction,
	workspace: Pick<Workspace, 'id' | 'name' | 'created_at'> & WorkspaceChanges,
): Promise<Workspace | undefined> {
	const [inserted] = await trx('workspaces').insert(workspace).onConflict('name').ignore().returning(columns);
	return inserted;
}

/** Newest first. */
export async function listWorkspaces(reader: Knex): Promise<Workspace[]> {
	return await reader('workspaces').select(columns).orderBy('id', 'desc');
}

/** Some of them, newest first, behind the workspace `after` (null: from the newest), with this in their names. */
export async function findWorkspaces(
	reader: Knex,
	{after, limit, named = ''}: {readonly after: string | null; readonly limit: number; readonly named?: string},
): Promise<Workspace[]> {
	const query = reader('workspaces').select(columns).orderBy('id', 'desc').limit(limit);
	if (after !== null) {
		query.where('id', '<', after);
	}
	if (named !== '') {
		query.whereRaw(`lower(name) like ? escape '\\'`, [`%${named.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`]);
	}
	return await query;
}

/** The one that the first start made; undefined: it is gone. */
export async function findOldestWorkspace(reader: Knex): Promise<Workspace | undefined> {
	return await reader('workspaces').orderBy('id').first(columns);
}

/** Some of those that are paused, newest first. */
export async function findPaused(reader: Knex, limit: number): Promise<Workspace[]> {
	return await reader('workspaces').whereNotNull('paused_at').select(columns).orderBy('id', 'desc').limit(limit);
}

/** The names of workspaces by their ids. */
export async function readWorkspaceNames(reader: Knex, ids: readonly string[]): Promise<Map<string, string>> {
	const rows: Array<{id: string; name: string}> = await reader('workspaces').whereIn('id', ids).select('id', 'name');
	return new Map(rows.map(({id, name}) => [id, name]));
}

export async function findWorkspace(reader: Knex, id: string): Promise<Workspace | undefined> {
	return await reader('workspaces').where({id}).first(columns);
}

export async function findWorkspaceByName(reader: Knex, name: string): Promise<Workspace | undefined> {
	return await reader('workspaces').where({name}).first(columns);
}

/** The workspace of a store that has but one. */
export async function findOnlyWorkspace(reader: Knex): Promise<Workspace | undefined> {
	const rows: Workspace[] = await reader('workspaces').select(columns).limit(2);
	return rows.length === 1 ? rows[0] : undefined;
}

export async function hasWorkspace(reader: Knex): Promise<boolean> {
	return (await reader('workspaces').first('id')) !== undefined;
}

export type WorkspaceChanges = Partial<Omit<Workspace, 'id' | 'created_at'>>;

/** False: there is no such workspace. Throws where the new name is taken: look it up first. */
export async function updateWorkspace(trx: Knex.Transaction, id: string, changes: WorkspaceChanges): Promise<boolean> {
	return (await trx('workspaces').where({id}).update(changes)) === 1;
}

/** Tables with any number of rows of a workspace, except messages: the table, its key, and how many rows a step removes. */
const lists = [
	['contacts', ['id'], 500],
	['suppressions', ['id'], 500],
	['topic_optouts', ['workspace_id', 'address_key', 'code'], 500],
	['address_health', ['workspace_id', 'address_key'], 500],
	['idempotency_keys', ['workspace_id', 'mode', 'key'], 500],
	['received', ['id'], 20],
	// With all their versions.
	['templates', ['id'], 5],
] as const;

/** Ends what others could still use: API keys, users of it alone, and endpoints, to which nothing more is posted. */
export async function closeWorkspace(trx: Knex.Transaction, workspaceId: string, now: string): Promise<void> {
	await trx('api_keys').where({workspace_id: workspaceId}).delete();
	await trx('users').where({workspace_id: workspaceId}).delete();
	await trx('webhook_endpoints').where({workspace_id: workspaceId}).whereNull('deleted_at').update({deleted_at: now});
}

/** Removes some of its lists; false: there is nothing more. */
export async function removeLists(trx: Knex.Transaction, workspaceId: string): Promise<boolean> {
	const endpoints = trx('webhook_endpoints').where({workspace_id: workspaceId}).select('id');
	const deliveries = await trx('webhook_deliveries').whereIn('endpoint_id', endpoints).limit(500).pluck('id');
	if ((await deleteDeliveries(trx, deliveries)) > 0) {
		return true;
	}
	for (const [table, key, limit] of lists) {
		const some = trx(table)
			.where({workspace_id: workspaceId})
			.select([...key])
			.limit(limit);
		if (
			(await trx(table)
				.whereIn([...key], some)
				.delete()) > 0
		) {
			return true;
		}
	}
	return false;
}

/**
 * Removes the workspace with the rest of its rows. False: it has a message, which came meanwhile; the transaction must not be
 * committed. This is checked last: accepting mail needs the workspace's row, and waits here or comes too late.
 */
export async function deleteWorkspaceRow(trx: Knex.Transaction, id: string): Promise<boolean> {
	await trx('lane_waits').where({workspace_id: id}).delete();
	await trx('workspaces').where({id}).delete();
	return (await trx('messages').where({workspace_id: id}).first('id')) === undefined;
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

/** Kinds of ids that commands take. */
export type OwnedKind = keyof typeof tables;

export type OwnedId = {readonly id: string; readonly workspace_id: string};

/** The first `limit` ids that begin with a text, of one workspace or of all, each with its workspace. */
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
		// No character of an id sorts after z, in any collation.
		.whereBetween(column, [start, start.padEnd(start.length + 26, 'z')])
		.orderBy(column)
		.limit(limit);
	if (kind === 'tpl') {
		query.whereNull('deleted_at');
	}
	if (workspaceId !== undefined) {
		query.where({workspace_id: workspaceId});
	}
	return await query;
}

/** The workspaces that keep messages, or their content, for a time of their own. */
export async function findShortKept(
	reader: Knex,
): Promise<ReadonlyArray<Pick<Workspace, 'id' | 'retention_days' | 'content_days'>>> {
	return await reader('workspaces')
		.whereRaw('retention_days is not null or content_days is not null')
		.orderBy('id')
		.select('id', 'retention_days', 'content_days');
}
