import type {Knex} from 'knex';
import {columnsFor, partialIndex} from './columns.ts';

/** Webhook endpoints, the outbox of deliveries, every attempt. */
export async function up(knex: Knex): Promise<void> {
	const {text, integer, bytes} = columnsFor(knex);

	await knex.schema.createTable('webhook_endpoints', table => {
		text(table, 'id').primary();
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		text(table, 'url').notNullable();
		text(table, 'events').notNullable();
		text(table, 'secret').notNullable();
		text(table, 'disabled_at');
		text(table, 'failing_since');
		text(table, 'created_at').notNullable();
		table.index(['workspace_id', 'id'], 'webhook_endpoints_by_workspace');
	});

	await knex.schema.createTable('webhook_deliveries', table => {
		text(table, 'id').primary();
		text(table, 'workspace_id').notNullable();
		text(table, 'endpoint_id').notNullable().references('webhook_endpoints.id').onDelete('CASCADE');
		text(table, 'message_id');
		text(table, 'event_id');
		text(table, 'event_type').notNullable();
		bytes(table, 'body').notNullable();
		text(table, 'state').notNullable();
		integer(table, 'attempts').notNullable();
		integer(table, 'generation').notNullable();
		text(table, 'next_attempt_at');
		text(table, 'claimed_by');
		text(table, 'last_attempt_at');
		text(table, 'created_at').notNullable();
		table.index(['endpoint_id', 'id'], 'webhook_deliveries_by_endpoint');
		table.index(['message_id'], 'webhook_deliveries_by_message');
	});
	await partialIndex(
		knex,
		'webhook_deliveries_due',
		'webhook_deliveries',
		'endpoint_id, next_attempt_at',
		'next_attempt_at is not null',
	);

	await knex.schema.createTable('webhook_attempts', table => {
		text(table, 'delivery_id').notNullable().references('webhook_deliveries.id').onDelete('CASCADE');
		integer(table, 'generation').notNullable();
		integer(table, 'n').notNullable();
		text(table, 'at').notNullable();
		integer(table, 'status');
		text(table, 'error');
		integer(table, 'ms').notNullable();
		table.primary(['delivery_id', 'generation', 'n']);
	});
}
