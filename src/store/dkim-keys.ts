import type {Knex} from 'knex';

/** A row of `dkim_keys`. */
export type DkimKey = {
	readonly id: string;
	readonly domain_id: string;
	readonly selector: string;
	readonly algorithm: 'rsa-sha256' | 'ed25519-sha256';
	/** SPKI, PEM. */
	readonly public_key: string;
	/** The private key (PKCS #8, PEM), sealed for the row's id. */
	readonly secret: string;
	readonly active_from: string;
	readonly retired_at: string | null;
	readonly created_at: string;
};

export async function insertDkimKeys(trx: Knex.Transaction, keys: readonly DkimKey[]): Promise<void> {
	await trx('dkim_keys').insert(keys);
}

/** The keys of some domains, retired ones left out, by selector. */
export async function listDkimKeys(reader: Knex, domainIds: readonly string[]): Promise<DkimKey[]> {
	return await reader('dkim_keys').whereIn('domain_id', domainIds).whereNull('retired_at').orderBy('id');
}
