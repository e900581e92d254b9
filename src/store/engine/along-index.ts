import type {Knex} from 'knex';
import {type IdRange, isWithin} from './dialect.ts';

/**
 * Rows of a table, newest first, along an index: equality on each of its leading columns, and a range on the id that ends
 * it. No row is read that is not answered, whatever the engine believes to be common.
 */
export function alongIndex(
	reader: Knex,
	table: string,
	{leading, id}: {readonly leading: Readonly<Record<string, string>>; readonly id: string},
	range: IdRange,
): Knex.QueryBuilder {
	const columns = Object.entries(leading);
	const last = columns.pop();
	if (last === undefined) {
		throw new RangeError('an index is read from a value on');
	}
	return reader(table)
		.where(Object.fromEntries(columns))
		.where(isWithin(reader, last, id, range))
		.orderBy([last[0], id].map(column => ({column, order: 'desc'})));
}
