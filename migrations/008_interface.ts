import type {Knex} from 'knex';
import {columnsFor, partialIndex} from './columns.ts';

/** What the whole interface needs besides: copies by address for an erasure, claims of webhooks, sample variables, topics in the order of lists, opt-outs by code. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnsFor(knex);

	// `to` copies are found by `messages_by_recipient`; copies to `cc` are few.
	await partialIndex(knex, 'recipients_cc_by_address', 'recipients', 'workspace_id, address_key', `role = 'cc'`);
	await partialIndex(knex, 'webhook_deliveries_claimed', 'webhook_deliveries', 'claimed_by', 'claimed_by is not null');
	await knex.schema.alterTable('topics', table => {
		table.index(['workspace_id', 'id'], 'topics_by_workspace');
	});
	await knex.schema.alterTable('topic_optouts', table => {
		table.index(['workspace_id', 'code', 'address_key'], 'topic_optouts_by_code');
	});
	await knex.schema.alterTable('template_versions', table => {
		text(table, 'sample');
	});

	// A deleted endpoint stops at once; its rows, which may be many, go step by step.
	await knex.schema.alterTable('webhook_endpoints', table => {
		text(table, 'deleted_at');
	});
	// With the id, so that deliveries that come due together start in their order without being sorted at each claim.
	await knex.raw('drop index webhook_deliveries_due');
	await partialIndex(
		knex,
		'webhook_deliveries_due',
		'webhook_deliveries',
		'endpoint_id, next_attempt_at, id',
		'next_attempt_at is not null',
	);
}
