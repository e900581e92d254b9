import type {Knex} from 'knex';
import {columnsFor} from './columns.ts';

/** Which version of the program a node runs. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnsFor(knex);
	await knex.schema.alterTable('nodes', table => {
		text(table, 'version');
	});
}
