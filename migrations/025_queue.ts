import type {Knex} from 'knex';
import {clusteredTable, columnsFor, partialIndex} from './columns.ts';

/** Copies that wait, and those that a daemon has: narrow tables, whose rows go when a copy comes to its end. */
export async function up(knex: Knex): Promise<void> {
	const {text, integer} = columnsFor(knex);

	await clusteredTable(knex, 'queue', ['recipient_id'], table => {
		text(table, 'recipient_id').notNullable();
		text(table, 'workspace_id').notNullable();
		text(table, 'destination').notNullable();
		text(table, 'next_attempt_at').notNullable();
		text(table, 'held_at');
	});

	await clusteredTable(knex, 'claims', ['recipient_id'], table => {
		text(table, 'recipient_id').notNullable();
		/** A daemon's boot id. */
		text(table, 'claimed_by').notNullable();
		/** Tries before this one. */
		integer(table, 'attempts').notNullable();
		/** Past it the claim of a daemon that nobody knows ends. */
		text(table, 'until').notNullable();
	});

	// A claim moved the time past its try.
	await knex.raw(`insert into queue (recipient_id, workspace_id, destination, next_attempt_at, held_at)
		select id, workspace_id, destination, case when claimed_by is null then next_attempt_at else state_at end, held_at
		from recipients where next_attempt_at is not null order by id`);
	await knex.raw(`insert into claims (recipient_id, claimed_by, attempts, until)
		select id, claimed_by, attempts, coalesce(next_attempt_at, state_at) from recipients where claimed_by is not null`);
	// What waits is counted from the index alone: it has the key, and on SQLite must have each column that is asked for.
	const rest = knex.client.driverName === 'pg' ? 'recipient_id' : 'held_at';
	await partialIndex(
		knex,
		'queue_due',
		'queue',
		`destination, workspace_id, next_attempt_at, ${rest}`,
		'held_at is null',
	);
	await partialIndex(knex, 'queue_held', 'queue', 'destination, workspace_id', 'held_at is not null');

	for (const name of ['recipients_due', 'recipients_held', 'recipients_claimed']) {
		await knex.raw(`drop index ${name}`);
	}
	for (const name of ['next_attempt_at', 'claimed_by', 'held_at']) {
		await knex.raw(`alter table recipients drop column ${name}`);
	}
	if (knex.client.driverName === 'pg') {
		// All rows of these come and go: a queue that was long leaves few pages to be read.
		for (const name of ['queue', 'claims']) {
			await knex.raw(`alter table ${name} set
				(autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0)`);
		}
	}
}
