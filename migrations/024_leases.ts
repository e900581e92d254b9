import type {Knex} from 'knex';
import {columnsFor} from './columns.ts';

/** What each node has of a site's connections, where nodes share a store. With SQLite a process has them all. */
export async function up(knex: Knex): Promise<void> {
	if (knex.client.driverName !== 'pg') {
		return;
	}
	const {text, integer} = columnsFor(knex);
	await knex.schema.createTable('lease_terms', table => {
		text(table, 'node').primary();
		/** Milliseconds of the server's clock. */
		table.bigInteger('until').notNullable();
		/** 1: it has all sites, and no rows in `leases`. */
		integer(table, 'alone').notNullable();
	});
	await knex.schema.createTable('leases', table => {
		text(table, 'site').notNullable();
		text(table, 'node').notNullable();
		integer(table, 'slots').notNullable();
		integer(table, 'wants').notNullable();
		integer(table, 'per_minute');
		table.primary(['site', 'node']);
		table.index('node', 'leases_by_node');
	});
	// Small rows that are changed in place.
	await knex.raw('alter table leases set (fillfactor = 50)');
	await knex.raw('alter table lease_terms set (fillfactor = 50)');
}
