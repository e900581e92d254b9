import type {Knex} from 'knex';

/** Adds the number of messages that come from DMARC reports with a valid DKIM signature; 0 for all existing counts. */
export async function up(knex: Knex): Promise<void> {
	await knex.schema.alterTable('dmarc_days', table => {
		table.bigInteger('signed').notNullable().defaultTo(0);
	});
}
