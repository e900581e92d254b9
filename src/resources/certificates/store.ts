import type {Knex} from 'knex';
import {inParts} from '../../kit/collections.ts';
import type {Vault} from '../../store/sealed.ts';
import {liveDomains} from '../domains/store.ts';
import {listInboundDomains} from '../received/store.ts';

/** The certificate of one name, or the plan to get one: a row of `certificates` without its large columns. */
export type Certificate = {
	readonly name: string;
	/** `null`, like the next two, if there is no certificate yet. */
	readonly not_before: string | null;
	readonly not_after: string | null;
	readonly issuer: string | null;
	/** The directory URL of the CA that issued it; `null` if there is none, or it is older than this column. */
	readonly directory: string | null;
	/** The CA of the last order, whatever its outcome. */
	readonly tried_directory: string | null;
	/** The window in which the CA suggests renewing it; `null` if it suggests none. */
	readonly window_start: string | null;
	readonly window_end: string | null;
	/** When it is checked next. */
	readonly next_try_at: string;
	/** When a node's claim on it expires; `null` if no node is working on it. */
	readonly taken_until: string | null;
	/** How many orders have failed since the last successful one. */
	readonly tries: number;
	readonly fault: string | null;
	/** When a node last found that the certificate is needed. */
	readonly wanted_at: string | null;
	/** Why it is not ordered; `null` if it is. */
	readonly unused: string | null;
	readonly updated_at: string;
};

export type FullCertificate = Certificate & {
	/** PEM, the certificate first; `null` if there is none yet. */
	readonly chain: string | null;
	/** The private key (PEM), sealed for the name. */
	readonly secret: string | null;
};

const columns = [
	'name',
	'not_before',
	'not_after',
	'issuer',
	'directory',
	'tried_directory',
	'window_start',
	'window_end',
	'next_try_at',
	'taken_until',
	'tries',
	'fault',
	'wanted_at',
	'unused',
	'updated_at',
];
const namesAtOnce = 500;

export const challengeTypes = ['http-01', 'tls-alpn-01'] as const;
export type ChallengeType = (typeof challengeTypes)[number];

/**
 * Proof that a CA requests from us: a row of `acme_challenges`. It is in the store, because the CA may connect to any
 * node.
 */
export type Challenge = {
	readonly token: string;
	readonly type: ChallengeType;
	readonly name: string;
	readonly key_authorization: string;
	readonly expires_at: string;
};

/** An account at a CA: a row of `acme_accounts`. */
export type AcmeAccount = {
	readonly directory: string;
	readonly url: string;
	/** Its private key (PEM), sealed for the directory. */
	readonly secret: string;
	/** The operator's address as the CA last received it; `null` if there is none. */
	readonly email: string | null;
	readonly created_at: string;
};

export async function listCertificates(reader: Knex): Promise<Certificate[]> {
	return await reader('certificates').orderBy('name').select(columns);
}

/** Returns the certificates that are due for a check and that no node has in progress. */
export async function listDueCertificates(reader: Knex, now: string): Promise<Certificate[]> {
	return await reader('certificates')
		.where('next_try_at', '<=', now)
		.where(query => query.whereNull('taken_until').orWhere('taken_until', '<=', now))
		.orderBy(['tries', 'name'])
		.select(columns);
}

export async function findCertificate(reader: Knex, name: string): Promise<FullCertificate | undefined> {
	return await reader('certificates').where({name}).first();
}

/** Returns the sealed key of each issued certificate. Every certificate has a key of its own. */
export async function listSealedKeys(reader: Knex): Promise<Array<Readonly<Record<'name' | 'secret', string>>>> {
	return await reader('certificates').whereNotNull('chain').select('name', 'secret');
}

/**
 * Returns those of the named certificates that were issued, with their keys. Those whose key cannot be opened are left
 * out.
 */
export async function openCertificates(
	reader: Knex,
	vault: Vault,
	names: readonly string[],
	failed: (error: unknown, name: string) => void,
): Promise<Array<Readonly<Record<'name' | 'chain' | 'secret' | 'key', string>>>> {
	const opened = [];
	for (const part of inParts(names, namesAtOnce)) {
		const rows: Array<Record<'name' | 'chain' | 'secret', string>> = await reader('certificates')
			.whereIn('name', part)
			.whereNotNull('chain')
			.select('name', 'chain', 'secret');
		for (const row of rows) {
			try {
				opened.push({...row, key: vault.open(row.name, row.secret)});
			} catch (error) {
				failed(error, row.name);
			}
		}
	}
	return opened;
}

/** The hosts and domains that may need certificates. */
export type Hosts = {
	readonly linkHosts: readonly string[];
	/** Link hosts that DNS has not been seen to point to this machine. */
	readonly unseen: readonly string[];
	readonly mailDomains: readonly string[];
	/** The workspace of each verified domain. */
	readonly owners: ReadonlyArray<readonly [domain: string, workspaceId: string]>;
};

export async function listHosts(reader: Knex): Promise<Hosts> {
	const rows: Array<Record<'name' | 'workspace_id' | 'mail', string> & Record<'link' | 'seen', string | null>> =
		await liveDomains(reader)
			.whereNotNull('verified_at')
			.orderBy('id')
			.select('name', 'workspace_id', {link: 'link_host', seen: 'links_ok_at'})
			.select({mail: reader.raw("coalesce(return_path_domain, 'bounce.' || name)")});
	const inbound = await listInboundDomains(reader);
	return {
		linkHosts: rows.flatMap(({link}) => link ?? []),
		unseen: rows.flatMap(({link, seen}) => (seen === null ? (link ?? []) : [])),
		mailDomains: [...new Set([...rows.map(({mail}) => mail), ...inbound])],
		owners: rows.map(row => [row.name, row.workspace_id]),
	};
}

