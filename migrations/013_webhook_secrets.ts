import type {Knex} from 'knex';
import {columnsFor, partialIndex} from './columns.ts';

/** Signing secrets that overlap while they are rotated, and what test keys made, kept apart from what live keys made. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnsFor(knex);

	await knex.schema.alterTable('webhook_endpoints', table => {
		/** `test`: a test key made it, and it gets events of test mail alone; `live`: it gets all. */
		text(table, 'mode').notNullable().defaultTo('live');
		/** Until `previous_until` the secret before `secret` signs too. */
		text(table, 'previous_secret');
		text(table, 'previous_until');
	});
	// The texts named addresses that only the operator may see.
	await knex('webhook_attempts')
		.where('error', 'like', '% has the address %, which is not public')
		.update({error: 'the host has an address that is not public'});

	await knex.schema.alterTable('suppressions', table => {
		/** `test`: a test key made it, and it stops test mail alone. */
		text(table, 'mode').notNullable().defaultTo('live');
	});

	// All that a test key may list; mail of live keys does not pay for it.
	await partialIndex(knex, 'messages_of_tests', 'messages', 'workspace_id, id', "mode = 'test'");
}
