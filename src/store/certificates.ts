import type {Knex} from 'knex';
import {inParts} from '../kit/collections.ts';
import {liveDomains} from './domains.ts';
import {listInboundDomains} from './received.ts';
import type {Vault} from './sealed.ts';

/** The certificate of one name, or that there is to be one: a row of `certificates` without what is large. */
export type Certificate = {
	readonly name: string;
	/** Null, as are the two after it: there is none yet. */
	readonly not_before: string | null;
	readonly not_after: string | null;
	readonly issuer: string | null;
	/** The CA that gave it: the URL of its directory; null: there is none, or it is older than this column. */
	readonly directory: string | null;
	/** The CA of the last order, whatever came of it. */
	readonly tried_directory: string | null;
	/** When the CA wants it to be renewed; null: it does not say. */
	readonly window_start: string | null;
	readonly window_end: string | null;
	/** When it is looked at next. */
	readonly next_try_at: string;
	/** A node works on it until then; null: none does. */
	readonly taken_until: string | null;
	/** Orders that failed since the last one that did not. */
	readonly tries: number;
	readonly fault: string | null;
	/** When a node last found that it is to be had. */
	readonly wanted_at: string | null;
	/** Why it is not asked for; null: it is. */
	readonly unused: string | null;
	readonly updated_at: string;
};

export type FullCertificate = Certificate & {
	/** PEM, the certificate first; null: there is none yet. */
	readonly chain: string | null;
	/** The private key, PEM, sealed for the name. */
	readonly secret: string | null;
};

const columns = [
	...['name', 'not_before', 'not_after', 'issuer', 'directory', 'tried_directory', 'window_start', 'window_end'],
	...['next_try_at', 'taken_until', 'tries', 'fault', 'wanted_at', 'unused', 'updated_at'],
];
const namesAtOnce = 500;

export const challengeTypes = ['http-01', 'tls-alpn-01'] as const;
export type ChallengeType = (typeof challengeTypes)[number];

/** What we have to show a CA: a row of `acme_challenges`. In the store, for the CA may come to any node. */
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
	/** Its private key, PEM, sealed for the directory. */
	readonly secret: string;
	/** What the CA was told last as the address of the operator; null: none. */
	readonly email: string | null;
	readonly created_at: string;
};

export async function listCertificates(reader: Knex): Promise<Certificate[]> {
	return await reader('certificates').orderBy('name').select(columns);
}

/** Those that are to be looked at, and that no node works on. */
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

/** The sealed key of each certificate that is there; another certificate has another one. */
export async function listSealedKeys(reader: Knex): Promise<Array<Readonly<Record<'name' | 'secret', string>>>> {
	return await reader('certificates').whereNotNull('chain').select('name', 'secret');
}

/** Some of those that are there, with their keys; one whose key cannot be opened is left out. */
export async function openCertificates(
	reader: Knex,
	vault: Vault,
	names: readonly string[],
	failed: (error: unknown, name: string) => void,
): Promise<Array<Readonly<Record<'name' | 'chain' | 'secret' | 'key', string>>>> {
	const opened = [];
	for (const some of inParts(names, namesAtOnce)) {
		const rows: Array<Record<'name' | 'chain' | 'secret', string>> = await reader('certificates')
			.whereIn('name', some)
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

/** What verified domains, and domains that take mail, have to do with certificates. */
export type Hosts = {
	readonly linkHosts: readonly string[];
	/** Link hosts that DNS did not show to lead here yet. */
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

/** Notes of names whether they are wanted, the same columns of each; a new one is due. */
export async function noteWishes(trx: Knex.Transaction, names: readonly Noted[], now: string): Promise<void> {
	for (const some of inParts(names, namesAtOnce)) {
		await trx('certificates')
			.insert(some.map(noted => ({next_try_at: now, tries: 0, updated_at: now, ...noted})))
			.onConflict('name')
			.merge(Object.keys(some[0] ?? {}));
	}
}

/**
 * Changes a certificate while a node has it that set `taken_until`, or none has it (null); false: that is not so any
 * more. To take it also the next try is compared: another node may have had it since it was read.
 */
export async function updateCertificate(
	trx: Knex.Transaction,
	read: Pick<Certificate, 'name' | 'taken_until'> & Partial<Pick<Certificate, 'next_try_at'>>,
	changes: Partial<Omit<FullCertificate, 'name'>>,
): Promise<boolean> {
	return (await trx('certificates').where(read).update(changes)) === 1;
}

/** Makes certificates due that are in use, one or all; answers their names. */
export async function makeDue(trx: Knex.Transaction, name: string | null, now: string): Promise<string[]> {
	const rows: Array<Pick<Certificate, 'name'>> = await trx('certificates')
		.whereNull('unused')
		.modify(query => name !== null && void query.where({name}))
		.update({next_try_at: now, window_start: now, window_end: now, tries: 0})
		.returning('name');
	return rows.map(row => row.name).toSorted();
}

/**
 * Makes certificates due that another CA gave or failed to give, once MAILCTL_ACME_DIRECTORY has changed. Those that
 * this CA was asked for already wait for their next try.
 */
export async function noteDirectory(trx: Knex.Transaction, directory: string, now: string): Promise<void> {
	await trx('certificates')
		.whereNot('tried_directory', directory)
		.where(query => query.whereNot('directory', directory).orWhereNotNull('fault'))
		.update({next_try_at: now, window_start: now, window_end: now, tries: 0});
}

/**
 * Makes certificates due whose keys cannot be opened; one that has a fault is due already, or waits for its next try.
 */
export async function noteDamage(trx: Knex.Transaction, names: readonly string[], now: string): Promise<void> {
	await trx('certificates')
		.whereIn('name', names)
		.whereNull('fault')
		.update({fault: 'its key in the store is damaged', next_try_at: now, window_start: now, window_end: now});
}

/** A daemon that is alone has just begun: nothing is being worked on. */
export async function releaseCertificates(trx: Knex.Transaction): Promise<void> {
	await trx('certificates').whereNotNull('taken_until').update({taken_until: null});
}

/** Unless another node has wanted it since it was read. */
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
 * Puts an account where there is none, or where the one is that was read (its URL): what another node has put meanwhile
 * stays, for certificates are renewed by the account that ordered them. Answers the one that is there.
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

/** Those that are over by `now` go, and what an order of the name has left that ended with its node. */
export async function insertChallenge(trx: Knex.Transaction, challenge: Challenge, now: string): Promise<void> {
	const {name, type} = challenge;
	await trx('acme_challenges').where('expires_at', '<=', now).orWhere({name, type}).delete();
	await trx('acme_challenges').insert(challenge).onConflict('token').merge();
}

export async function deleteChallenges(trx: Knex.Transaction, tokens: readonly string[]): Promise<void> {
	await trx('acme_challenges').whereIn('token', tokens).delete();
}

/** One with these values that is not over. */
export async function findChallenge(
	reader: Knex,
	by: Partial<Pick<Challenge, 'type' | 'token' | 'name'>>,
	now: string,
): Promise<Challenge | undefined> {
	return await reader('acme_challenges').where(by).where('expires_at', '>', now).first();
}
