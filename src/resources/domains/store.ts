import type {Knex} from 'knex';
import {alongIndex, selectInTurns, type TurnLimits} from '../../store/engine/rows.ts';
import {deletedWorkspaces} from '../workspaces/store.ts';

export const domainStates = ['pending', 'verified', 'degraded', 'failed'] as const;
export type DomainState = (typeof domainStates)[number];

/** A row of `domains`: a domain that senders of a workspace may use. */
export type Domain = {
	readonly id: string;
	readonly workspace_id: string;
	/** In A-label form. */
	readonly name: string;
	readonly ownership_token: string;
	/** `null` means `bounce.<name>`. */
	readonly return_path_domain: string | null;
	/** When its own return path came into use, because DNS has MX and SPF; `null` for MAILCTL_RETURN_PATH_DOMAIN. */
	readonly return_path_at: string | null;
	/** The host of links in its messages; `null` for the host of MAILCTL_PUBLIC_URL. */
	readonly link_host: string | null;
	/** When `link_host` came into use, because DNS points it to this machine; `null` if DNS does not. */
	readonly links_ok_at: string | null;
	/** `degraded` means that it was verified, but DNS has recently lacked the records. */
	readonly state: DomainState;
	readonly state_at: string;
	readonly verified_at: string | null;
	/** Stays set when the domain fails; `null` if it was never verified. */
	readonly first_verified_at: string | null;
	/** When DNS was last queried. A check claims the domain by setting it. */
	readonly checked_at: string | null;
	/** How many checks have failed since `state_at` or the last successful one. */
	readonly failures: number;
	readonly created_at: string;
};

/** Returns `false` if the workspace already has the domain. */
export async function insertDomain(trx: Knex.Transaction, domain: Domain): Promise<boolean> {
	const inserted = await trx('domains').insert(domain).onConflict(['workspace_id', 'name']).ignore().returning('id');
	return inserted.length === 1;
}

/** Queries the domains of workspaces that were not deleted, for callers that are not limited to one workspace. */
export function liveDomains(reader: Knex): Knex.QueryBuilder {
	return reader('domains').whereNotIn('workspace_id', deletedWorkspaces(reader));
}

/** Returns the domains of a workspace, newest first. */
export async function listDomains(reader: Knex, workspaceId: string): Promise<Domain[]> {
	return await reader('domains').where({workspace_id: workspaceId}).orderBy('id', 'desc');
}

