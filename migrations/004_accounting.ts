import type {Knex} from 'knex';
import {columnsFor} from './columns.ts';

/** Idempotency, usage and reputation figures, the change generation, nodes, the audit trail. */
export async function up(knex: Knex): Promise<void> {
	const {text, integer} = columnsFor(knex);

	await knex.schema.createTable('idempotency_keys', table => {
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		text(table, 'mode').notNullable();
		text(table, 'key').notNullable();
		text(table, 'fingerprint').notNullable();
		text(table, 'response').notNullable();
		text(table, 'message_id').notNullable();
		text(table, 'created_at').notNullable();
		table.primary(['workspace_id', 'mode', 'key']);
		table.index(['created_at'], 'idempotency_keys_by_age');
	});

	await knex.schema.createTable('usage_months', table => {
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		text(table, 'month').notNullable();
		integer(table, 'accepted').notNullable();
		integer(table, 'test').notNullable();
		table.primary(['workspace_id', 'month']);
	});

	await knex.schema.createTable('usage_days', table => {
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		text(table, 'day').notNullable();
		text(table, 'status').notNullable();
		integer(table, 'n').notNullable();
		table.primary(['workspace_id', 'day', 'status']);
	});

	await knex.schema.createTable('reputation_hours', table => {
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		text(table, 'hour').notNullable();
		integer(table, 'attempted').notNullable();
		integer(table, 'hard').notNullable();
		integer(table, 'delivered').notNullable();
		integer(table, 'complained').notNullable();
		table.primary(['workspace_id', 'hour']);
	});

	await knex.schema.createTable('changes', table => {
		integer(table, 'id').primary();
		integer(table, 'generation').notNullable();
	});
	await knex('changes').insert({id: 1, generation: 1});

	await knex.schema.createTable('nodes', table => {
		text(table, 'id').primary();
		text(table, 'host').notNullable();
		integer(table, 'pid').notNullable();
		text(table, 'started_at').notNullable();
		text(table, 'seen_at').notNullable();
	});

	await knex.schema.createTable('audit', table => {
		text(table, 'id').primary();
		text(table, 'at').notNullable();
		text(table, 'workspace_id');
		text(table, 'actor').notNullable();
		text(table, 'action').notNullable();
		text(table, 'target');
		text(table, 'detail');
	});
}
