import type {Knex} from 'knex';
import {insertRows, type Row} from './engine/insert-rows.ts';

// Where an event stands in the stream of all events. Who has read up to a settled position has missed none before it, whatever
// clocks say: docs/internals/decisions/0021-event-positions.md.

/**
 * Takes positions for as many events in a transaction, and answers the one before the first. SQLite has one writer at a time:
 * the order of positions is that of commits. Null: PostgreSQL gives them by itself, when rows are inserted.
 */
export async function takePositions(trx: Knex.Transaction, count: number): Promise<number | null> {
	if (trx.client.driverName === 'pg') {
		return null;
	}
	const taken = 'update changes set event_position = event_position + ? where id = 1 returning event_position';
	const [{event_position: last}] = await trx.raw(taken, [count]);
	return last - count;
}

/** Inserts rows that tell of events, each with a position. */
export async function insertPlaced(
	trx: Knex.Transaction,
	table: 'events' | 'messages',
	columns: readonly string[],
	rows: readonly Row[],
): Promise<void> {
	const before = await takePositions(trx, rows.length);
	if (before === null) {
		await insertRows(trx, table, columns, rows);
	} else {
		const placed = rows.map((row, index) => [...row, before + 1 + index]);
		await insertRows(trx, table, [...columns, 'position'], placed);
	}
}

/** The last position that was taken, by transactions that may not have ended. */
export async function readLastPosition(reader: Knex): Promise<number> {
	if (reader.client.driverName === 'pg') {
		const {rows} = await reader.raw(
			'select case when is_called then last_value else 0 end as last from event_positions',
		);
		return Number(rows[0].last);
	}
	const row: {last: number} | undefined = await reader('changes').where({id: 1}).first('event_position as last');
	return row?.last ?? 0;
}

// Whoever inserts an event, or a message, holds this lock from before it takes a position to the end of its transaction.
const writersNow = `select virtualtransaction as id from pg_locks where locktype = 'relation' and granted
	and relation in ('events'::regclass, 'messages'::regclass) and database = (select oid from pg_database where datname = current_database())
	and mode = 'RowExclusiveLock'`;

/**
 * Answers at each call, of which one may run at a time, a settled position: no event will come at or before it. On PostgreSQL
 * transactions take positions in one order and commit in another: a position is settled once those that wrote while it was
 * the last have ended. 0: none is settled yet.
 */
export function createSettled(reader: Knex): () => Promise<number> {
	if (reader.client.driverName !== 'pg') {
		return () => readLastPosition(reader);
	}
	let settled = 0;
	let next: {readonly last: number; readonly writers: readonly string[]} | null = null;
	return async () => {
		// In this order: a transaction that has taken a position of before is among the writers, or has ended.
		const last = await readLastPosition(reader);
		const {rows}: {rows: Array<{id: string}>} = await reader.raw(writersNow);
		const writers = new Set(rows.map(({id}) => id));
		if (writers.size === 0) {
			settled = last;
			next = null;
		} else if (next === null || !next.writers.some(id => writers.has(id))) {
			settled = next?.last ?? settled;
			next = {last, writers: [...writers]};
		}
		return settled;
	};
}