/** Returns a page of domains, newest first, after the one with the id `after`. */
export async function pageDomains(
	reader: Knex,
	workspaceId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<Domain[]> {
	const index = {leading: {workspace_id: workspaceId}, id: 'id'};
	return await alongIndex(reader, 'domains', index, {below: after}).limit(limit);
}

/** Returns the names of the verified domains of all workspaces. */
export async function listVerifiedDomains(reader: Knex): Promise<string[]> {
	const rows: Array<Pick<Domain, 'name'>> = await liveDomains(reader)
		.whereIn('state', ['verified', 'degraded'] satisfies DomainState[])
		.distinct('name')
		.orderBy('name');
	return rows.map(({name}) => name);
}

export async function findDomain(reader: Knex, workspaceId: string, name: string): Promise<Domain | undefined> {
	return await reader('domains').where({workspace_id: workspaceId, name}).first();
}

export async function findDomainById(reader: Knex, workspaceId: string, id: string): Promise<Domain | undefined> {
	return await reader('domains').where({workspace_id: workspaceId, id}).first();
}

/** Claims a domain to check it. Returns `false` if another check has claimed it since it was read. */
export async function claimDomainCheck(
	trx: Knex.Transaction,
	{id, checked_at: checkedAt}: Pick<Domain, 'id' | 'checked_at'>,
	now: string,
): Promise<boolean> {
	return (await trx('domains').where({id, checked_at: checkedAt}).update({checked_at: now})) === 1;
}

/** Stores the result of a check. Returns `false` if another check has claimed the domain, or it was removed. */
export async function updateCheckedDomain(
	trx: Knex.Transaction,
	{id, checked_at: checkedAt}: Pick<Domain, 'id' | 'checked_at'>,
	changes: Partial<
		Pick<
			Domain,
			'state' | 'state_at' | 'verified_at' | 'first_verified_at' | 'failures' | 'return_path_at' | 'links_ok_at'
		>
	>,
): Promise<boolean> {
	return (
		(await trx('domains')
			.where({id, checked_at: checkedAt})
			.update({id, ...changes})) === 1
	);
}

/** A domain with the creation time of its newest key that DNS does not have yet, which decides its next check. */
export type DueDomain = Domain & {readonly pending_at: string | null};

/** Times in the store's form. */
type DueMoments = {
	readonly now: string;
	readonly minuteAgo: string;
	readonly dayAgo: string;
	/** Domains and keys that have waited since before this time are checked only once a day. */
	readonly eager: string;
};

/** Returns domains that may be due for a check, those never checked first, then by their last check. */
export async function listDueDomains(
	reader: Knex,
	{now, minuteAgo, dayAgo, eager}: DueMoments,
	limit: number,
): Promise<DueDomain[]> {
	const unseen = () =>
		reader('dkim_keys as k').whereRaw('k.domain_id = d.id').where({seen_at: null, retired_at: null});
	const pending = unseen().max('k.created_at').as('pending_at');
	const isHastened = (query: Knex.QueryBuilder) =>
		query
			.whereIn('d.state', ['pending', 'degraded'])
			.orWhere(verified =>
				verified
					.whereRaw('(d.return_path_at is null or (d.link_host is not null and d.links_ok_at is null))')
					.where('d.state_at', '>', eager),
			)
			.orWhereExists(unseen().where('k.created_at', '>', eager));
	return await reader('domains as d')
		.whereNotIn('d.workspace_id', deletedWorkspaces(reader))
		.where(due =>
			due
				.whereNull('d.checked_at')
				.orWhere('d.checked_at', '<=', dayAgo)
				// The clock was set back.
				.orWhere('d.checked_at', '>', now)
				.orWhere(query => query.where('d.checked_at', '<=', minuteAgo).where(isHastened)),
		)
		.orderByRaw('case when d.checked_at is null then 0 else 1 end, d.checked_at, d.id')
		.limit(limit)
		.select('d.*', pending);
}

/** Returns how many domains are in each state. */
export async function countDomainStates(reader: Knex): Promise<Record<DomainState, number>> {
	const rows: Array<{state: DomainState; n: number | string}> = await liveDomains(reader)
		.groupBy('state')
		.select('state')
		.count('* as n');
	const counts = {pending: 0, verified: 0, degraded: 0, failed: 0};
	for (const {state, n} of rows) {
		counts[state] = Number(n);
	}
	return counts;
}

/**
 * Returns domains that were verified and now lack records, or have failed because of that. Workspaces take turns, each
 * with its newest change first.
 */
export async function listFailedDomains(reader: Knex, limits: TurnLimits): Promise<Domain[]> {
	const failed = liveDomains(reader).whereIn('state', ['degraded', 'failed']).whereNotNull('first_verified_at');
	return await selectInTurns(reader, failed, 'state_at desc, id', limits);
}

/** Returns the domains with this link host: at most one after a claim has been committed. */
export async function findByLinkHost(reader: Knex, host: string): Promise<Array<Pick<Domain, 'id' | 'verified_at'>>> {
	return await liveDomains(reader).where({link_host: host}).select('id', 'verified_at');
}

/** Sets the link host. It is used after the next check has verified it, which is due at once. */
export async function setLinkHost(trx: Knex.Transaction, id: string, host: string | null): Promise<void> {
	await trx('domains').where({id}).update({link_host: host, links_ok_at: null, checked_at: null});
}

/** Deletes a domain with its keys. Returns `false` if it does not exist. */
export async function deleteDomain(trx: Knex.Transaction, id: string): Promise<boolean> {
	return (await trx('domains').where({id}).delete()) === 1;
}

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
	/** Created by a rotation; not used until DNS has it. */
	readonly pending_at: string | null;
	readonly retired_at: string | null;
	/** When DNS first had it; `null` if never. */
	readonly seen_at: string | null;
	readonly created_at: string;
};

export async function insertDkimKeys(trx: Knex.Transaction, keys: readonly DkimKey[]): Promise<void> {
	await trx('dkim_keys').insert(keys);
}

/** Returns the use of a key: it will sign once DNS has it, it signs, or it only verifies earlier signatures. */
export function keyState({pending_at: pendingAt, retired_at: retiredAt}: DkimKey): 'pending' | 'active' | 'retired' {
	return retiredAt !== null ? 'retired' : pendingAt !== null ? 'pending' : 'active';
}

