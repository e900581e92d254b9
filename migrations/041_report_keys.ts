import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/**
 * Keys of reports that others cannot take: period and signer belong to them. What each report adds to the counts is
 * bounded, and what one adds that its reporter did not sign can be taken back. How many TLS reports of ours an address
 * has.
 */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	const texts = (table: Knex.CreateTableBuilder, ...names: readonly string[]) => {
		for (const name of names) {
			table.specificType(name, text).notNullable();
		}
	};
	const head = ['begin_at', 'end_at', 'org', 'report_id', 'received_at', 'signed_by', 'cut'];

	// A table that is made anew: SQLite cannot change a primary key.
	await knex.schema.renameTable('dmarc_reports', 'former_reports');
	await knex.schema.createTable('dmarc_reports', table => {
		table.specificType('domain_id', text).notNullable();
		table.foreign('domain_id', 'dmarc_reports_of_domain').references('domains.id').onDelete('CASCADE');
		texts(table, 'begin_at', 'end_at', 'org', 'report_id', 'received_at');
		/** The registered domain whose DKIM signature its mail had; null: none that was valid. */
		table.specificType('signed_by', text);
		/** Records that were left out. */
		table.integer('cut').notNullable();
		/** 1: the reporter's own domain signed it. */
		table.integer('proven').notNullable().defaultTo(0);
		/** Groups of mails that it added to `dmarc_days`, which are bounded for each day. */
		table.integer('group_count').notNullable().defaultTo(0);
		/** JSON: what it added; null: it is proven, and never taken back. */
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
		/** JSON: a line for each of the first failures. */
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

/** Takes the rows of the former table, and removes it with its indexes. */
async function copy(
	knex: Knex,
	table: string,
	columns: readonly string[],
	values: readonly string[] = columns,
): Promise<void> {
	await knex.raw(`insert into ${table} (${columns}) select ${values} from former_reports`);
	await knex.schema.dropTable('former_reports');
}
