import type {Knex} from 'knex';

/**
 * The types of columns besides integer, with which both drivers return the same JavaScript value and both engines sort
 * alike: ids, times (fixed-width UTC text) and JSON are text in byte order, flags are `*_at` times.
 */
export function columnTypes(knex: Knex): {readonly text: string; readonly bytes: string} {
	return knex.client.driverName === 'pg' ? {text: 'text collate "C"', bytes: 'bytea'} : {text: 'text', bytes: 'blob'};
}
