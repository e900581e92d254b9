import {domainToASCII} from 'node:url';
import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/**
 * Adds addresses that consented to a workspace's alerts, and the limits for tests and confirmations. The addresses of
 * existing alerts count as confirmed, so that no operator misses an alert because of the upgrade.
 */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.createTable('alert_addresses', table => {
		table.specificType('workspace_id', text).notNullable().references('workspaces.id').onDelete('CASCADE');
		/** In comparison form. */
		table.specificType('address_key', text).notNullable();
		table.specificType('confirmed_at', text).notNullable();
		table.primary(['workspace_id', 'address_key']);
	});
	/** An allowance of n uses has the slots 1 to n. A slot can be used again once its window has passed. */
	await knex.schema.createTable('alert_allowances', table => {
		table.specificType('name', text).notNullable();
		table.integer('slot').notNullable();
		table.specificType('used_at', text).notNullable();
		table.primary(['name', 'slot']);
	});
	await knex.schema.alterTable('users', table => {
		/**
		 * Set if an operator of the installation added the user. Null if an admin of one workspace did, who may enter
		 * any address.
		 */
		table.specificType('vouched_at', text);
	});
	await knex('users').update({vouched_at: knex.ref('created_at')});
	const alerts: ReadonlyArray<Record<'workspace_id' | 'target' | 'created_at', string>> = await knex('alerts')
		.where({way: 'mail'})
		.whereNotNull('workspace_id')
		.orderBy('id')
		.select('workspace_id', 'target', 'created_at');
	for (const {workspace_id, target, created_at} of alerts) {
		await knex('alert_addresses')
			.insert({workspace_id, address_key: comparisonForm(target), confirmed_at: created_at})
			.onConflict(['workspace_id', 'address_key'])
			.ignore();
	}
}

function comparisonForm(address: string): string {
	const at = address.lastIndexOf('@');
	const local = address.slice(0, at).normalize('NFC').toLowerCase();
	return `${local}@${domainToASCII(address.slice(at + 1))}`;
}
