import type {Knex} from 'knex';
import type {TlsResult} from '../../mail/outcome.ts';
import {insertRows} from '../../store/engine/rows.ts';

/** An MTA-STS policy as it was fetched; times in the store's form. */
export type StoredPolicy = {
	readonly domain: string;
	readonly policyId: string;
	readonly mode: 'enforce' | 'testing' | 'none';
	readonly mx: readonly string[];
	readonly fetchedAt: string;
	readonly expiresAt: string;
};

/** Returns the latest stored policy of a domain, expired or not. */
export async function findPolicy(reader: Knex, domain: string): Promise<StoredPolicy | null> {
	const row = await reader('mta_sts').where({domain}).first();
	return row === undefined
		? null
		: {
				domain,
				policyId: row.policy_id,
				mode: row.mode,
				mx: JSON.parse(row.mx),
				fetchedAt: row.fetched_at,
				expiresAt: row.expires_at,
			};
}

export async function savePolicy(trx: Knex.Transaction, policy: StoredPolicy): Promise<void> {
	await trx('mta_sts')
		.insert({
			domain: policy.domain,
			policy_id: policy.policyId,
			mode: policy.mode,
			mx: JSON.stringify(policy.mx),
			fetched_at: policy.fetchedAt,
			expires_at: policy.expiresAt,
		})
		.onConflict('domain')
		.merge();
}

/** Removes at most `limit` expired policies. Returns how many. */
export async function purgePolicies(trx: Knex.Transaction, now: string, limit: number): Promise<number> {
	const expired = trx('mta_sts').where('expires_at', '<', now).limit(limit).select('domain');
	return await trx('mta_sts').whereIn('domain', expired).delete();
}

/** The result of starting TLS with a mail server of a domain, on a day (`2026-11-21`). */
export type TlsDay = TlsResult & {readonly day: string; readonly domain: string; readonly host: string};

/** Adds to the counts in the order of their keys, because two nodes may update the same rows at once. */
export async function countTls(trx: Knex.Transaction, results: readonly TlsDay[]): Promise<void> {
	const counts = new Map<string, number>();
	for (const {day, domain, policy, host, result} of results) {
		const key = JSON.stringify([day, domain, policy, host, result]);
		counts.set(key, (counts.get(key) ?? 0) + 1);
	}

	await insertRows(
		trx,
		'tls_days',
		['day', 'domain', 'policy', 'host', 'result', 'n'],
		[...counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, n]) => [...JSON.parse(key), n]),
		'on conflict (day, domain, policy, host, result) do update set n = tls_days.n + excluded.n',
	);
}

/** Removes at most `limit` counts of days before `day`. Returns how many. */
export async function purgeTlsDays(trx: Knex.Transaction, day: string, limit: number): Promise<number> {
	const columns = ['day', 'domain', 'policy', 'host', 'result'];
	const old = trx('tls_days').where('day', '<', day).limit(limit).select(columns);
	return await trx('tls_days').whereIn(columns, old).delete();
}
