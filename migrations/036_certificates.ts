import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Adds automatically issued certificates (RFC 8555), and the link host of a domain. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	await knex.schema.createTable('certificates', table => {
		/** The only name in the certificate, in A-labels. */
		table.specificType('name', text).primary();
		/** PEM, with the leaf certificate first. Null, like the columns derived from it, before the first issuance. */
		table.specificType('chain', text);
		/** The private key as PEM, sealed for the name. */
		table.specificType('secret', text);
		table.specificType('not_before', text);
		table.specificType('not_after', text);
		table.specificType('issuer', text);
		/** When the CA asks for the renewal (RFC 9773), or null if it does not say. */
		table.specificType('window_start', text);
		table.specificType('window_end', text);
		/** When the next order is due. */
		table.specificType('next_try_at', text).notNullable();
		/** Until when a node is working on it, or null. */
		table.specificType('taken_until', text);
		/** The number of failed orders since the last success. */
		table.integer('tries').notNullable();
		/** Why the last order failed. */
		table.specificType('fault', text);
		/** When a node last found that the certificate is needed. */
		table.specificType('wanted_at', text);
		/** Why it is not being ordered, or null. */
		table.specificType('unused', text);
		table.specificType('updated_at', text).notNullable();
	});
	await knex.schema.createTable('acme_accounts', table => {
		/** The URL of the CA's directory. */
		table.specificType('directory', text).primary();
		/** The account's URL at the CA. */
		table.specificType('url', text).notNullable();
		/** The account's private key as PEM, sealed for the directory. */
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
		/** The host of links in the domain's messages, or null for that of MAILCTL_PUBLIC_URL. */
		table.specificType('link_host', text);
		/** Since when the host has pointed to this machine and been used. */
		table.specificType('links_ok_at', text);
	});
}
