import type {Knex} from 'knex';
import {readSizes, tellReading} from './by-day.ts';
import {columnsFor, partialIndex} from './columns.ts';

/**
 * Events without rows of their own: what one transaction records of a copy shares a row, `accepted` is the message itself, and
 * `queued` is told from the claim during the first try. Rows of before stay as they are.
 */
export async function up(knex: Knex, tell: (line: string) => void = () => undefined): Promise<void> {
	const {text, integer} = columnsFor(knex);
	/** Events before the last one: JSON. */
	await knex.schema.alterTable('events', table => void text(table, 'earlier'));
	/** The id of the event that a first claim stands for. */
	await knex.schema.alterTable('claims', table => void text(table, 'queued'));
	if (knex.client.driverName === 'pg') {
		// For an index that has nothing of them.
		tellReading('Messages', await readSizes(knex, ['messages']), tell);
		await knex.raw('alter table messages add column position bigint');
		await knex.raw(`alter table messages alter column position set default nextval('event_positions')`);
	} else {
		await knex.schema.alterTable('messages', table => void integer(table, 'position'));
	}
	await partialIndex(knex, 'messages_by_position', 'messages', 'position', 'position is not null');
}
