import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** What an endpoint asks for beyond the usual, and how many links of a mail are tracked. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.alterTable('webhook_endpoints', table => {
		/** `full`: bodies have more than the five fields; null: they do not. */
		table.specificType('format', text);
		/** `long`: failed deliveries are tried for days; null: five times. */
		table.specificType('retry', text);
		/** Why the program disabled it at `disabled_at`: `gone`, `failing`; null: a person did. */
		table.specificType('disabled_reason', text);
	});
	await knex.schema.alterTable('recipients', table => {
		/** Different links of the mail that are tracked; null: not known. */
		table.integer('links');
	});
}
