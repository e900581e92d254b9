import type {Knex} from 'knex';

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
