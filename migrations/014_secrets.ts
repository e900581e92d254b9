import type {Knex} from 'knex';
import {columnsFor} from './columns.ts';

/** The secret keys that the store was used with: a start with another one is refused. */
export async function up(knex: Knex): Promise<void> {
	const {text, integer} = columnsFor(knex);
	await knex.schema.createTable('secret_keys', table => {
		/** Tokens and sealed secrets name their key by it. */
		integer(table, 'id').primary();
		/** Made from the key, which it proves and does not tell. */
		text(table, 'proof').notNullable().unique();
		text(table, 'created_at').notNullable();
	});
}
