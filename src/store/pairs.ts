import type {Knex} from 'knex';
import {rowSource} from './dialect.ts';

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
	const found: Array<Row & {workspace_id: string; address_key: string}> = [];
	for (let start = 0; start < pairs.length; start += mostPairs) {
		const part = pairs.slice(start, start + mostPairs);
		const {sql, bindings} = rowSource(trx, part, 2);
		const answer = await trx.raw(
			`select ${['workspace_id', 'address_key', ...columns].join(', ')} from ${table}
				where (workspace_id, address_key) in (${sql})`,
			bindings as Knex.RawBinding[],
		);
		found.push(...(Array.isArray(answer) ? answer : answer.rows));
	}
	return found;
}
