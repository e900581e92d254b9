import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

const versionsAtOnce = 50;

/**
 * Adds limits of a workspace that its operator changed, and the references of layouts, partials and templates, so that
 * their sources need not be read for these.
 */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.alterTable('workspaces', table => {
		/** The limits that differ from the defaults, as a JSON object (`src/mail/workspace-limits.ts`). */
		table.specificType('limits', text);
	});
	// To read the columns after `files`, SQLite reads the whole row. Lists use this index and a table of small rows
	// instead.
	await knex.schema.alterTable('layouts', table => {
		table.index(['workspace_id', 'kind', 'name', 'updated_at'], 'layouts_listed');
	});
	await knex.schema.createTable('layout_uses', table => {
		for (const name of ['workspace_id', 'kind', 'name']) {
			table.specificType(name, text).notNullable();
		}
		/** A JSON array of keys, and the `updated_at` it was computed for: the previous version does not write it. */
		table.specificType('uses', text).notNullable();
		table.specificType('uses_at', text).notNullable();
		table.primary(['workspace_id', 'kind', 'name']);
		const key = ['workspace_id', 'kind', 'name'];
		table.foreign(key).references(key).inTable('layouts').onDelete('CASCADE');
	});
	await knex.schema.alterTable('templates', table => {
		/** A JSON array of the keys that a version uses, and its number: the previous version does not write these. */
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

/** Records only the newest versions, since older ones are never queried. */
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
