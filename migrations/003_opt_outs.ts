import type {Knex} from 'knex';
import {columnsFor} from './columns.ts';

/** Who is not to be mailed, and whom we know: suppressions, topics, opt-outs, contacts, address health. */
export async function up(knex: Knex): Promise<void> {
	const {text, integer} = columnsFor(knex);

	await knex.schema.createTable('suppressions', table => {
		text(table, 'id').primary();
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		text(table, 'address').notNullable();
		text(table, 'address_key').notNullable();
		text(table, 'reason').notNullable();
		text(table, 'source').notNullable();
		text(table, 'created_at').notNullable();
		table.unique(['workspace_id', 'address_key'], {indexName: 'suppressions_by_address'});
		table.index(['workspace_id', 'id'], 'suppressions_by_workspace');
		table.index(['workspace_id', 'reason', 'id'], 'suppressions_by_reason');
	});

	await knex.schema.createTable('topics', table => {
		text(table, 'id').primary();
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		text(table, 'code').notNullable();
		text(table, 'name').notNullable();
		text(table, 'created_at').notNullable();
		table.unique(['workspace_id', 'code'], {indexName: 'topics_by_code'});
	});

	await knex.schema.createTable('topic_optouts', table => {
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		text(table, 'code').notNullable();
		text(table, 'address_key').notNullable();
		text(table, 'address').notNullable();
		text(table, 'source').notNullable();
		text(table, 'created_at').notNullable();
		table.primary(['workspace_id', 'address_key', 'code']);
	});

	await knex.schema.createTable('contacts', table => {
		text(table, 'id').primary();
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		text(table, 'address').notNullable();
		text(table, 'address_key').notNullable();
		text(table, 'locale');
		text(table, 'timezone');
		text(table, 'created_at').notNullable();
		text(table, 'updated_at').notNullable();
		table.unique(['workspace_id', 'address_key'], {indexName: 'contacts_by_address'});
		table.index(['workspace_id', 'id'], 'contacts_by_workspace');
	});

	await knex.schema.createTable('address_health', table => {
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		text(table, 'address_key').notNullable();
		integer(table, 'soft_messages').notNullable();
		text(table, 'soft_since');
		text(table, 'last_message_id');
		text(table, 'updated_at').notNullable();
		table.primary(['workspace_id', 'address_key']);
	});
}
