import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Adds schedules, priorities, more headers and parts, unstored variables, default topics, preferences and layouts. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	const isPostgres = knex.client.driverName === 'pg';
	function texts(table: Knex.CreateTableBuilder, ...names: string[]): void {
		for (const name of names) {
			table.specificType(name, text);
		}
	}
	await knex.schema.alterTable('messages', table => {
		/**
		 * `extras`: properties that few sends have (`Extras` in `src/mail/message.ts`), as JSON. `sealed`: sensitive
		 * variables, until the last attempt ends.
		 */
		texts(table, 'extras', 'sealed');
	});
	await knex.raw('create index messages_sealed on messages (id) where sealed is not null');
	await knex.schema.alterTable('attachments', table => texts(table, 'content_id'));
	await knex.schema.alterTable('queue', table => {
		/** `send_at`: the earliest time. `expires_at`: the latest time. Null if the send has none. */
		texts(table, 'send_at', 'expires_at');
		/** The message's id if `send_at` is set, for the list of scheduled messages. */
		texts(table, 'scheduled_message');
		/** 1 for high, 0 for normal, -1 for low. */
		table.specificType('priority', 'integer').notNullable().defaultTo(knex.raw('0'));
	});
	// The messages of one destination, workspace and priority form a queue. Counts still come from the index alone.
	await knex.raw('drop index queue_due');
	await knex.raw(
		`create index queue_due on queue (destination, workspace_id, priority, next_attempt_at, ${
			isPostgres ? 'recipient_id' : 'held_at'
		}) where held_at is null`,
	);
	await knex.raw('create index queue_expiring on queue (expires_at) where expires_at is not null');
	await knex.raw(
		'create index queue_scheduled on queue (workspace_id, scheduled_message) where scheduled_message is not null',
	);
	await knex.schema.alterTable('templates', table => {
		/** `sensitive`: names of variables, as JSON. Null means the default. */
		texts(table, 'priority', 'topic_code', 'sensitive');
	});
	await knex.schema.alterTable('topics', table => {
		/**
		 * `public_at`: since when the preference page shows the topic. `required_at`: since when its messages have had
		 * no opt-out of their own.
		 */
		texts(table, 'priority', 'public_at', 'required_at', 'description');
	});
	await knex.schema.alterTable('topic_optouts', table => {
		/** When a pause ends, or null if the opt-out has no end. */
		texts(table, 'until');
	});
	await knex.raw('create index topic_optouts_ending on topic_optouts (until) where until is not null');
	await knex.schema.alterTable('workspaces', table => {
		texts(table, 'default_topic');
		for (const name of ['retention_days', 'content_days', 'max_attachments', 'max_attachment_bytes']) {
			table.integer(name);
		}
	});
	/** A digest of what the fingerprint leaves out. */
	await knex.schema.alterTable('idempotency_keys', table => texts(table, 'others'));
	await knex.schema.createTable('layouts', table => {
		/** `kind`: `layout` or `partial`. `files`: sources by file name, as JSON. */
		for (const name of ['workspace_id', 'kind', 'name', 'files', 'updated_at']) {
			table.specificType(name, text).notNullable();
		}
		table.foreign('workspace_id').references('workspaces.id').onDelete('CASCADE');
		table.primary(['workspace_id', 'kind', 'name']);
	});
	await knex.schema.alterTable('template_versions', table => texts(table, 'layout'));
	await knex.schema.alterTable('template_variants', table => {
		/** The sources as written, if layouts or partials were inserted into `source` and `text_source`. */
		texts(table, 'own_source', 'own_text_source');
	});
}
