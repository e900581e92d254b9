import type {Knex} from 'knex';
import {columnsFor} from './columns.ts';

/** What delivery learns of the world: sites, MTA-STS policies, warm-up counts. */
export async function up(knex: Knex): Promise<void> {
	const {text, integer} = columnsFor(knex);

	await knex.schema.createTable('sites', table => {
		text(table, 'site').primary();
		text(table, 'suspended_until');
		text(table, 'reason');
		integer(table, 'step').notNullable();
		integer(table, 'window').notNullable();
		text(table, 'broken_tls_until');
		text(table, 'updated_at').notNullable();
	});

	await knex.schema.createTable('mta_sts', table => {
		text(table, 'domain').primary();
		text(table, 'policy_id').notNullable();
		text(table, 'mode').notNullable();
		text(table, 'mx').notNullable();
		text(table, 'fetched_at').notNullable();
		text(table, 'expires_at').notNullable();
	});

	await knex.schema.createTable('warmup_days', table => {
		text(table, 'source').notNullable();
		text(table, 'provider').notNullable();
		text(table, 'day').notNullable();
		integer(table, 'n').notNullable();
		table.primary(['source', 'provider', 'day']);
	});
}
