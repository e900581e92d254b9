import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Adds facts for alerts: whether a domain was ever verified, and what relays accepted without reporting on it. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.alterTable('domains', table => {
		/** Remains set if the domain fails later, which clears `verified_at`. */
		table.specificType('first_verified_at', text);
	});
	await knex('domains').update({first_verified_at: knex.ref('verified_at')});
	await knex.schema.alterTable('smarthosts', table => {
		/** When the relay last accepted a message. */
		table.specificType('used_at', text);
		/** When it accepted the first message since its last event. */
		table.specificType('unreported_since', text);
	});
}
