import type {Knex} from 'knex';
import {hourMs, storeTime} from '../kit/time.ts';

/** What a blocklist reports about an address or domain that we send from: a row of `blocklistings`. */
export type Blocklisting = {
	readonly source: string;
	readonly zone: string;
	/** The display name of the list. */
	readonly name: string;
	/** Where removal can be requested. */
	readonly delist: string;
	readonly state: 'listed' | 'clear' | 'refused' | 'unknown';
	readonly answer: string | null;
	/** The reason that the list gives if it is listed; otherwise why the state is not known. */
	readonly reason: string | null;
	/** When it reached this state. */
	readonly since: string;
	/** When the list last responded with `listed` or `clear`. */
	readonly checked_at: string | null;
	readonly asked_at: string;
};

/** A source that was not queried for this long is no longer in use. */
export const staleMs = 3 * hourMs;

/** Returns listings by source and zone, except stale ones. `now` is in milliseconds. */
export async function listBlocklistings(reader: Knex, now: number): Promise<Blocklisting[]> {
	const since = storeTime(now - staleMs);
	return await reader('blocklistings').where('asked_at', '>', since).orderBy(['source', 'zone']);
}

/** Returns the current listings. */
export async function listedNow(reader: Knex, now: number): Promise<Blocklisting[]> {
	return (await listBlocklistings(reader, now)).filter(({state}) => state === 'listed');
}

/** Writes rows and deletes others. */
export async function saveBlocklistings(
	trx: Knex.Transaction,
	rows: readonly Blocklisting[],
	removed: readonly Blocklisting[] = [],
): Promise<void> {
	for (const row of rows) {
		await trx('blocklistings').insert(row).onConflict(['source', 'zone']).merge();
	}
	for (const {source, zone} of removed) {
		await trx('blocklistings').where({source, zone}).delete();
	}
}
