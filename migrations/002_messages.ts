import type {Knex} from 'knex';
import {clusteredTable, columnsFor, partialIndex} from './columns.ts';

/** The mail itself: messages, attachments, recipients (which are the queue), attempts, the timeline, engagement. */
export async function up(knex: Knex): Promise<void> {
	const {text, integer, bytes} = columnsFor(knex);

	await knex.schema.createTable('messages', table => {
		text(table, 'id').primary();
		text(table, 'workspace_id').notNullable();
		text(table, 'mode').notNullable();
		text(table, 'from_address').notNullable();
		text(table, 'from_key').notNullable();
		text(table, 'to_address').notNullable();
		text(table, 'to_key').notNullable();
		text(table, 'reply_to');
		text(table, 'cc');
		text(table, 'template_id').notNullable();
		text(table, 'version_id').notNullable();
		text(table, 'data');
		text(table, 'metadata');
		text(table, 'tags');
		text(table, 'topic_id');
		text(table, 'topic_code');
		text(table, 'locale');
		text(table, 'timezone');
		text(table, 'tracking');
		integer(table, 'attachments').notNullable();
		text(table, 'resent_from');
		text(table, 'created_at').notNullable();
		text(table, 'erased_at');
		table.index(['workspace_id', 'id'], 'messages_by_workspace');
		table.index(['workspace_id', 'to_key', 'id'], 'messages_by_recipient');
		table.index(['workspace_id', 'from_key', 'id'], 'messages_by_sender');
		table.index(['workspace_id', 'template_id', 'id'], 'messages_by_template');
	});

	await knex.schema.createTable('attachments', table => {
		text(table, 'message_id').notNullable().references('messages.id').onDelete('CASCADE');
		integer(table, 'position').notNullable();
		text(table, 'filename').notNullable();
		text(table, 'content_type').notNullable();
		bytes(table, 'content').notNullable();
		table.primary(['message_id', 'position']);
	});

	await knex.schema.createTable('recipients', table => {
		text(table, 'id').primary();
		text(table, 'workspace_id').notNullable();
		text(table, 'message_id').notNullable().references('messages.id').onDelete('CASCADE');
		text(table, 'address').notNullable();
		text(table, 'address_key').notNullable();
		text(table, 'role').notNullable();
		text(table, 'destination').notNullable();
		text(table, 'state').notNullable();
		text(table, 'state_at').notNullable();
		text(table, 'subject');
		integer(table, 'attempts').notNullable();
		text(table, 'next_attempt_at');
		text(table, 'claimed_by');
		text(table, 'held_at');
		text(table, 'sent_at');
		text(table, 'last_category');
		text(table, 'last_reply');
		integer(table, 'crashes').notNullable();
		table.index(['message_id'], 'recipients_by_message');
	});
	await partialIndex(
		knex,
		'recipients_due',
		'recipients',
		'destination, next_attempt_at',
		'next_attempt_at is not null',
	);
	await partialIndex(knex, 'recipients_claimed', 'recipients', 'claimed_by', 'claimed_by is not null');
	await partialIndex(knex, 'recipients_by_state', 'recipients', 'workspace_id, state, message_id', `role = 'to'`);

	await clusteredTable(knex, 'attempts', ['recipient_id', 'n', 'position'], table => {
		text(table, 'recipient_id').notNullable().references('recipients.id').onDelete('CASCADE');
		integer(table, 'n').notNullable();
		integer(table, 'position').notNullable();
		text(table, 'at').notNullable();
		text(table, 'host');
		text(table, 'ip');
		text(table, 'tls');
		text(table, 'phase').notNullable();
		integer(table, 'code');
		text(table, 'enhanced');
		text(table, 'reply').notNullable();
		integer(table, 'ms').notNullable();
	});

	await clusteredTable(knex, 'events', ['message_id', 'id'], table => {
		text(table, 'id').notNullable();
		text(table, 'message_id').notNullable().references('messages.id').onDelete('CASCADE');
		text(table, 'recipient_id');
		text(table, 'type').notNullable();
		text(table, 'occurred_at').notNullable();
		text(table, 'recorded_at').notNullable();
		text(table, 'detail');
	});

	await knex.schema.createTable('engagement', table => {
		text(table, 'recipient_id').notNullable().references('recipients.id').onDelete('CASCADE');
		text(table, 'kind').notNullable();
		text(table, 'url').notNullable();
		integer(table, 'n').notNullable();
		integer(table, 'machine_n').notNullable();
		text(table, 'first_at').notNullable();
		text(table, 'last_at').notNullable();
		table.primary(['recipient_id', 'kind', 'url']);
	});
}
