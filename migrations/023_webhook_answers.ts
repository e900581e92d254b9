import type {Knex} from 'knex';
import {columnsFor} from './columns.ts';

/** How the answer of an endpoint began that refused a delivery. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnsFor(knex);
	await knex.schema.alterTable('webhook_attempts', table => {
		text(table, 'answer');
	});
}
