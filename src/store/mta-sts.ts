import type {Knex} from 'knex';

/** A policy as it was fetched; times in the store's form. */
export type StoredPolicy = {
	readonly domain: string;
	readonly policyId: string;
	readonly mode: 'enforce' | 'testing' | 'none';
	readonly mx: readonly string[];
	readonly fetchedAt: string;
	readonly expiresAt: string;
};

/** The policy of a domain that was stored last, expired or not. */
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

/** Removes policies that hold no longer, at most so many; answers how many. */
export async function purgePolicies(trx: Knex.Transaction, now: string, limit: number): Promise<number> {
	const old = trx('mta_sts').where('expires_at', '<', now).limit(limit).select('domain');
	return await trx('mta_sts').whereIn('domain', old).delete();
}
