import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/**
 * Adds period and signer to the keys of reports, so that others cannot claim them. Limits what each report adds to the
 * counts, and allows removing what an unsigned report added. Counts the TLS reports sent to an address.
 */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	const texts = (table: Knex.CreateTableBuilder, ...names: readonly string[]) => {
		for (const name of names) {
			table.specificType(name, text).notNullable();
		}
	};
	const head = ['begin_at', 'end_at', 'org', 'report_id', 'received_at', 'signed_by', 'cut'];

	// SQLite cannot change a primary key, so the tables are created again.
	await knex.schema.renameTable('dmarc_reports', 'former_reports');
	await knex.schema.createTable('dmarc_reports', table => {
		table.specificType('domain_id', text).notNullable();
		table.foreign('domain_id', 'dmarc_reports_of_domain').references('domains.id').onDelete('CASCADE');
		texts(table, 'begin_at', 'end_at', 'org', 'report_id', 'received_at');
		/** The registered domain with a valid DKIM signature on the report's message, or null. */
		table.specificType('signed_by', text);
		/** The number of records left out. */
		table.integer('cut').notNullable();
		/** 1 if the reporter's own domain signed it. */
		table.integer('proven').notNullable().defaultTo(0);
		/** The number of groups that it added to `dmarc_days`, which are limited per day. */
		table.integer('group_count').notNullable().defaultTo(0);
		/** What the report added, as JSON. Null if it is proven, and so never removed. */
		table.specificType('counts', text);
	});
	const proven = 'case when signed_by is null then 0 else 1 end';
	await copy(knex, 'dmarc_reports', ['domain_id', ...head, 'proven'], ['domain_id', ...head, proven]);
	await knex.raw(
		`create unique index dmarc_reports_key on dmarc_reports
			(domain_id, begin_at, end_at, org, report_id, coalesce(signed_by, ''))`,
	);
	await knex.raw('create index dmarc_reports_by_begin on dmarc_reports (begin_at)');
	await knex.raw('create index dmarc_reports_unproven on dmarc_reports (begin_at) where proven = 0');
	await knex.raw('create index dmarc_days_unproven on dmarc_days (day) where n > signed');

	await knex.schema.renameTable('tls_reports', 'former_reports');
	await knex.schema.createTable('tls_reports', table => {
		texts(table, 'domain', 'begin_at', 'end_at', 'org', 'report_id', 'signed_by', 'received_at');
		/** The first failures, one line each, as JSON. */
		texts(table, 'failures');
		table.integer('cut').notNullable();
		table.primary(['domain', 'begin_at', 'end_at', 'org', 'report_id', 'signed_by'], 'tls_reports_key');
	});
	await copy(knex, 'tls_reports', ['domain', ...head, 'failures']);
	await knex.raw('create index tls_reports_by_begin on tls_reports (begin_at)');

	await knex.schema.createTable('tls_report_recipients', table => {
		/** The day on which the reports were sent. */
		texts(table, 'day', 'address');
		table.integer('reports').notNullable();
		table.primary(['day', 'address']);
	});
}

/** Copies the rows of the former table, and drops it with its indexes. */
async function copy(
	knex: Knex,
	table: string,
	columns: readonly string[],
	values: readonly string[] = columns,
): Promise<void> {
	await knex.raw(`insert into ${table} (${columns}) select ${values} from former_reports`);
	await knex.schema.dropTable('former_reports');
}
