import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Certificates that a CA gives by itself (RFC 8555), and the link host of a domain. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.createTable('certificates', table => {
		/** The one name that it is for, A-labels. */
		table.specificType('name', text).primary();
		/** PEM, the certificate first. Null with all that follows from it: there is none yet. */
		table.specificType('chain', text);
		/** The private key, PEM, sealed for the name. */
		table.specificType('secret', text);
		table.specificType('not_before', text);
		table.specificType('not_after', text);
		table.specificType('issuer', text);
		/** When the CA wants it to be renewed (RFC 9773); null: it does not say. */
		table.specificType('window_start', text);
		table.specificType('window_end', text);
		/** When it is due. */
		table.specificType('next_try_at', text).notNullable();
		/** A node works on it until then; null: none does. */
		table.specificType('taken_until', text);
		/** Orders that failed since the last one that did not. */
		table.integer('tries').notNullable();
		/** Why the last order failed. */
		table.specificType('fault', text);
		/** When a node last found that it is to be had. */
		table.specificType('wanted_at', text);
		/** Why it is not asked for; null: it is. */
		table.specificType('unused', text);
		table.specificType('updated_at', text).notNullable();
	});
	await knex.schema.createTable('acme_accounts', table => {
		/** The URL of the CA's directory. */
		table.specificType('directory', text).primary();
		/** What the CA calls the account. */
		table.specificType('url', text).notNullable();
		/** Its private key, PEM, sealed for the directory. */
		table.specificType('secret', text).notNullable();
		table.specificType('created_at', text).notNullable();
	});
	await knex.schema.createTable('acme_challenges', table => {
		table.specificType('token', text).primary();
		/** `http-01` or `tls-alpn-01`. */
		table.specificType('type', text).notNullable();
		table.specificType('name', text).notNullable();
		table.specificType('key_authorization', text).notNullable();
		table.specificType('expires_at', text).notNullable();
	});
	await knex.schema.alterTable('domains', table => {
		/** The host of links in its mail; null: that of MAILCTL_PUBLIC_URL. */
		table.specificType('link_host', text);
		/** Since when the host leads here and is used. */
		table.specificType('links_ok_at', text);
	});
}
