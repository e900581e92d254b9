import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/**
 * Records when DNS first showed a key, and who paused a workspace: its own users or the operator. A return path that is
 * not below its domain may belong to another tenant, so it is reset to the default.
 */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.alterTable('dkim_keys', table => {
		table.specificType('seen_at', text);
	});
	await knex.schema.alterTable('workspaces', table => {
		table.specificType('paused_by', text);
	});
	// Keys of a domain verified in DNS have been signing, and continue to do so.
	await knex.raw(`update dkim_keys set seen_at = active_from where pending_at is null
		and domain_id in (select id from domains where verified_at is not null)`);
	await knex.raw('update domains set return_path_at = null where verified_at is null');
	await knex.raw(`update domains set return_path_domain = null, return_path_at = null
		where return_path_domain not like '%_.' || name`);
}
