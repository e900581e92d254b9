import type {Knex} from 'knex';
import {clusteredTable, columnsFor, partialIndex} from './columns.ts';

/** What careful delivery needs: claims by workspace, suspensions, what lanes wait for, routes, key rotation, TLS results. */
export async function up(knex: Knex): Promise<void> {
	const {text, integer} = columnsFor(knex);

	// A claim reads one workspace's copies for one destination; what is held is passed over without being read.
	await knex.raw('drop index recipients_due');
	await partialIndex(
		knex,
		'recipients_due',
		'recipients',
		'destination, workspace_id, next_attempt_at',
		'next_attempt_at is not null and held_at is null',
	);
	await partialIndex(knex, 'recipients_held', 'recipients', 'destination, workspace_id', 'held_at is not null');

	await clusteredTable(knex, 'suspensions', ['destination'], table => {
		text(table, 'destination').notNullable();
		text(table, 'reason').notNullable();
		text(table, 'created_at').notNullable();
	});

	await clusteredTable(knex, 'lane_waits', ['destination', 'workspace_id'], table => {
		text(table, 'destination').notNullable();
		text(table, 'workspace_id').notNullable();
		text(table, 'site').notNullable();
		text(table, 'waits_for').notNullable();
		text(table, 'detail').notNullable();
		text(table, 'until');
		text(table, 'updated_at').notNullable();
	});

	await knex.schema.alterTable('sites', table => {
		text(table, 'provider');
		text(table, 'waits_for');
		text(table, 'slow_until');
		integer(table, 'slow_per_minute');
		integer(table, 'slow_connections');
		integer(table, 'mails_per_session');
		text(table, 'resumed_at');
	});

	await knex.schema.alterTable('workspaces', table => {
		text(table, 'source_pool');
		text(table, 'route');
	});

	await knex.schema.alterTable('dkim_keys', table => {
		text(table, 'pending_at');
	});

	// Since when the domain's own return path is used: its MX and SPF were seen in DNS.
	await knex.schema.alterTable('domains', table => {
		text(table, 'return_path_at');
	});

	// Whether anybody delivers is asked from outside.
	await knex.schema.alterTable('nodes', table => {
		text(table, 'roles');
	});

	// What was said in a conversation that did not end in acceptance.
	await knex.schema.alterTable('attempts', table => {
		text(table, 'dialogue');
	});

	await clusteredTable(knex, 'tls_days', ['day', 'domain', 'policy', 'host', 'result'], table => {
		text(table, 'day').notNullable();
		text(table, 'domain').notNullable();
		text(table, 'policy').notNullable();
		text(table, 'host').notNullable();
		text(table, 'result').notNullable();
		integer(table, 'n').notNullable();
	});
}
