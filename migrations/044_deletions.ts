import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Adds deleted workspaces and erased people, as long as they have rows left. The sweep removes those in turn. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.alterTable('workspaces', table => {
		table.specificType('deleted_at', text);
	});
	await knex.raw('create index workspaces_deleted on workspaces (id) where deleted_at is not null');
	await knex.schema.createTable('erasures', table => {
		for (const name of ['workspace_id', 'address_key', 'below', 'created_at']) {
			table.specificType(name, text).notNullable();
		}
		table.primary(['workspace_id', 'address_key']);
		table.foreign('workspace_id').references('workspaces.id').onDelete('CASCADE');
	});
}
