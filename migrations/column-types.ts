import type {Knex} from 'knex';

/**
 * Column types other than integer, chosen so that both drivers return the same JavaScript values and both engines sort
 * alike. Ids, times (fixed-width UTC text) and JSON are text in byte order, and flags are `*_at` times.
 */
export function columnTypes(knex: Knex): {readonly text: string; readonly bytes: string} {
	return knex.client.driverName === 'pg' ? {text: 'text collate "C"', bytes: 'bytea'} : {text: 'text', bytes: 'blob'};
}
