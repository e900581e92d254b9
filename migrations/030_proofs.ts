import type {Knex} from 'knex';
import {columnsFor} from './columns.ts';

/**
 * When DNS first showed a key, and whose pause a workspace has: its own users' or that of somebody above. A return path that is not
 * below its domain may be another tenant's, so it becomes the usual one.
 */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnsFor(knex);
	await knex.schema.alterTable('dkim_keys', table => {
		text(table, 'seen_at');
	});
	await knex.schema.alterTable('workspaces', table => {
		text(table, 'paused_by');
	});
	// Keys of a domain that DNS proved have signed until now, and go on.
	await knex.raw(`update dkim_keys set seen_at = active_from where pending_at is null
		and domain_id in (select id from domains where verified_at is not null)`);
	await knex.raw('update domains set return_path_at = null where verified_at is null');
	await knex.raw(`update domains set return_path_domain = null, return_path_at = null
		where return_path_domain not like '%_.' || name`);
}
