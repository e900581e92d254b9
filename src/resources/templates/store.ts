import type {Knex} from 'knex';
import {layoutUses} from '../../mail/layout-uses.ts';
import type {Priority} from '../../mail/message.ts';
import {alongIndex, insertRows} from '../../store/engine/rows.ts';

/** Settings of all versions of a template. They apply to messages that are accepted from now on. */
export type TemplateSettings = {
	/** The code of the default topic; `null` if there is none. */
	readonly topic: string | null;
	/** The priority of its messages if neither the send nor its topic sets one; `null` means normal. */
	readonly priority: Priority | null;
	/** The names of variables that are not stored permanently. */
	readonly sensitive: readonly string[];
};

/** A row of `templates`. */
export type Template = TemplateSettings & {
	/** Unique among the workspace's templates that are not deleted. Chosen by a user, or equal to `row_id`. */
	readonly id: string;
	/** The row's own id, which its versions refer to. */
	readonly row_id: string;
	readonly workspace_id: string;
	/** Unique among the workspace's templates that are not deleted. */
	readonly name: string;
	/** `null` if no version was saved yet. */
	readonly latest_version: number | null;
	readonly created_at: string;
	readonly updated_at: string;
	readonly deleted_at: string | null;
};

/** A row of `template_versions`. It is immutable. */
export type TemplateVersion = {
	readonly id: string;
	/** The template's `row_id`. */
	readonly template_id: string;
	/** Counted from 1. */
	readonly version: number;
	/** SHA-256 of the variants' source, hex. */
	readonly fingerprint: string;
	/** The variables for previews: a JSON object as its author wrote it; `null` if there is none. */
	readonly sample: string | null;
	/** The name of the layout that surrounds its variants; `null` if there is none. */
	readonly layout: string | null;
	readonly created_at: string;
};

/** A row of `template_variants` without its version: one language of a version, as source and compiled. */
export type TemplateVariant = {
	/** `null` for the default variant. */
	readonly locale: string | null;
	readonly subject: string;
	readonly kind: 'mjml' | 'html';
	/** Including the layout and the partials. */
	readonly source: string;
	readonly text_source: string | null;
	/**
	 * The source as written, if a layout or partials were inserted; `null` if `source` and `text_source` are as
	 * written.
	 */
	readonly own_source: string | null;
	readonly own_text_source: string | null;
	/** What is rendered: the source, with MJML compiled to HTML. */
	readonly html: string;
	/** What the text part is rendered from; `null` if it is generated from the HTML. */
	readonly text: string | null;
};

const variantColumns = [
	'locale',
	'subject',
	'kind',
	'source',
	'text_source',
	'own_source',
	'own_text_source',
	'html',
	'text',
] as const;

const templateColumns = {
	id: 'public_id',
	row_id: 'id',
	workspace_id: 'workspace_id',
	name: 'name',
	latest_version: 'latest_version',
	created_at: 'created_at',
	updated_at: 'updated_at',
	deleted_at: 'deleted_at',
	topic: 'topic_code',
	priority: 'priority',
	sensitive: 'sensitive',
} as const;

type Row = Omit<Template, 'sensitive'> & {readonly sensitive: string | null};
const toTemplate = (row: Row): Template => ({...row, sensitive: JSON.parse(row.sensitive ?? '[]')});

/** Returns `false` if the workspace already has a template with this id or name. */
export async function insertTemplate(
	trx: Knex.Transaction,
	{id, row_id: rowId, topic, sensitive, ...template}: Template,
): Promise<boolean> {
	const row = {...template, ...settingsRow({topic, sensitive}), id: rowId, public_id: id};
	const inserted = await trx('templates').insert(row).onConflict().ignore().returning('id');
	return inserted.length === 1;
}

function settingsRow({topic, priority, sensitive}: Partial<TemplateSettings>) {
	return {
		...(topic !== undefined && {topic_code: topic}),
		...(priority !== undefined && {priority}),
		...(sensitive !== undefined && {sensitive: sensitive.length === 0 ? null : JSON.stringify(sensitive)}),
	};
}

