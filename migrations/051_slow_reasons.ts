import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Adds the reply because of which a provider gets less mail for a while. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.alterTable('sites', table => {
		table.specificType('slow_reason', text);
	});
}
