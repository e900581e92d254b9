import type {Knex} from 'knex';

/**
 * Nodes divide each site evenly among the nodes that they know. `leases` and `alone` stay for nodes of the version
 * before, whose terms say nothing of it.
 */
export async function up(knex: Knex): Promise<void> {
	if (knex.client.driverName !== 'pg') {
		return;
	}
	await knex.raw('alter table lease_terms add column knows text collate "C"');
	await knex.raw(`create index sites_with_pauses on sites (site)
		where suspended_until is not null or slow_until is not null or mails_per_session is not null`);
}
