import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Which CA gave a certificate and was asked for it last, and the address of the operator that an account has. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.alterTable('certificates', table => {
		/** The URL of the CA's directory. Null: there is no certificate, or it is not known. */
		table.specificType('directory', text);
		/** That of the last order, whatever came of it. */
		table.specificType('tried_directory', text);
	});
	await knex.schema.alterTable('acme_accounts', table => {
		table.specificType('email', text);
	});
	// Where there is one account, all that was ordered so far was ordered by it.
	const accounts: Array<{directory: string}> = await knex('acme_accounts').select('directory').limit(2);
	if (accounts.length === 1) {
		const directory = accounts[0]?.directory;
		await knex('certificates').update({tried_directory: directory});
		await knex('certificates').whereNotNull('chain').update({directory});
	}
}