/** Returns the keys of a domain, oldest first. */
export async function listDkimKeys(reader: Knex, domainId: string): Promise<DkimKey[]> {
	return await reader('dkim_keys').where({domain_id: domainId}).orderBy('id');
}

/** Makes a pending key sign from now on, instead of the one that signed with its algorithm. */
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

/** Records that DNS has these keys. Returns how many of them it did not have before. */
export async function markKeysSeen(trx: Knex.Transaction, ids: readonly string[], now: string): Promise<number> {
	return await trx('dkim_keys').whereIn('id', ids).whereNull('seen_at').update({seen_at: now});
}

export async function deleteDkimKeys(trx: Knex.Transaction, ids: readonly string[]): Promise<void> {
	await trx('dkim_keys').whereIn('id', ids).delete();
}

/** Returns keys by id with their domain's name, including retired ones: a message being rendered may use one. */
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

/** How messages from a domain are signed and where they bounce to, at a time in the store's form. */
export type DomainSigning = {
	/**
	 * The newest active key of each algorithm. Only keys that DNS has count, unless an operator verified a sender of
	 * the domain.
	 */
	readonly keyIds: readonly string[];
	/** `null` if DNS does not have the domain's own return path. */
	readonly returnPathDomain: string | null;
	/** The host of its links; `null` if it has none, or it does not work yet. */
	readonly linkHost: string | null;
};

/**
 * Selects the link host of a domain `d` with its certificate `c`, if the host works. Certificates matter only if https
 * is served here.
 */
function workingLinkHost(reader: Knex, now: string, needsCertificate: boolean): Knex.Raw {
	return reader.raw(
		'case when d.links_ok_at is not null and d.verified_at is not null and (? = 0 or c.not_after > ?) then d.link_host end as link_host',
		[needsCertificate ? 1 : 0, now],
	);
}

/** Returns the first working link host of a workspace, for links that belong to no domain's messages. */
export async function findLinkHost(
	reader: Knex,
	workspaceId: string,
	now: string,
	needsCertificate: boolean,
): Promise<string | null> {
	const rows: Array<{link_host: string | null}> = await reader('domains as d')
		.leftJoin('certificates as c', 'c.name', 'd.link_host')
		.where('d.workspace_id', workspaceId)
		.whereNotNull('d.links_ok_at')
		.orderBy('d.id')
		.select(workingLinkHost(reader, now, needsCertificate));
	return rows.find(({link_host: host}) => host !== null)?.link_host ?? null;
}

/** Reads how a domain signs. `needsCertificate` is true if HTTPS is served here, so that links need a certificate. */
export async function findDomainSigning(
	reader: Knex,
	domainId: string,
	now: string,
	needsCertificate = false,
): Promise<DomainSigning> {
	const rows: Array<Pick<DkimKey, 'id' | 'algorithm'>> = await reader('dkim_keys')
		.where({domain_id: domainId, pending_at: null, retired_at: null})
		.where('active_from', '<=', now)
		.where(usable =>
			usable
				.whereNotNull('seen_at')
				.orWhereExists(reader('senders').where({domain_id: domainId}).whereNotNull('verified_at')),
		)
		.orderBy('active_from')
		.orderBy('id')
		.select('id', 'algorithm');
	const domain: {return_path: string; return_path_at: string | null; link_host: string | null} | undefined =
		await reader('domains as d')
			.leftJoin('certificates as c', 'c.name', 'd.link_host')
			.where('d.id', domainId)
			.first(
				'd.return_path_at',
				reader.raw("coalesce(d.return_path_domain, 'bounce.' || d.name) as return_path"),
				workingLinkHost(reader, now, needsCertificate),
			);
	const newest = new Map(rows.map(({algorithm, id}) => [algorithm, id]));
	return {
		keyIds: [...newest.values()],
		returnPathDomain: domain?.return_path_at ? domain.return_path : null,
		linkHost: domain?.link_host ?? null,
	};
}

