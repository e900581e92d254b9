import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/** Adds received DMARC aggregate reports and TLS reports about local domains, and the TLS reports that were sent. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnTypes(knex);
	const domainOf = (table: Knex.CreateTableBuilder) =>
		table.specificType('domain_id', text).notNullable().references('domains.id').onDelete('CASCADE');
	const texts = (table: Knex.CreateTableBuilder, ...names: readonly string[]) => {
		for (const name of names) {
			table.specificType(name, text).notNullable();
		}
	};
	await knex.schema.createTable('dmarc_reports', table => {
		domainOf(table);
		texts(table, 'org', 'report_id', 'begin_at', 'end_at', 'received_at');
		/** The domain with a valid DKIM signature on the report's message, or null. */
		table.specificType('signed_by', text);
		/** The number of records left out. */
		table.integer('cut').notNullable();
		table.primary(['domain_id', 'org', 'report_id']);
		table.index(['begin_at'], 'dmarc_reports_by_begin');
	});
	await knex.schema.createTable('dmarc_days', table => {
		domainOf(table);
		texts(table, 'day', 'ip');
		/** 1 if it passes and is aligned. */
		table.integer('dkim').notNullable();
		table.integer('spf').notNullable();
		texts(table, 'disposition', 'why');
		table.bigInteger('n').notNullable();
		table.primary(['domain_id', 'day', 'ip', 'dkim', 'spf', 'disposition', 'why']);
		table.index(['day'], 'dmarc_days_by_day');
	});
	await knex.schema.createTable('tls_reports', table => {
		texts(table, 'domain', 'org', 'report_id', 'begin_at', 'end_at', 'received_at', 'signed_by');
		/** The first failures, one line each, as JSON. */
		texts(table, 'failures');
		table.integer('cut').notNullable();
		table.primary(['domain', 'org', 'report_id']);
		table.index(['begin_at'], 'tls_reports_by_begin');
	});
	await knex.schema.createTable('tls_report_days', table => {
		texts(table, 'day', 'domain', 'policy', 'result');
		table.bigInteger('n').notNullable();
		table.primary(['day', 'domain', 'policy', 'result']);
	});
	await knex.schema.createTable('tls_reports_sent', table => {
		texts(table, 'day', 'domain', 'due_at');
		table.integer('attempts').notNullable();
		/** Null until it is sent. */
		table.specificType('sent_at', text);
		table.specificType('error', text);
		table.primary(['day', 'domain']);
	});
}
