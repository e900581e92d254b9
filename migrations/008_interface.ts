import type {Knex} from 'knex';
import {columnsFor, partialIndex} from './columns.ts';

/** What the whole interface needs besides: copies by address for an erasure, claims of webhooks, sample variables. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnsFor(knex);

	// `to` copies are found by `messages_by_recipient`; copies to `cc` are few.
	await partialIndex(knex, 'recipients_cc_by_address', 'recipients', 'workspace_id, address_key', `role = 'cc'`);
	await partialIndex(knex, 'webhook_deliveries_claimed', 'webhook_deliveries', 'claimed_by', 'claimed_by is not null');
	await knex.schema.alterTable('template_versions', table => {
		text(table, 'sample');
	});
}
