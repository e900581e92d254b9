import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/**
 * In which order mails are read that came in: `precedence` 0 first, and within it one `turn` after the other. `begun`:
 * how often the reading of a mail began and has not ended. Mails of before have proved nothing.
 */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.alterTable('inbound', table => {
		table.integer('precedence').notNullable().defaultTo(2);
		table.specificType('turn', text).notNullable().defaultTo('unknown');
		table.integer('begun').notNullable().defaultTo(0);
	});
	await knex.raw('create index inbound_turns on inbound (precedence, turn, received_at) where read_at is null');
}