export async function changeSettings(
	trx: Knex.Transaction,
	rowId: string,
	changes: Partial<TemplateSettings>,
	at: string,
): Promise<void> {
	await trx('templates')
		.where({id: rowId})
		.update({...settingsRow(changes), updated_at: at});
}

/** Returns the templates of a workspace, newest first. */
export async function listTemplates(reader: Knex, workspaceId: string): Promise<Template[]> {
	return (await templatesQuery(reader, workspaceId, null)).map(toTemplate);
}

/** Returns a page of templates, newest first, after the one with the `row_id` `after`. */
export async function pageTemplates(
	reader: Knex,
	workspaceId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<Template[]> {
	return (await templatesQuery(reader, workspaceId, after).limit(limit)).map(toTemplate);
}

function templatesQuery(reader: Knex, workspaceId: string, after: string | null): Knex.QueryBuilder {
	const index = {leading: {workspace_id: workspaceId}, id: 'id'};
	return alongIndex(reader, 'templates', index, {below: after}).whereNull('deleted_at').select(templateColumns);
}

type TemplateKey = {readonly id: string} | {readonly name: string};

/** Finds a template by id or name. */
export async function findTemplate(reader: Knex, workspaceId: string, key: TemplateKey): Promise<Template | undefined> {
	const row: Row | undefined = await templateQuery(reader, workspaceId, key).first();
	return row && toTemplate(row);
}

/** Returns template names by the ids that messages store, also of deleted ones. The newest wins if several match. */
export async function readTemplateNames(
	reader: Knex,
	workspaceId: string | undefined,
	ids: readonly string[],
): Promise<Map<string, string>> {
	const rows: Array<{id: string; name: string}> = await reader('templates')
		.where(workspaceId === undefined ? {} : {workspace_id: workspaceId})
		.whereIn('public_id', ids)
		.orderBy('id')
		.select('public_id as id', 'name');
	return new Map(rows.map(({id, name}) => [id, name]));
}

/** Like `findTemplate`, but a transaction that saves another version waits until this one ends. */
export async function lockTemplate(
	trx: Knex.Transaction,
	workspaceId: string,
	key: TemplateKey,
): Promise<Template | undefined> {
	// SQLite has one writer, so there is nothing to lock; knex omits the clause.
	const row: Row | undefined = await templateQuery(trx, workspaceId, key).forUpdate().first();
	return row && toTemplate(row);
}

function templateQuery(reader: Knex, workspaceId: string, key: TemplateKey): Knex.QueryBuilder {
	return reader('templates')
		.where({workspace_id: workspaceId, ...('id' in key ? {public_id: key.id} : key)})
		.whereNull('deleted_at')
		.select(templateColumns);
}

/** Deletes a template, so that its name can be used again. Messages keep its versions. `false` if it does not exist. */
export async function deleteTemplate(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	at: string,
): Promise<boolean> {
	const template = trx('templates').where({workspace_id: workspaceId, public_id: id}).whereNull('deleted_at');
	return (await template.update({deleted_at: at, updated_at: at})) === 1;
}

/** A version without its sample and the columns after it, because SQLite would read the sample to reach those. */
export type ListedVersion = Omit<TemplateVersion, 'sample' | 'layout'>;

const listedColumns = ['id', 'template_id', 'version', 'fingerprint', 'created_at'] as const;

const versionsOf = (reader: Knex, rowId: string) =>
	reader('template_versions').where({template_id: rowId}).orderBy('version', 'desc').select(listedColumns);

/** Returns versions, newest first. */
export async function listVersions(reader: Knex, rowId: string): Promise<ListedVersion[]> {
	return await versionsOf(reader, rowId);
}

/** Returns a page of versions, newest first, that precede the version `before`. */
export async function pageVersions(
	reader: Knex,
	rowId: string,
	{before, limit}: {readonly before: number | null; readonly limit: number},
): Promise<ListedVersion[]> {
	const query = versionsOf(reader, rowId).limit(limit);
	return await (before === null ? query : query.where('version', '<', before));
}

export async function findVersion(reader: Knex, rowId: string, version: number): Promise<TemplateVersion | undefined> {
	return await reader('template_versions')
		.where({template_id: rowId, version})
		.first(...listedColumns, 'sample', 'layout');
}

/** Returns the keys of the layout and the partials that a version includes. */
export function usesOfVersion(
	layout: string | null,
	variants: ReadonlyArray<Pick<TemplateVariant, 'own_source' | 'own_text_source'>>,
): string[] {
	const composed = variants.filter(({own_source: source}) => source !== null);
	const texts = composed.flatMap(variant => [variant.own_source ?? '', variant.own_text_source ?? '']);
	return composed.length === 0 ? [] : layoutUses(layout, texts);
}

/** Compare-and-set on the version number: returns `false` if another version was saved since the template was read. */
export async function insertVersion(
	trx: Knex.Transaction,
	version: TemplateVersion,
	variants: readonly TemplateVariant[],
): Promise<boolean> {
	const template = trx('templates').where({id: version.template_id}).whereNull('deleted_at');
	const previous = version.version - 1;
	const updated = await (previous === 0
		? template.whereNull('latest_version')
		: template.where({latest_version: previous})
	).update({
		latest_version: version.version,
		updated_at: version.created_at,
		uses: JSON.stringify(usesOfVersion(version.layout, variants)),
		uses_version: version.version,
	});
	if (updated === 0) {
		return false;
	}
	await trx('template_versions').insert(version);
	await insertRows(
		trx,
		'template_variants',
		['version_id', 'position', ...variantColumns],
		variants.map((variant, position) => [version.id, position, ...variantColumns.map(column => variant[column])]),
	);
	return true;
}

/** Returns the locales and subjects of versions without their sources, each version's in the order they were saved. */
export async function listSubjects(
	reader: Knex,
	versionIds: readonly string[],
): Promise<ReadonlyMap<string, ReadonlyArray<Pick<TemplateVariant, 'locale' | 'subject'>>>> {
	const rows: Array<Pick<TemplateVariant, 'locale' | 'subject'> & {version_id: string}> = await reader(
		'template_variants',
	)
		.whereIn('version_id', versionIds)
		.select('version_id', 'locale', 'subject')
		.orderBy('position');
	const byVersion = new Map(versionIds.map(id => [id, [] as Array<Pick<TemplateVariant, 'locale' | 'subject'>>]));
	for (const {version_id: id, locale, subject} of rows) {
		byVersion.get(id)?.push({locale, subject});
	}
	return byVersion;
}

/** Returns the variants in the order they were saved. */
export async function listVariants(reader: Knex, versionId: string): Promise<TemplateVariant[]> {
	return await reader('template_variants').where({version_id: versionId}).select(variantColumns).orderBy('position');
}

/** The properties of a template that a send needs. */
export type TemplateRow = Pick<TemplateSettings, 'topic' | 'priority'> & {
	readonly id: string;
	/** The newest version; `null` if none was saved. */
	readonly version_id: string | null;
	/** The names of variables that are not stored permanently, as JSON; `null` if there are none. */
	readonly sensitive: string | null;
};

/** Reads a template for a send, through a cache. */
export async function lookUpTemplate(reader: Knex, workspaceId: string, id: string): Promise<TemplateRow | undefined> {
	return await reader('templates as t')
		.leftJoin('template_versions as v', function () {
			this.on('v.template_id', 't.id').andOn('v.version', 't.latest_version');
		})
		.where({'t.public_id': id, 't.workspace_id': workspaceId})
		.whereNull('t.deleted_at')
		.first('t.public_id as id', 'v.id as version_id', 't.topic_code as topic', 't.priority', 't.sensitive');
}
