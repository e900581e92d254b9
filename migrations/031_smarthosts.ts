import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Adds the event sources of relays, and the id in a relay's reply, by which its events find the message. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.createTable('smarthosts', table => {
		table.specificType('id', text).primary();
		/** Null if the relay serves every workspace. */
		table.specificType('workspace_id', text).references('workspaces.id').onDelete('CASCADE');
		table.specificType('provider', text).notNullable();
		/** `token_hash`: SHA-256 of the token in its URL. `secret`: sealed for the row. */
		table.specificType('token_hash', text).notNullable().unique();
		table.specificType('secret', text);
		/** The only SNS topic whose posts are accepted, once one was confirmed. */
		table.specificType('topic', text);
		/** The optional event types that count, as JSON. */
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
