import type {Knex} from 'knex';
import type {Template, TemplateVersion} from './templates.ts';

/** A row of `layouts` without its workspace. */
export type StoredLayout = {
	readonly kind: 'layout' | 'partial';
	/** Unique among the workspace's of its kind. */
	readonly name: string;
	/** Sources by file name. */
	readonly files: Readonly<Record<string, string>>;
	readonly updated_at: string;
};

/** By kind and name. `lock`: until the transaction ends no other may change them. */
export async function listLayouts(reader: Knex, workspaceId: string, {lock = false} = {}): Promise<StoredLayout[]> {
	const query = reader('layouts').where({workspace_id: workspaceId}).orderBy(['kind', 'name']);
	const rows: Array<StoredLayout & {files: string}> = await (lock ? query.forUpdate() : query);
	return rows.map(({kind, name, files, updated_at}) => ({kind, name, files: JSON.parse(files), updated_at}));
}

/** Makes it, or replaces its files. */
export async function putLayout(
	trx: Knex.Transaction,
	workspaceId: string,
	{files, ...layout}: StoredLayout,
): Promise<void> {
	const row = {workspace_id: workspaceId, ...layout, files: JSON.stringify(files)};
	await trx('layouts').insert(row).onConflict(['workspace_id', 'kind', 'name']).merge(['files', 'updated_at']);
}

/** False: the workspace has no such layout or partial. */
export async function deleteLayout(
	trx: Knex.Transaction,
	workspaceId: string,
	{kind, name}: Pick<StoredLayout, 'kind' | 'name'>,
): Promise<boolean> {
	return (await trx('layouts').where({workspace_id: workspaceId, kind, name}).delete()) === 1;
}

/** The newest version of each template that a layout or partials were put into. */
export async function listResolved(
	reader: Knex,
	workspaceId: string,
): Promise<Array<Pick<Template, 'id' | 'name'> & {readonly version: TemplateVersion}>> {
	const rows: Array<TemplateVersion & {public_id: string; name: string}> = await reader('templates as t')
		.join('template_versions as v', function () {
			this.on('v.template_id', 't.id').andOn('v.version', 't.latest_version');
		})
		.where({'t.workspace_id': workspaceId})
		.whereNull('t.deleted_at')
		.whereExists(
			reader('template_variants as own')
				.whereRaw('own.version_id = v.id')
				.whereNotNull('own.own_source')
				.select('locale'),
		)
		.orderBy('t.name')
		.select('v.*', 't.public_id', 't.name');
	return rows.map(({public_id: id, name, ...version}) => ({id, name, version}));
}
