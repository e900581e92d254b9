import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Adds the optional features of an endpoint, and the number of tracked links in a message. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.alterTable('webhook_endpoints', table => {
		/** `full`: bodies have more than the five fields. Null: they do not. */
		table.specificType('format', text);
		/** `long`: failed deliveries are retried for days. Null: five attempts. */
		table.specificType('retry', text);
		/** Why mailctl disabled the endpoint at `disabled_at`: `gone` or `failing`. Null if a person did. */
		table.specificType('disabled_reason', text);
	});
	await knex.schema.alterTable('recipients', table => {
		/** The number of distinct tracked links, or null if not known. */
		table.integer('links');
	});
}
