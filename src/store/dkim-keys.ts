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
	/** Made by a rotation; not used before DNS shows it. */
	readonly pending_at: string | null;
	readonly retired_at: string | null;
	/** When DNS first showed it; null: never. */
	readonly seen_at: string | null;
	readonly created_at: string;
};

export async function insertDkimKeys(trx: Knex.Transaction, keys: readonly DkimKey[]): Promise<void> {
	await trx('dkim_keys').insert(keys);
}

/** What a key is there for: to sign when DNS shows it, to sign, or only to be verified by. */
export function keyState({pending_at: pendingAt, retired_at: retiredAt}: DkimKey): 'pending' | 'active' | 'retired' {
	return retiredAt !== null ? 'retired' : pendingAt !== null ? 'pending' : 'active';
}

/** The keys of a domain, oldest first. */
export async function listDkimKeys(reader: Knex, domainId: string): Promise<DkimKey[]> {
	return await reader('dkim_keys').where({domain_id: domainId}).orderBy('id');
}

/** A pending key signs from now on, instead of the one that signed by its algorithm. */
export async function activateDkimKey(
	trx: Knex.Transaction,
	{id, domain_id: domainId, algorithm}: Pick<DkimKey, 'id' | 'domain_id' | 'algorithm'>,
	now: string,
): Promise<void> {
	await trx('dkim_keys')
		.where({domain_id: domainId, algorithm, pending_at: null, retired_at: null})
		.update({retired_at: now});
	await trx('dkim_keys').where({id}).update({pending_at: null, active_from: now, seen_at: now});
}

/** DNS shows these keys. Answers how many of them it never showed before. */
export async function markKeysSeen(trx: Knex.Transaction, ids: readonly string[], now: string): Promise<number> {
	return await trx('dkim_keys').whereIn('id', ids).whereNull('seen_at').update({seen_at: now});
}

export async function deleteDkimKeys(trx: Knex.Transaction, ids: readonly string[]): Promise<void> {
	await trx('dkim_keys').whereIn('id', ids).delete();
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
	/** The newest active key of each algorithm, of those that DNS showed; of all where an operator verified a sender of the domain. */
	readonly keyIds: readonly string[];
	/** Null: DNS does not show the domain's own. */
	readonly returnPathDomain: string | null;
};

export async function findDomainSigning(reader: Knex, domainId: string, now: string): Promise<DomainSigning> {
	const rows: Array<Pick<DkimKey, 'id' | 'algorithm'>> = await reader('dkim_keys')
		.where({domain_id: domainId, pending_at: null, retired_at: null})
		.where('active_from', '<=', now)
		.where(known =>
			known
				.whereNotNull('seen_at')
				.orWhereExists(reader('senders').where({domain_id: domainId}).whereNotNull('verified_at')),
		)
		.orderBy('active_from')
		.orderBy('id')
		.select('id', 'algorithm');
	const domain: {return_path: string} | undefined = await reader('domains')
		.where({id: domainId})
		.whereNotNull('return_path_at')
		.first(reader.raw("coalesce(return_path_domain, 'bounce.' || name) as return_path"));
	const newest = new Map(rows.map(({algorithm, id}) => [algorithm, id]));
	return {keyIds: [...newest.values()], returnPathDomain: domain?.return_path ?? null};
}
