import type {Knex} from 'knex';

/** Indexes in the order of lists: of senders and domains of a workspace, and of an endpoint's deliveries in one state. */
export async function up(knex: Knex): Promise<void> {
	await knex.schema.alterTable('senders', table => {
		table.index(['workspace_id', 'id'], 'senders_by_workspace');
	});
	await knex.schema.alterTable('domains', table => {
		table.index(['workspace_id', 'id'], 'domains_by_workspace');
	});
	await knex.schema.alterTable('webhook_deliveries', table => {
		table.index(['endpoint_id', 'state', 'id'], 'webhook_deliveries_by_state');
	});
}
