import type {Knex} from 'knex';
import {clusteredTable, columnsFor, partialIndex} from './columns.ts';

/** What comes back: mails that came in, by what they are and where they came, and what they say of our copies. */
export async function up(knex: Knex): Promise<void> {
	const {text, integer, bytes} = columnsFor(knex);

	// What lanes wait for, by node too: a daemon writes it anew at its start.
	await knex.schema.dropTable('lane_waits');
	await clusteredTable(knex, 'lane_waits', ['destination', 'workspace_id', 'node'], table => {
		text(table, 'destination').notNullable();
		text(table, 'workspace_id').notNullable();
		text(table, 'node').notNullable();
		text(table, 'site').notNullable();
		text(table, 'waits_for').notNullable();
		text(table, 'detail').notNullable();
		text(table, 'until');
		text(table, 'updated_at').notNullable();
	});

	// No program before this one wrote it.
	await knex.schema.dropTable('inbound');
	await knex.schema.createTable('inbound', table => {
		/** SHA-256 of the mail and of the recipients that it came to: the same mail comes in once. */
		text(table, 'id').primary();
		/** SHA-256 of the mail alone. */
		text(table, 'digest').notNullable();
		text(table, 'source').notNullable();
		/** The daemon that took it in and is to read it; null: whoever comes. */
		text(table, 'node');
		text(table, 'mail_from');
		/** A JSON list of addresses. */
		text(table, 'rcpt_to').notNullable();
		/** Empty once it was read and nothing of it has to be kept. */
		bytes(table, 'raw').notNullable();
		/** Octets of the mail. */
		integer(table, 'size').notNullable();
		text(table, 'received_at').notNullable();
		text(table, 'read_at');
		/** Why the mail itself is kept: `unmatched`, `unread`, `operator`; null: it is not. */
		text(table, 'kept');
		/** How it was read: JSON text with kind and reports, for `bounce unmatched`. */
		text(table, 'reading');
		text(table, 'fault');
		table.index(['received_at'], 'inbound_by_age');
		table.index(['digest'], 'inbound_by_digest');
	});
	await partialIndex(knex, 'inbound_unread', 'inbound', 'received_at', 'read_at is null');
	// All that is asked to find the oldest beyond the caps: mails are large, and few of them lie beside one another.
	await partialIndex(knex, 'inbound_kept', 'inbound', 'received_at, id, size, kept', 'kept is not null');

	// Since when the figures of its reputation are high.
	await knex.schema.alterTable('workspaces', table => {
		text(table, 'reputation_warned_at');
	});
	await knex.schema.alterTable('reputation_hours', table => {
		table.index(['hour'], 'reputation_hours_by_age');
	});

	// The same report may come by several ways.
	await partialIndex(
		knex,
		'reports_once',
		'reports',
		'recipient_id, inbound_sha256',
		'recipient_id is not null and inbound_sha256 is not null',
		true,
	);
}
