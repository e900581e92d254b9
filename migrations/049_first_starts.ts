import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** A first start whose keys were not shown yet: if it breaks off, the next start shows others. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.createTable('first_starts', table => {
		table.specificType('workspace_id', text).notNullable().primary();
		table.specificType('begun_at', text).notNullable();
		table.foreign('workspace_id').references('workspaces.id').onDelete('CASCADE');
	});
}
