import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** What blocklists say of the addresses and domains that mail comes from. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.createTable('blocklistings', table => {
		/** An address or a domain. */
		table.specificType('source', text).notNullable();
		table.specificType('zone', text).notNullable();
		table.specificType('name', text).notNullable();
		/** Where removal is asked for. */
		table.specificType('delist', text).notNullable();
		/** `listed`, `clear`, `refused` or `unknown`. */
		table.specificType('state', text).notNullable();
		table.specificType('answer', text);
		table.specificType('reason', text);
		/** Since when the state is what it is. */
		table.specificType('since', text).notNullable();
		/** When the list last gave an answer that counts; null: it never did. */
		table.specificType('checked_at', text);
		/** When it was last asked; a check takes the row by setting it. */
		table.specificType('asked_at', text).notNullable();
		table.primary(['source', 'zone']);
	});
}
