import type {Knex} from 'knex';
import {partialIndex} from './columns.ts';

/**
 * The position of an event in the stream of all of them (`src/store/event-positions.ts`). Those of before have none: a stream
 * begins later. PostgreSQL gives them by a sequence, also to nodes that know nothing of them; SQLite's writer counts.
 */
export async function up(knex: Knex): Promise<void> {
	if (knex.client.driverName === 'pg') {
		await knex.raw('create sequence event_positions');
		await knex.raw('alter table events add column position bigint');
		await knex.raw(`alter table events alter column position set default nextval('event_positions')`);
	} else {
		await knex.raw('alter table events add column position integer');
		await knex.raw('alter table changes add column event_position integer not null default 0');
	}
	await partialIndex(knex, 'events_by_position', 'events', 'position', 'position is not null');
}
