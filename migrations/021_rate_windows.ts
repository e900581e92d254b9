import type {Knex} from 'knex';
import {columnsFor} from './columns.ts';

/** What is given out of a key's window of sends, where nodes share a store. With SQLite a process counts for itself. */
export async function up(knex: Knex): Promise<void> {
	if (knex.client.driverName !== 'pg') {
		return;
	}
	const {text, integer} = columnsFor(knex);
	await knex.schema.createTable('rate_windows', table => {
		text(table, 'key_id').notNullable().references('api_keys.id').onDelete('CASCADE');
		text(table, 'bucket').notNullable();
		text(table, 'ends_at').notNullable();
		integer(table, 'given').notNullable();
		/** The last part that was given. */
		integer(table, 'part').notNullable();
		table.primary(['key_id', 'bucket']);
	});
	await knex.raw('alter table rate_windows set unlogged');
}
