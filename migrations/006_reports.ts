import type {Knex} from 'knex';
import {columnsFor, partialIndex} from './columns.ts';

/** What comes back: raw inbound mail, the reports read from it, how far each mailbox was read. */
export async function up(knex: Knex): Promise<void> {
	const {text, bytes} = columnsFor(knex);

	await knex.schema.createTable('inbound', table => {
		text(table, 'sha256').primary();
		text(table, 'source').notNullable();
		text(table, 'mail_from');
		text(table, 'rcpt_to');
		bytes(table, 'raw').notNullable();
		text(table, 'received_at').notNullable();
		text(table, 'read_at');
		text(table, 'fault');
		table.index(['received_at'], 'inbound_by_age');
	});
	await partialIndex(knex, 'inbound_unread', 'inbound', 'received_at', 'read_at is null');

	await knex.schema.createTable('reports', table => {
		text(table, 'id').primary();
		text(table, 'workspace_id');
		text(table, 'message_id').references('messages.id').onDelete('CASCADE');
		text(table, 'recipient_id');
		text(table, 'inbound_sha256');
		text(table, 'kind').notNullable();
		text(table, 'category');
		text(table, 'rule');
		text(table, 'matched');
		text(table, 'detail');
		text(table, 'created_at').notNullable();
		table.index(['message_id', 'id'], 'reports_by_message');
	});
	await partialIndex(knex, 'reports_unmatched', 'reports', 'id', 'recipient_id is null');

	await knex.schema.createTable('mailbox_checkpoints', table => {
		text(table, 'mailbox').primary();
		text(table, 'position').notNullable();
		text(table, 'updated_at').notNullable();
	});
}
