import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Adds first starts whose keys have not been shown yet. If one is interrupted, the next start shows new keys. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.createTable('first_starts', table => {
		table.specificType('workspace_id', text).notNullable().primary();
		table.specificType('begun_at', text).notNullable();
		table.foreign('workspace_id').references('workspaces.id').onDelete('CASCADE');
	});
}
