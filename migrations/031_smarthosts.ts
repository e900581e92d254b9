import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/**
 * Where the events of smarthosts come from, and what a smarthost answered to a mail, by which its events find the mail.
 */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.createTable('smarthosts', table => {
		table.specificType('id', text).primary();
		/** Null: mail of every workspace goes there. */
		table.specificType('workspace_id', text).references('workspaces.id').onDelete('CASCADE');
		table.specificType('provider', text).notNullable();
		/** `token_hash`: SHA-256 of the token in its URL. `secret`: sealed for the row. */
		table.specificType('token_hash', text).notNullable().unique();
		table.specificType('secret', text);
		/** The only topic whose posts are taken, once one was confirmed. */
		table.specificType('topic', text);
		/** What besides deliveries, bounces and complaints counts: JSON. */
		table.specificType('takes', text).notNullable();
		table.specificType('last_event_at', text);
		table.specificType('created_at', text).notNullable();
		table.index(['workspace_id', 'id'], 'smarthosts_by_workspace');
	});
	await knex.schema.alterTable('attempts', table => {
		table.specificType('provider_id', text);
	});
	await knex.raw('create index attempts_by_provider_id on attempts (provider_id) where provider_id is not null');
}
