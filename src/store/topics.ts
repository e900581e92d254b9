import type {Knex} from 'knex';
import {type Pair, pairKey, selectPairs} from './pairs.ts';

/** The topic codes that each of the addresses opted out of, by `pairKey`. An opt-out outlives its topic. */
export async function findOptedOut(trx: Knex, pairs: readonly Pair[]): Promise<Map<string, Set<string>>> {
	const codes = new Map<string, Set<string>>();
	for (const row of await selectPairs<{code: string}>(trx, 'topic_optouts', ['code'], pairs)) {
		const key = pairKey(row.workspace_id, row.address_key);
		codes.set(key, (codes.get(key) ?? new Set()).add(row.code));
	}
	return codes;
}
