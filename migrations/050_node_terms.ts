import type {Knex} from 'knex';

/**
 * Adds the nodes that a node knows, because each provider's limits are now divided evenly among these. `leases` and
 * `alone` remain for nodes of the previous version, which do not write the new column.
 */
export async function up(knex: Knex): Promise<void> {
	if (knex.client.driverName !== 'pg') {
		return;
	}
	await knex.raw('alter table lease_terms add column knows text collate "C"');
	await knex.raw(`create index sites_with_pauses on sites (site)
		where suspended_until is not null or slow_until is not null or mails_per_session is not null`);
}
