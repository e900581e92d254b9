import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Adds the CA that issued a certificate, the CA of its last order, and the operator's address in an account. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.alterTable('certificates', table => {
		/** The URL of the CA's directory. Null if there is no certificate, or its CA is not known. */
		table.specificType('directory', text);
		/** The directory of the last order, whatever its result. */
		table.specificType('tried_directory', text);
	});
	await knex.schema.alterTable('acme_accounts', table => {
		table.specificType('email', text);
	});
	// With a single account, all existing certificates were ordered from that CA.
	const accounts: Array<{directory: string}> = await knex('acme_accounts').select('directory').limit(2);
	if (accounts.length === 1) {
		const directory = accounts[0]?.directory;
		await knex('certificates').update({tried_directory: directory});
		await knex('certificates').whereNotNull('chain').update({directory});
	}
}
