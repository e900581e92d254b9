import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/**
 * Adds the order in which incoming messages are read: `precedence` 0 first, and within it the `turn`s alternate.
 * `begun`: how often reading started without finishing. Existing messages get the lowest precedence.
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
