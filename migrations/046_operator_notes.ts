import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Adds notes for operators about a mailbox with unreadable messages, and about a provider that blocks this machine. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	/** The number of skipped messages, when the last one was skipped, and why. */
	await knex.schema.alterTable('mailbox_checkpoints', table => {
		table.integer('skipped').notNullable().defaultTo(0);
		table.specificType('skipped_at', text);
		table.specificType('skip_reason', text);
	});
	/** Whom to contact about sending again. Null unless the provider is suspended for blocking this machine. */
	await knex.schema.alterTable('sites', table => {
		table.specificType('advice', text);
	});
}
