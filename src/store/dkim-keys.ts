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

/** Keys by id with the name of their domain, retired ones too: a mail that is being made may still name one. */
export async function findDkimKeys(
	reader: Knex,
	ids: readonly string[],
): Promise<Array<DkimKey & {readonly domain: string}>> {
	return await reader('dkim_keys as k')
		.join('domains as d', 'd.id', 'k.domain_id')
		.whereIn('k.id', ids)
		.select('k.*', 'd.name as domain')
		.orderBy('k.id');
}

/** What mail from a domain is signed and returned with, at a moment in the store's form. */
export type DomainSigning = {
	/** The newest active key of each algorithm. */
	readonly keyIds: readonly string[];
	readonly returnPathDomain: string | null;
};

export async function findDomainSigning(reader: Knex, domainId: string, now: string): Promise<DomainSigning> {
	const rows: Array<Pick<DkimKey, 'id' | 'algorithm'>> = await reader('dkim_keys')
		.where({domain_id: domainId})
		.where('active_from', '<=', now)
		.whereNull('retired_at')
		.orderBy('active_from')
		.orderBy('id')
		.select('id', 'algorithm');
	const domain: {return_path_domain: string | null} | undefined = await reader('domains')
		.where({id: domainId})
		.first('return_path_domain');
	const newest = new Map(rows.map(({algorithm, id}) => [algorithm, id]));
	return {keyIds: [...newest.values()], returnPathDomain: domain?.return_path_domain ?? null};
}