export type Noted = Pick<Certificate, 'name'> &
	Partial<Pick<Certificate, 'wanted_at' | 'unused' | 'next_try_at' | 'updated_at'>>;

/** Records whether names need certificates, with the same columns for each. A new name is due immediately. */
export async function noteWishes(trx: Knex.Transaction, names: readonly Noted[], now: string): Promise<void> {
	for (const part of inParts(names, namesAtOnce)) {
		await trx('certificates')
			.insert(part.map(noted => ({next_try_at: now, tries: 0, updated_at: now, ...noted})))
			.onConflict('name')
			.merge(Object.keys(part[0] ?? {}));
	}
}

/**
 * Changes a certificate that the node holds which set `taken_until`, or that no node holds (`null`); returns `false` if
 * that has changed. To claim a certificate, the next check is compared too, because another node may have held it since
 * it was read.
 */
export async function updateCertificate(
	trx: Knex.Transaction,
	read: Pick<Certificate, 'name' | 'taken_until'> & Partial<Pick<Certificate, 'next_try_at'>>,
	changes: Partial<Omit<FullCertificate, 'name'>>,
): Promise<boolean> {
	return (await trx('certificates').where(read).update(changes)) === 1;
}

/** Makes certificates in use due, one or all; returns their names. */
export async function makeDue(trx: Knex.Transaction, name: string | null, now: string): Promise<string[]> {
	const rows: Array<Pick<Certificate, 'name'>> = await trx('certificates')
		.whereNull('unused')
		.modify(query => name !== null && void query.where({name}))
		.update({next_try_at: now, window_start: now, window_end: now, tries: 0})
		.returning('name');
	return rows.map(row => row.name).toSorted();
}

/**
 * Makes certificates due that another CA issued or failed to issue, after MAILCTL_ACME_DIRECTORY has changed. Those
 * already ordered from this CA wait for their next attempt.
 */
export async function noteDirectory(trx: Knex.Transaction, directory: string, now: string): Promise<void> {
	await trx('certificates')
		.whereNot('tried_directory', directory)
		.where(query => query.whereNot('directory', directory).orWhereNotNull('fault'))
		.update({next_try_at: now, window_start: now, window_end: now, tries: 0});
}

/**
 * Makes certificates due whose keys cannot be opened. One that has an error is already due, or waits for its next
 * attempt.
 */
export async function noteDamage(trx: Knex.Transaction, names: readonly string[], now: string): Promise<void> {
	await trx('certificates')
		.whereIn('name', names)
		.whereNull('fault')
		.update({fault: 'its key in the store is damaged', next_try_at: now, window_start: now, window_end: now});
}

/** Releases all certificates. Called at the start of a daemon that is the only one, so none is in progress. */
export async function releaseCertificates(trx: Knex.Transaction): Promise<void> {
	await trx('certificates').whereNotNull('taken_until').update({taken_until: null});
}

/** Deletes a certificate, unless another node has needed it since it was read. */
export async function deleteCertificate(
	trx: Knex.Transaction,
	{name, wanted_at}: Pick<Certificate, 'name' | 'wanted_at'>,
): Promise<void> {
	await trx('certificates').where({name, wanted_at}).delete();
}

export async function findAccount(reader: Knex, directory: string): Promise<AcmeAccount | undefined> {
	return await reader('acme_accounts').where({directory}).first();
}

/**
 * Stores an account if there is none, or replaces the one that was read (its URL). An account that another node has
 * stored in the meantime stays, because certificates are renewed by the account that ordered them. Returns the stored
 * account.
 */
export async function putAccount(
	trx: Knex.Transaction,
	account: AcmeAccount,
	read: string | undefined,
): Promise<AcmeAccount> {
	await trx('acme_accounts')
		.where({directory: account.directory, url: read ?? ''})
		.delete();
	await trx('acme_accounts').insert(account).onConflict('directory').ignore();
	return (await findAccount(trx, account.directory)) ?? account;
}

export async function updateAccountEmail(
	trx: Knex.Transaction,
	account: Pick<AcmeAccount, 'directory' | 'url'>,
	email: string | null,
): Promise<void> {
	await trx('acme_accounts').where(account).update({email});
}

export async function deleteAccount(
	trx: Knex.Transaction,
	account: Pick<AcmeAccount, 'directory' | 'url'>,
): Promise<void> {
	await trx('acme_accounts').where(account).delete();
}

/** Inserts a challenge. Removes expired ones, and those that an interrupted order of the name has left behind. */
export async function insertChallenge(trx: Knex.Transaction, challenge: Challenge, now: string): Promise<void> {
	const {name, type} = challenge;
	await trx('acme_challenges').where('expires_at', '<=', now).orWhere({name, type}).delete();
	await trx('acme_challenges').insert(challenge).onConflict('token').merge();
}

export async function deleteChallenges(trx: Knex.Transaction, tokens: readonly string[]): Promise<void> {
	await trx('acme_challenges').whereIn('token', tokens).delete();
}

/** Returns a challenge with these values that has not expired. */
export async function findChallenge(
	reader: Knex,
	by: Partial<Pick<Challenge, 'type' | 'token' | 'name'>>,
	now: string,
): Promise<Challenge | undefined> {
	return await reader('acme_challenges').where(by).where('expires_at', '>', now).first();
}