/** A row of `senders`: an address that messages may be sent from. */
export type Sender = {
	readonly id: string;
	readonly workspace_id: string;
	readonly domain_id: string;
	readonly address: string;
	/** In comparison form (mail/address.ts). */
	readonly address_key: string;
	/** The display name of `From`. */
	readonly name: string | null;
	/** Stored only if an operator verified the sender. When read, it falls back to the domain's. */
	readonly verified_at: string | null;
	readonly disabled_at: string | null;
	readonly created_at: string;
};

/** What a send needs to know about its sender. */
export type SenderRow = Pick<Sender, 'id' | 'verified_at' | 'disabled_at'>;

/** Reads a sender for a send, through a cache. It is verified if its domain is, or if an operator verified it. */
export async function lookUpSender(
	reader: Knex,
	workspaceId: string,
	addressKey: string,
): Promise<SenderRow | undefined> {
	return await reader('senders as s')
		.join('domains as d', 'd.id', 's.domain_id')
		.where({'s.workspace_id': workspaceId, 's.address_key': addressKey})
		.first('s.id', 's.disabled_at', reader.raw('coalesce(s.verified_at, d.verified_at) as verified_at'));
}

/** Returns `false` if the workspace already has the address. */
export async function insertSender(trx: Knex.Transaction, sender: Sender): Promise<boolean> {
	const inserted = await trx('senders')
		.insert(sender)
		.onConflict(['workspace_id', 'address_key'])
		.ignore()
		.returning('id');
	return inserted.length === 1;
}

/** Returns the senders of a workspace, newest first. */
export async function listSenders(reader: Knex, workspaceId: string): Promise<Sender[]> {
	return await sendersQuery(reader, workspaceId, null);
}

/** Returns a page of senders, newest first, after the one with the id `after`. */
export async function pageSenders(
	reader: Knex,
	workspaceId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<Sender[]> {
	return await sendersQuery(reader, workspaceId, after).limit(limit);
}

/** Returns a page of a domain's senders by address, after the one with the comparison form `after`. */
export async function pageDomainSenders(
	reader: Knex,
	domainId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<Sender[]> {
	const rows = withVerification(reader, reader('senders as s'))
		.where('s.domain_id', domainId)
		.orderBy('s.address_key')
		.limit(limit);
	return await (after === null ? rows : rows.where('s.address_key', '>', after));
}

export async function findSender(reader: Knex, workspaceId: string, addressKey: string): Promise<Sender | undefined> {
	return await sendersQuery(reader, workspaceId, null).where('s.address_key', addressKey).first();
}

export async function findSenderById(reader: Knex, workspaceId: string, id: string): Promise<Sender | undefined> {
	return await sendersQuery(reader, workspaceId, null).where('s.id', id).first();
}

function sendersQuery(reader: Knex, workspaceId: string, after: string | null): Knex.QueryBuilder {
	return withVerification(
		reader,
		alongIndex(reader, 'senders as s', {leading: {'s.workspace_id': workspaceId}, id: 's.id'}, {below: after}),
	);
}

/** Joins senders with the verification of their domains. */
function withVerification(reader: Knex, senders: Knex.QueryBuilder): Knex.QueryBuilder {
	return senders
		.join('domains as d', 'd.id', 's.domain_id')
		.select('s.*', reader.raw('coalesce(s.verified_at, d.verified_at) as verified_at'));
}

/** Returns the addresses of a domain's senders. */
export async function listDomainSenders(reader: Knex, domainId: string): Promise<string[]> {
	return await reader('senders').where({domain_id: domainId}).orderBy('address_key').pluck('address');
}

/** Returns the comparison forms of the addresses that an operator verified, independently of DNS. */
export async function listVerifiedByOperator(reader: Knex, workspaceId: string): Promise<string[]> {
	return await reader('senders').where({workspace_id: workspaceId}).whereNotNull('verified_at').pluck('address_key');
}

export async function updateStoredSender(
	trx: Knex.Transaction,
	id: string,
	changes: Pick<Partial<Sender>, 'name' | 'verified_at' | 'disabled_at'>,
): Promise<void> {
	if (Object.keys(changes).length > 0) {
		await trx('senders').where({id}).update(changes);
	}
}

/** Removes a sender and returns it; `undefined` if the workspace has no such sender. */
export async function deleteSender(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
): Promise<Sender | undefined> {
	const sender = await findSenderById(trx, workspaceId, id);
	// Another node may have removed it in the meantime.
	return sender && (await trx('senders').where({id}).delete()) === 1 ? sender : undefined;
}
