import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Reads the events of a workspace's own relays in turn with other mail, and limits how many are retained. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	/** The workspace whose relay posted the event, while it is unread or retained. */
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
