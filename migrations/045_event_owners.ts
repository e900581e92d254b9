import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/**
 * Events of a workspace's own smarthosts are read in turns with other mail, and kept within bounds of the workspace.
 */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	/** Of an event that is unread or kept: the workspace whose smarthost posted it. */
	await knex.schema.alterTable('inbound', table => {
		table.specificType('workspace_id', text);
	});
	await knex.raw('drop index inbound_unread');
	await knex.raw('create index inbound_unread on inbound (workspace_id, received_at) where read_at is null');
	await knex.raw('drop index inbound_kept');
	await knex.raw(
		'create index inbound_kept on inbound (received_at, id, size, kept, workspace_id) where kept is not null',
	);
	await knex.raw(
		`create index inbound_kept_of_workspace on inbound (workspace_id, received_at, id, size, kept)
			where kept is not null and workspace_id is not null`,
	);
}
