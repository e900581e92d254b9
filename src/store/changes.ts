import type {Knex} from 'knex';
import {LRUCache} from 'lru-cache';
import {atMost} from '../kit/collections.ts';

/** Makes running daemons clear their caches. Call it in the transaction that changes a cached row. */
export async function bumpGeneration(trx: Knex.Transaction): Promise<void> {
	await trx('changes').where({id: 1}).increment('generation', 1);
}

/** Returns the number that increases with every change, except the daemon's own frequent writes. */
export async function readGeneration(reader: Knex): Promise<number> {
	const row: {generation: number} | undefined = await reader('changes').where({id: 1}).first('generation');
	return row?.generation ?? 0;
}

/** Caches rows until something changes. Missing rows are not cached, so that new rows are found at once. */
type RowCache<Row extends object> = {
	readonly get: (key: string, load: () => Promise<Row | undefined>) => Row | Promise<Row | undefined>;
	/** Returns a cached row. */
	readonly peek: (key: string) => Row | undefined;
	readonly clear: () => void;
};

const maxRows = 10_000;

export function createRowCache<Row extends object>(): RowCache<Row> {
	const rows = new LRUCache<string, Row>(atMost(maxRows));
	let age = 0;

	async function loadRow(key: string, load: () => Promise<Row | undefined>): Promise<Row | undefined> {
		const ageBefore = age;
		const row = await load();
		// A row that was read before the cache was cleared may be stale.
		if (row !== undefined && ageBefore === age) {
			rows.set(key, row);
		}
		return row;
	}

	return {
		get: (key, load) => rows.get(key) ?? loadRow(key, load),
		peek: key => rows.get(key),
		clear() {
			age++;
			rows.clear();
		},
	};
}
