import type {Knex} from 'knex';
import {columnsFor} from './columns.ts';

/** The figures of usage by the hour, for the last days. */
export async function up(knex: Knex): Promise<void> {
	const {text, integer} = columnsFor(knex);

	await knex.schema.createTable('usage_hours', table => {
		text(table, 'workspace_id').notNullable().references('workspaces.id').onDelete('CASCADE');
		/** UTC, as `2026-11-05T13`. */
		text(table, 'hour').notNullable();
		text(table, 'status').notNullable();
		integer(table, 'n').notNullable();
		table.primary(['workspace_id', 'hour', 'status']);
		table.index(['hour'], 'usage_hours_by_age');
	});
}
