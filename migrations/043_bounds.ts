import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

const versionsAtOnce = 50;

/**
 * Bounds of a workspace that its operator changed, and what layouts, partials and templates use, so that their sources
 * need not be read for it.
 */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.alterTable('workspaces', table => {
		/** JSON object of the bounds that differ from the defaults (`src/mail/workspace-limits.ts`). */
		table.specificType('limits', text);
	});
	// SQLite reads all of a row to get what stands behind `files`: lists take this index, and a table of small rows.
	await knex.schema.alterTable('layouts', table => {
		table.index(['workspace_id', 'kind', 'name', 'updated_at'], 'layouts_listed');
	});
	await knex.schema.createTable('layout_uses', table => {
		for (const name of ['workspace_id', 'kind', 'name']) {
			table.specificType(name, text).notNullable();
		}
		/**
		 * JSON array of keys, and the `updated_at` that it belongs to: the program of the version before does not write
		 * it.
		 */
		table.specificType('uses', text).notNullable();
		table.specificType('uses_at', text).notNullable();
		table.primary(['workspace_id', 'kind', 'name']);
		const key = ['workspace_id', 'kind', 'name'];
		table.foreign(key).references(key).inTable('layouts').onDelete('CASCADE');
	});
	await knex.schema.alterTable('templates', table => {
		/**
		 * JSON array of the keys that a version uses, and its number: the program of the version before does not write
		 * them.
		 */
		table.specificType('uses', text);
		table.integer('uses_version');
	});
	await noteUsesOfLayouts(knex);
	await noteUsesOfTemplates(knex);
}

async function noteUsesOfLayouts(knex: Knex): Promise<void> {
	const keys = await knex('layouts').select('workspace_id', 'kind', 'name');
	for (const key of keys) {
		const row: {files: string; updated_at: string} = await knex('layouts').where(key).first('files', 'updated_at');
		const uses = partialsIn(Object.values<string>(JSON.parse(row.files)));
		await knex('layout_uses').insert({...key, uses: JSON.stringify(uses), uses_at: row.updated_at});
	}
}

/** Of the newest versions: nobody asks about older ones. */
async function noteUsesOfTemplates(knex: Knex): Promise<void> {
	let last = '';
	for (;;) {
		const rows: Array<Record<'id' | 'template', string> & {layout: string | null; version: number}> = await knex(
			'templates as t',
		)
			.join('template_versions as v', function () {
				this.on('v.template_id', 't.id').andOn('v.version', 't.latest_version');
			})
			.where('t.id', '>', last)
			.orderBy('t.id')
			.limit(versionsAtOnce)
			.select('v.id', 'v.layout', 'v.version', 't.id as template');
		for (const {id, layout, version, template} of rows) {
			const own: Array<Record<'own_source' | 'own_text_source', string | null>> = await knex('template_variants')
				.where({version_id: id})
				.whereNotNull('own_source')
				.select('own_source', 'own_text_source');
			const partials = partialsIn(own.flatMap(one => [one.own_source ?? '', one.own_text_source ?? '']));
			const uses = own.length === 0 ? [] : [...(layout === null ? [] : [`layout/${layout}`]), ...partials];
			await knex('templates')
				.where({id: template})
				.update({uses: JSON.stringify(uses), uses_version: version});
		}
		last = rows.at(-1)?.template ?? '';
		if (rows.length < versionsAtOnce) {
			return;
		}
	}
}

function partialsIn(texts: readonly string[]): string[] {
	const rendered = /\{%-?\s*render\s+["']([\w-]+)["']/g;
	const names = texts.flatMap(one => [...one.matchAll(rendered)].map(([, name = '']) => `partial/${name}`));
	return [...new Set(names)];
}
