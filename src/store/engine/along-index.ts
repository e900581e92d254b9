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

/**
 * The row of an address, one at most, if it is older than `after` (null: any). By its own index: SQLite would look for it among
 * all rows of the workspace where their order is asked for too.
 */
export function rowOfAddress(
	reader: Knex,
	table: 'contacts' | 'suppressions',
	address: {readonly workspace_id: string; readonly address_key: string},
	after: string | null,
): Knex.QueryBuilder {
	const query = reader(table).where(address);
	return after === null ? query : query.where('id', '<', after);
}

/** What callers wrote into the rows of one page, octets; a single row may have more. */
const mostBytes = 1024 * 1024;

/** What of a table's rows may be large. */
const largeColumns = {messages: ['data', 'metadata'], webhook_deliveries: ['body']} as const;

/**
 * The first rows that fit one page together, at least one: a hundred large ones would hold up the main thread while they are
 * made an answer, and memory until a slow client has read it. Lengths are asked for, no row is read.
 */
export async function firstThatFit(
	reader: Knex,
	table: keyof typeof largeColumns,
	ids: readonly string[],
): Promise<readonly string[]> {
	if (ids.length === 0) {
		return ids;
	}
	const lengths = largeColumns[table].map(column => `coalesce(octet_length(${column}), 0)`);
	const rows: Array<{id: string; bytes: number}> = await reader(table)
		.whereIn('id', ids)
		.select('id', reader.raw(`${lengths.join(' + ')} as bytes`));
	const bytesOf = new Map(rows.map(({id, bytes}) => [id, bytes]));
	let total = 0;
	const end = ids.findIndex((id, index) => {
		total += bytesOf.get(id) ?? 0;
		return index > 0 && total > mostBytes;
	});
	return end === -1 ? ids : ids.slice(0, end);
}
