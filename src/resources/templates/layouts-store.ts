import type {Knex} from 'knex';
import {partialsIn} from '../../mail/layout-uses.ts';
import {findVersion, listVariants, type Template, usesOfVersion} from './store.ts';

export const layoutKinds = ['layout', 'partial'] as const;

/** Identifies a layout or a partial within its workspace. */
export type LayoutKey = {
	readonly kind: (typeof layoutKinds)[number];
	/** Unique among the layouts, or partials, of the workspace. */
	readonly name: string;
};

/** A row of `layouts` without its workspace. */
export type StoredLayout = LayoutKey & {
	/** Source texts by file name. */
	readonly files: Readonly<Record<string, string>>;
	readonly updated_at: string;
};

/** A layout without its sources. */
export type ListedLayout = Omit<StoredLayout, 'files'> & {
	/** The keys of the partials that its sources render (mail/layout-uses.ts). */
	readonly uses: readonly string[];
};

type Uses = {readonly uses: string | null; readonly uses_at: string | null};

const ofWorkspace = (reader: Knex, workspaceId: string) => reader('layouts').where({workspace_id: workspaceId});

/** Returns layouts, sorted by kind and name. `lock` prevents changes by others until the transaction ends. */
export async function listLayouts(reader: Knex, workspaceId: string, {lock = false} = {}): Promise<ListedLayout[]> {
	const query = reader('layouts as l')
		.leftJoin('layout_uses as u', function () {
			this.on('u.workspace_id', 'l.workspace_id').andOn('u.kind', 'l.kind').andOn('u.name', 'l.name');
		})
		.where({'l.workspace_id': workspaceId})
		.orderBy(['l.kind', 'l.name'])
		.select('l.kind', 'l.name', 'l.updated_at', 'u.uses', 'u.uses_at');
	const rows: Array<Omit<StoredLayout, 'files'> & Uses> = await (lock ? query.forUpdate('l') : query);
	const listed = rows.map(async ({uses, uses_at: computedAt, ...row}) => ({
		...row,
		// During an upgrade of a cluster, nodes of the previous version save layouts without storing what they use.
		uses:
			uses !== null && computedAt === row.updated_at
				? JSON.parse(uses)
				: await readUses(reader, workspaceId, row),
	}));
	return await Promise.all(listed);
}

async function readUses(reader: Knex, workspaceId: string, key: LayoutKey): Promise<string[]> {
	const layout = await findLayout(reader, workspaceId, key);
	return partialsIn(Object.values(layout?.files ?? {}));
}

export async function findLayout(
	reader: Knex,
	workspaceId: string,
	{kind, name}: LayoutKey,
): Promise<StoredLayout | undefined> {
	return (await readLayouts(reader, workspaceId, [{kind, name}]))[0];
}

/** Returns the layouts with these keys, with their sources. Keys that do not exist are skipped. */
export async function readLayouts(
	reader: Knex,
	workspaceId: string,
	keys: readonly LayoutKey[],
): Promise<StoredLayout[]> {
	const layouts: StoredLayout[] = [];
	for (const kind of layoutKinds) {
		const names = keys.filter(key => key.kind === kind).map(({name}) => name);
		const rows: Array<Omit<StoredLayout, 'files'> & {files: string}> =
			names.length === 0
				? []
				: await ofWorkspace(reader, workspaceId)
						.where({kind})
						.whereIn('name', names)
						.select('kind', 'name', 'files', 'updated_at');
		layouts.push(...rows.map(({files, ...row}) => ({...row, files: JSON.parse(files)})));
	}
	return layouts;
}

/** Creates a layout or replaces its files. */
export async function putLayout(
	trx: Knex.Transaction,
	workspaceId: string,
	{kind, name, files, updated_at}: StoredLayout,
): Promise<void> {
	const uses = JSON.stringify(partialsIn(Object.values(files)));
	const key = {workspace_id: workspaceId, kind, name};
	const columns = Object.keys(key);
	await trx('layouts')
		.insert({...key, files: JSON.stringify(files), updated_at})
		.onConflict(columns)
		.merge(['files', 'updated_at']);
	await trx('layout_uses')
		.insert({...key, uses, uses_at: updated_at})
		.onConflict(columns)
		.merge(['uses', 'uses_at']);
}

/** Returns `false` if the layout or partial does not exist. */
export async function deleteLayout(
	trx: Knex.Transaction,
	workspaceId: string,
	{kind, name}: LayoutKey,
): Promise<boolean> {
	return (await ofWorkspace(trx, workspaceId).where({kind, name}).delete()) === 1;
}

/** A template whose newest version uses a layout or partials. */
export type LayoutUser = Pick<Template, 'id' | 'row_id' | 'name'> & {
	/** The number of the newest version. */
	readonly version: number;
	/** The keys of its layout and of the partials that its own sources render. */
	readonly uses: readonly string[];
};

type UserRow = Omit<LayoutUser, 'uses'> & {readonly uses: string | null; readonly uses_version: number | null};

/** Returns templates, sorted by name, without their sources. */
export async function listLayoutUsers(reader: Knex, workspaceId: string): Promise<LayoutUser[]> {
	const rows: UserRow[] = await reader('templates')
		.where({workspace_id: workspaceId})
		.whereNull('deleted_at')
		.whereNotNull('latest_version')
		.orderBy('name')
		.select('public_id as id', 'id as row_id', 'name', 'latest_version as version', 'uses', 'uses_version');
	const users: LayoutUser[] = [];
	for (const {uses, uses_version: usesVersion, ...row} of rows) {
		const isCurrent = uses !== null && usesVersion === row.version;
		users.push({...row, uses: isCurrent ? JSON.parse(uses) : await readUsesOfVersion(reader, row)});
	}
	return users.filter(({uses}) => uses.length > 0);
}

/** Computes the uses of a version that a node of the previous version saved. */
async function readUsesOfVersion(reader: Knex, {row_id: rowId, version}: Omit<LayoutUser, 'uses'>): Promise<string[]> {
	const row = await findVersion(reader, rowId, version);
	const variants = row ? await listVariants(reader, row.id) : [];
	return usesOfVersion(row?.layout ?? null, variants);
}
