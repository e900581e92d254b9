import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Schedules, priorities, more headers and parts, variables that are not kept, default topics, preferences, layouts. */
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
		 * `extras`: what few sends have (`Extras` in `src/mail/message.ts`), JSON. `sealed`: sensitive variables until
		 * the last attempt ends.
		 */
		texts(table, 'extras', 'sealed');
	});
	await knex.raw('create index messages_sealed on messages (id) where sealed is not null');
	await knex.schema.alterTable('attachments', table => texts(table, 'content_id'));
	await knex.schema.alterTable('queue', table => {
		/** `send_at`: not before then. `expires_at`: not after. Null: the send has no such time. */
		texts(table, 'send_at', 'expires_at');
		/** The message, where `send_at` is set: the list of what is scheduled. */
		texts(table, 'scheduled_message');
		/** 1: high, 0: normal, -1: low. */
		table.specificType('priority', 'integer').notNullable().defaultTo(knex.raw('0'));
	});
	// The mail of one destination, workspace and priority is a queue of its own. As before, counts come from the index
	// alone.
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
		/** `sensitive`: names of variables, JSON. Null: the default of each. */
		texts(table, 'priority', 'topic_code', 'sensitive');
	});
	await knex.schema.alterTable('topics', table => {
		/**
		 * `public_at`: people see it on the preference page since then. `required_at`: its mail has no opt-out of its
		 * own since then.
		 */
		texts(table, 'priority', 'public_at', 'required_at', 'description');
	});
	await knex.schema.alterTable('topic_optouts', table => {
		/** It ends then: a pause; null: it does not end. */
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
		/** `kind`: `layout` or `partial`. `files`: sources by file name, JSON. */
		for (const name of ['workspace_id', 'kind', 'name', 'files', 'updated_at']) {
			table.specificType(name, text).notNullable();
		}
		table.foreign('workspace_id').references('workspaces.id').onDelete('CASCADE');
		table.primary(['workspace_id', 'kind', 'name']);
	});
	await knex.schema.alterTable('template_versions', table => texts(table, 'layout'));
	await knex.schema.alterTable('template_variants', table => {
		/** As written, where the layout or partials were put into `source` and `text_source`. */
		texts(table, 'own_source', 'own_text_source');
	});
}
