import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Adds the recipients of alerts, current conditions, and alert messages to send. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.createTable('alerts', table => {
		table.specificType('id', text).primary();
		/** Null if it is about the installation. */
		table.specificType('workspace_id', text).references('workspaces.id').onDelete('CASCADE');
		/** `mail`, `webhook` or `slack`, and the address or URL in a form that people may read. */
		table.specificType('way', text).notNullable();
		table.specificType('target', text).notNullable();
		/** Sealed for the row: the key that signs its posts, or the Slack URL, which is a secret. */
		table.specificType('secret', text);
		/** The sender of its messages, or null for mailctl at MAILCTL_HOSTNAME. */
		table.specificType('sender', text);
		/** A JSON array, or null for all kinds. */
		table.specificType('kinds', text);
		table.specificType('muted_until', text);
		table.specificType('digest_at', text).notNullable();
		table.specificType('sent_at', text);
		table.specificType('error', text);
		table.specificType('created_at', text).notNullable();
		table.index(['workspace_id', 'id'], 'alerts_by_workspace');
	});
	await knex.schema.createTable('conditions', table => {
		table.specificType('kind', text).notNullable();
		table.specificType('subject', text).notNullable();
		table.specificType('workspace_id', text).references('workspaces.id').onDelete('CASCADE');
		table.specificType('detail', text).notNullable();
		table.specificType('fix', text).notNullable();
		table.specificType('began_at', text).notNullable();
		table.specificType('seen_at', text).notNullable();
		/** Null if it has not lasted long enough. */
		table.specificType('announced_at', text);
		table.specificType('ended_at', text);
		/** How often it was announced recently. A condition that comes and goes takes longer to clear. */
		table.integer('rings').notNullable();
		table.primary(['kind', 'subject']);
		table.index(['workspace_id'], 'conditions_by_workspace');
	});
	await knex.schema.createTable('alert_messages', table => {
		table.specificType('id', text).primary();
		table.specificType('alert_id', text).notNullable().references('alerts.id').onDelete('CASCADE');
		/** The event and its conditions, as JSON. */
		table.specificType('message', text).notNullable();
		table.specificType('due_at', text).notNullable();
		table.integer('attempts').notNullable();
		table.index(['alert_id'], 'alert_messages_by_alert');
	});
}
