import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Adds addresses at which workspaces receive mail, and the received messages. */
export async function up(knex: Knex): Promise<void> {
	const {text, bytes} = columnTypes(knex);
	function texts(table: Knex.CreateTableBuilder, ...names: string[]): void {
		for (const name of names) {
			table.specificType(name, text).notNullable();
		}
	}
	const ofWorkspace = (table: Knex.CreateTableBuilder) =>
		table.foreign('workspace_id').references('workspaces.id').onDelete('CASCADE');
	const ofMail = (table: Knex.CreateTableBuilder) =>
		table.foreign('received_id').references('received.id').onDelete('CASCADE');
	/** The SMTP client and its HELO name, for SPF. Null if the message did not arrive over SMTP. */
	await knex.schema.alterTable('inbound', table => {
		table.specificType('client', text);
		table.specificType('helo', text);
	});
	await knex.schema.createTable('inbound_addresses', table => {
		table.specificType('id', text).primary();
		/** `address`: in comparison form, or `*@` for all of a domain. */
		texts(table, 'workspace_id', 'address', 'created_at');
		table.unique(['address']);
		table.index(['workspace_id', 'id'], 'inbound_addresses_by_workspace');
		ofWorkspace(table);
	});
	await knex.schema.createTable('received', table => {
		table.specificType('id', text).primary();
		/**
		 * `inbound_id`: the row of `inbound` that it arrived as. `summary`, `content`: JSON (`src/mail/received.ts`).
		 */
		texts(table, 'workspace_id', 'inbound_id', 'summary', 'content', 'received_at');
		/** The message that it replies to. */
		table.specificType('in_reply_to', text);
		/** Why it could not be read, or null. */
		table.specificType('fault', text);
		table.integer('size').notNullable();
		table.specificType('raw', bytes).notNullable();
		// The same message is stored only once.
		table.unique(['inbound_id', 'workspace_id']);
		table.index(['workspace_id', 'id'], 'received_by_workspace');
		ofWorkspace(table);
	});
	await knex.schema.createTable('received_files', table => {
		texts(table, 'received_id');
		table.integer('n').notNullable();
		table.specificType('content', bytes).notNullable();
		table.primary(['received_id', 'n']);
		ofMail(table);
	});
	/**
	 * The terms by which a message is found: `from:` and `to:` with an address in comparison form, `re:` with a message
	 * id, `w:` with a word of the subject.
	 */
	await knex.schema.createTable('received_terms', table => {
		texts(table, 'workspace_id', 'term', 'received_id');
		table.primary(['workspace_id', 'term', 'received_id']);
		table.index(['received_id'], 'received_terms_by_mail');
		ofMail(table);
	});
}
