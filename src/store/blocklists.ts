import type {Knex} from 'knex';
import {hourMs, storeTime} from '../kit/time.ts';

/** What a blocklist says of an address or a domain that mail comes from: a row of `blocklistings`. */
export type Blocklisting = {
	readonly source: string;
	readonly zone: string;
	/** The list's name. */
	readonly name: string;
	/** Where removal is asked for. */
	readonly delist: string;
	readonly state: 'listed' | 'clear' | 'refused' | 'unknown';
	readonly answer: string | null;
	/** The list's own words if it is listed; why it is not known otherwise. */
	readonly reason: string | null;
	/** Since when the state is what it is. */
	readonly since: string;
	/** When the list last said `listed` or `clear`. */
	readonly checked_at: string | null;
	readonly asked_at: string;
};

/** What is not asked for this long is no source any more. */
export const staleMs = 3 * hourMs;

/** By source and zone, without what is stale at `now`, milliseconds. */
export async function listBlocklistings(reader: Knex, now: number): Promise<Blocklisting[]> {
	const since = storeTime(now - staleMs);
	return await reader('blocklistings').where('asked_at', '>', since).orderBy(['source', 'zone']);
}

/** What is listed now. */
export async function listedNow(reader: Knex, now: number): Promise<Blocklisting[]> {
	return (await listBlocklistings(reader, now)).filter(({state}) => state === 'listed');
}

/** Writes rows and deletes others. */
export async function saveBlocklistings(
	trx: Knex.Transaction,
	rows: readonly Blocklisting[],
	gone: readonly Blocklisting[] = [],
): Promise<void> {
	for (const row of rows) {
		await trx('blocklistings').insert(row).onConflict(['source', 'zone']).merge();
	}
	for (const {source, zone} of gone) {
		await trx('blocklistings').where({source, zone}).delete();
	}
}
