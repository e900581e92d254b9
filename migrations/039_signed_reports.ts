import type {Knex} from 'knex';

/**
 * How many of the mails that DMARC reports speak of are in reports whose own mail had a valid DKIM signature; of counts
 * until now none.
 */
export async function up(knex: Knex): Promise<void> {
	await knex.schema.alterTable('dmarc_days', table => {
		table.bigInteger('signed').notNullable().defaultTo(0);
	});
}
