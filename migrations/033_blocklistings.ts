import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Adds the blocklist results for the addresses and domains that messages come from. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.createTable('blocklistings', table => {
		/** An IP address or a domain. */
		table.specificType('source', text).notNullable();
		table.specificType('zone', text).notNullable();
		table.specificType('name', text).notNullable();
		/** The page for removal requests. */
		table.specificType('delist', text).notNullable();
		/** `listed`, `clear`, `refused` or `unknown`. */
		table.specificType('state', text).notNullable();
		table.specificType('answer', text);
		table.specificType('reason', text);
		/** The time since which the state has been the same. */
		table.specificType('since', text).notNullable();
		/** When the list last gave a valid answer, or null if it never did. */
		table.specificType('checked_at', text);
		/** When the list was last queried. A check claims the row by setting this. */
		table.specificType('asked_at', text).notNullable();
		table.primary(['source', 'zone']);
	});
}
