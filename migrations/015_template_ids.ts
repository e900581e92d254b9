import type {Knex} from 'knex';
import {columnsFor, partialIndex} from './columns.ts';

/** Template ids that people choose: unique in their workspace, so that two workspaces may share them. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnsFor(knex);
	await knex.schema.alterTable('templates', table => {
		/** The id that the API and the CLI use, and that messages keep; the row's own `id` where nobody chose one. */
		text(table, 'public_id').notNullable().defaultTo('');
	});
	await knex('templates').update({public_id: knex.ref('id')});
	const columns = 'workspace_id, public_id';
	await partialIndex(knex, 'templates_by_public_id', 'templates', columns, 'deleted_at is null', true);
}
