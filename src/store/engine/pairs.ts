import type {Knex} from 'knex';
import {rowSource, rowsOf} from './dialect.ts';

/** A workspace and an address in comparison form. */
export type Pair = readonly [workspaceId: string, addressKey: string];

/** One text for a pair, for maps: neither part can hold a space. */
export function pairKey(workspaceId: string, addressKey: string): string {
	return `${workspaceId} ${addressKey}`;
}

const mostPairs = 10_000;

/** The rows of a table that stand for any of these pairs, by index probes; `columns` besides workspace_id and address_key. */
export async function selectPairs<Row>(
	trx: Knex,
	table: string,
	columns: readonly string[],
	pairs: readonly Pair[],
): Promise<Array<Row & {workspace_id: string; address_key: string}>> {
	const selected = ['workspace_id', 'address_key', ...columns].join(', ');
	return await selectOfPairs(
		trx,
		pairs,
		source => `select ${selected} from ${table} where (workspace_id, address_key) in (${source})`,
	);
}

/** What a query finds for these pairs. Its source has them as column1 and column2. */
export async function selectOfPairs<Row>(
	trx: Knex,
	pairs: readonly Pair[],
	query: (source: string) => string,
): Promise<Row[]> {
	const found: Row[] = [];
	for (let start = 0; start < pairs.length; start += mostPairs) {
		const {sql, bindings} = rowSource(trx, pairs.slice(start, start + mostPairs), 2);
		found.push(...(await rowsOf<Row>(trx, query(sql), bindings)));
	}
	return found;
}
