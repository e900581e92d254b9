import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** What operators are told of a mailbox that has messages nobody can read, and of a site that blocks us. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	/** How many messages were skipped so far; when that was last, and why. */
	await knex.schema.alterTable('mailbox_checkpoints', table => {
		table.integer('skipped').notNullable().defaultTo(0);
		table.specificType('skipped_at', text);
		table.specificType('skip_reason', text);
	});
	/** Whom to ask to send to the site again; null: it is not suspended because it blocks us. */
	await knex.schema.alterTable('sites', table => {
		table.specificType('advice', text);
	});
}
