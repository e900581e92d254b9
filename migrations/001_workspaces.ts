import type {Knex} from 'knex';
import {columnsFor, partialIndex} from './columns.ts';

/** Who may send: workspaces, API keys, domains with their DKIM keys, senders. */
export async function up(knex: Knex): Promise<void> {
	const {text, integer} = columnsFor(knex);

	await knex.schema.createTable('workspaces', table => {
		text(table, 'id').primary();
		text(table, 'name').notNullable().unique();
		text(table, 'locale');
		text(table, 'timezone');
		integer(table, 'monthly_quota');
		text(table, 'track_opens_at');
		text(table, 'track_clicks_at');
		text(table, 'paused_at');
		text(table, 'pause_reason');
		text(table, 'reputation_since');
		integer(table, 'queue_lifetime_s');
		text(table, 'branding');
		text(table, 'created_at').notNullable();
	});

	await knex.schema.createTable('api_keys', table => {
		text(table, 'id').primary();
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		text(table, 'name').notNullable();
		text(table, 'mode').notNullable();
		text(table, 'hash').notNullable().unique();
		text(table, 'hint').notNullable();
		text(table, 'scopes').notNullable();
		text(table, 'rate_limit');
		text(table, 'expires_at');
		text(table, 'revoked_at');
		text(table, 'last_used_at');
		text(table, 'created_at').notNullable();
		table.index(['workspace_id', 'id'], 'api_keys_by_workspace');
	});

	await knex.schema.createTable('domains', table => {
		text(table, 'id').primary();
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		text(table, 'name').notNullable();
		text(table, 'ownership_token').notNullable();
		text(table, 'return_path_domain');
		text(table, 'state').notNullable();
		text(table, 'state_at').notNullable();
		text(table, 'verified_at');
		text(table, 'checked_at');
		integer(table, 'failures').notNullable().defaultTo(0);
		text(table, 'created_at').notNullable();
		table.unique(['workspace_id', 'name'], {indexName: 'domains_by_name'});
	});

	await knex.schema.createTable('dkim_keys', table => {
		text(table, 'id').primary();
		text(table, 'domain_id').notNullable().references('domains.id').onDelete('CASCADE');
		text(table, 'selector').notNullable();
		text(table, 'algorithm').notNullable();
		text(table, 'public_key').notNullable();
		text(table, 'secret').notNullable();
		text(table, 'active_from').notNullable();
		text(table, 'retired_at');
		text(table, 'created_at').notNullable();
		table.unique(['domain_id', 'selector'], {indexName: 'dkim_keys_by_selector'});
	});

	await knex.schema.createTable('senders', table => {
		text(table, 'id').primary();
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		text(table, 'domain_id').notNullable().references('domains.id').onDelete('CASCADE');
		text(table, 'address').notNullable();
		text(table, 'address_key').notNullable();
		text(table, 'name');
		text(table, 'verified_at');
		text(table, 'disabled_at');
		text(table, 'created_at').notNullable();
		table.unique(['workspace_id', 'address_key'], {indexName: 'senders_by_address'});
		table.index(['domain_id'], 'senders_by_domain');
	});

	await knex.schema.createTable('templates', table => {
		text(table, 'id').primary();
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		text(table, 'name').notNullable();
		integer(table, 'latest_version');
		text(table, 'created_at').notNullable();
		text(table, 'updated_at').notNullable();
		text(table, 'deleted_at');
		table.index(['workspace_id', 'id'], 'templates_by_workspace');
	});
	await partialIndex(knex, 'templates_by_name', 'templates', 'workspace_id, name', 'deleted_at is null', true);

	await knex.schema.createTable('template_versions', table => {
		text(table, 'id').primary();
		text(table, 'template_id').notNullable().references('templates.id').onDelete('CASCADE');
		integer(table, 'version').notNullable();
		text(table, 'fingerprint').notNullable();
		text(table, 'created_at').notNullable();
		table.unique(['template_id', 'version'], {indexName: 'template_versions_by_number'});
	});

	await knex.schema.createTable('template_variants', table => {
		text(table, 'version_id').notNullable().references('template_versions.id').onDelete('CASCADE');
		integer(table, 'position').notNullable();
		text(table, 'locale');
		text(table, 'subject').notNullable();
		text(table, 'kind').notNullable();
		text(table, 'source').notNullable();
		text(table, 'text_source');
		text(table, 'html').notNullable();
		text(table, 'text');
		table.primary(['version_id', 'position']);
	});
}
