import type {Knex} from 'knex';
import {alongIndex, selectInTurns, type TurnLimits} from './engine/rows.ts';
import {deletedWorkspaces} from './workspaces.ts';

export const domainStates = ['pending', 'verified', 'degraded', 'failed'] as const;
export type DomainState = (typeof domainStates)[number];

/** A row of `domains`: where senders of a workspace may be. */
export type Domain = {
	readonly id: string;
	readonly workspace_id: string;
	/** A-labels. */
	readonly name: string;
	readonly ownership_token: string;
	/** Null: `bounce.<name>`. */
	readonly return_path_domain: string | null;
	/** Since when its own return path is used: DNS shows MX and SPF. Null: MAILCTL_RETURN_PATH_DOMAIN is used. */
	readonly return_path_at: string | null;
	/** The host of links in its mail; null: that of MAILCTL_PUBLIC_URL. */
	readonly link_host: string | null;
	/** Since when DNS shows that it leads here. Null: it does not, and is not used. */
	readonly links_ok_at: string | null;
	/** `degraded`: verified, but DNS lacks the records of late. */
	readonly state: DomainState;
	readonly state_at: string;
	readonly verified_at: string | null;
	/** It stays when the domain fails; `null` if it was never verified. */
	readonly first_verified_at: string | null;
	/** When DNS was last asked; a check claims the domain by setting it. */
	readonly checked_at: string | null;
	/** Checks since `state_at` or the last good one that found nothing. */
	readonly failures: number;
	readonly created_at: string;
};

/** False: the workspace has the domain already. */
export async function insertDomain(trx: Knex.Transaction, domain: Domain): Promise<boolean> {
	const inserted = await trx('domains').insert(domain).onConflict(['workspace_id', 'name']).ignore().returning('id');
	return inserted.length === 1;
}

/** Domains of the workspaces that were not deleted: for what asks for all. */
export function liveDomains(reader: Knex): Knex.QueryBuilder {
	return reader('domains').whereNotIn('workspace_id', deletedWorkspaces(reader));
}

/** Newest first. */
export async function listDomains(reader: Knex, workspaceId: string): Promise<Domain[]> {
	return await reader('domains').where({workspace_id: workspaceId}).orderBy('id', 'desc');
}

/** Newest first, from after the one with the id `after`. */
export async function pageDomains(
	reader: Knex,
	workspaceId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<Domain[]> {
	const index = {leading: {workspace_id: workspaceId}, id: 'id'};
	return await alongIndex(reader, 'domains', index, {below: after}).limit(limit);
}

/** The names of the verified domains of all workspaces. */
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

/** Claims a domain to check it; false: another check claimed it since it was read. */
export async function claimDomainCheck(
	trx: Knex.Transaction,
	{id, checked_at: checkedAt}: Pick<Domain, 'id' | 'checked_at'>,
	now: string,
): Promise<boolean> {
	return (await trx('domains').where({id, checked_at: checkedAt}).update({checked_at: now})) === 1;
}

/** Writes the result of a check; false: another check claimed the domain meanwhile, or it is gone. */
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

/** A domain with what its next check depends on: when the newest key was made that DNS has not shown yet. */
export type DueDomain = Domain & {readonly pending_at: string | null};

/** Moments in the store's form. */
type DueMoments = {
	readonly now: string;
	readonly minuteAgo: string;
	readonly dayAgo: string;
	/** Before it nothing is asked more often than once a day. */
	readonly eager: string;
};

/** Domains that may be due for a check, those first that were never checked, then by the last check. */
export async function listDueDomains(
	reader: Knex,
	{now, minuteAgo, dayAgo, eager}: DueMoments,
	limit: number,
): Promise<DueDomain[]> {
	const unseen = () =>
		reader('dkim_keys as k').whereRaw('k.domain_id = d.id').where({seen_at: null, retired_at: null});
	const pending = unseen().max('k.created_at').as('pending_at');
	const hastened = (hasten: Knex.QueryBuilder) =>
		hasten
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
				.orWhere(query => query.where('d.checked_at', '<=', minuteAgo).where(hastened)),
		)
		.orderByRaw('case when d.checked_at is null then 0 else 1 end, d.checked_at, d.id')
		.limit(limit)
		.select('d.*', pending);
}

/** How many domains there are of each state. */
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
 * Domains that were verified and lack records now, or were given up for it: workspaces in turn, of each the newest
 * change first.
 */
export async function listFailedDomains(reader: Knex, limits: TurnLimits): Promise<Domain[]> {
	const failed = liveDomains(reader).whereIn('state', ['degraded', 'failed']).whereNotNull('first_verified_at');
	return await selectInTurns(reader, failed, 'state_at desc, id', limits);
}

/** The domains that have this link host: no more than one, once a claim is committed. */
export async function findByLinkHost(reader: Knex, host: string): Promise<Array<Pick<Domain, 'id' | 'verified_at'>>> {
	return await liveDomains(reader).where({link_host: host}).select('id', 'verified_at');
}

/** It is used once the next check has seen it; that is due at once. */
export async function setLinkHost(trx: Knex.Transaction, id: string, host: string | null): Promise<void> {
	await trx('domains').where({id}).update({link_host: host, links_ok_at: null, checked_at: null});
}

/** With its keys. False: there is no such domain. */
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
	/**
	 * The newest active key of each algorithm, of those that DNS showed; of all where an operator verified a sender of
	 * the domain.
	 */
	readonly keyIds: readonly string[];
	/** Null: DNS does not show the domain's own. */
	readonly returnPathDomain: string | null;
	/** The host of its links; null: it has none, or that does not work yet. */
	readonly linkHost: string | null;
};

/**
 * The link host of a domain `d` with its certificate `c`, where it works. Certificates count where https is served
 * here.
 */
function workingLinkHost(reader: Knex, now: string, needsCertificate: boolean): Knex.Raw {
	return reader.raw(
		'case when d.links_ok_at is not null and d.verified_at is not null and (? = 0 or c.not_after > ?) then d.link_host end as link_host',
		[needsCertificate ? 1 : 0, now],
	);
}

/** The first link host of a workspace that works, for a link that is of no domain's mail. */
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

/** `needsCertificate`: https is served here, so that a link host needs a certificate in the store. */
export async function findDomainSigning(
	reader: Knex,
	domainId: string,
	now: string,
	needsCertificate = false,
): Promise<DomainSigning> {
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

/** A row of `senders`: an address that mail may come from. */
export type Sender = {
	readonly id: string;
	readonly workspace_id: string;
	readonly domain_id: string;
	readonly address: string;
	/** The comparison form (mail/address.ts). */
	readonly address_key: string;
	/** The display name of `From`. */
	readonly name: string | null;
	/** Stored where an operator said so; read, it is else that of its domain. */
	readonly verified_at: string | null;
	readonly disabled_at: string | null;
	readonly created_at: string;
};

/** What a send needs of its sender. */
export type SenderRow = Pick<Sender, 'id' | 'verified_at' | 'disabled_at'>;

/** Read by sends, through a cache. A sender is verified when its domain is, or when an operator said so. */
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

/** False: the workspace has the address already. */
export async function insertSender(trx: Knex.Transaction, sender: Sender): Promise<boolean> {
	const inserted = await trx('senders')
		.insert(sender)
		.onConflict(['workspace_id', 'address_key'])
		.ignore()
		.returning('id');
	return inserted.length === 1;
}

/** Newest first. */
export async function listSenders(reader: Knex, workspaceId: string): Promise<Sender[]> {
	return await sendersQuery(reader, workspaceId, null);
}

/** Newest first, from after the one with the id `after`. */
export async function pageSenders(
	reader: Knex,
	workspaceId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<Sender[]> {
	return await sendersQuery(reader, workspaceId, after).limit(limit);
}

/** Those of a domain, by address, from after the one with the comparison form `after`. */
export async function pageDomainSenders(
	reader: Knex,
	domainId: string,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<Sender[]> {
	const rows = joined(reader, reader('senders as s'))
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
	return joined(
		reader,
		alongIndex(reader, 'senders as s', {leading: {'s.workspace_id': workspaceId}, id: 's.id'}, {below: after}),
	);
}

/** With what their domains say of them. */
function joined(reader: Knex, senders: Knex.QueryBuilder): Knex.QueryBuilder {
	return senders
		.join('domains as d', 'd.id', 's.domain_id')
		.select('s.*', reader.raw('coalesce(s.verified_at, d.verified_at) as verified_at'));
}

/** The addresses of a domain's senders. */
export async function listDomainSenders(reader: Knex, domainId: string): Promise<string[]> {
	return await reader('senders').where({domain_id: domainId}).orderBy('address_key').pluck('address');
}

/** The comparison forms of the addresses that an operator verified, independently of DNS. */
export async function listVerifiedByOperator(reader: Knex, workspaceId: string): Promise<string[]> {
	return await reader('senders').where({workspace_id: workspaceId}).whereNotNull('verified_at').pluck('address_key');
}

export async function updateSender(
	trx: Knex.Transaction,
	workspaceId: string,
	addressKey: string,
	changes: Pick<Partial<Sender>, 'name' | 'verified_at' | 'disabled_at'>,
): Promise<void> {
	await trx('senders').where({workspace_id: workspaceId, address_key: addressKey}).update(changes);
}

/** Removes a sender and answers it; undefined: the workspace has no such sender. */
export async function deleteSender(
	trx: Knex.Transaction,
	workspaceId: string,
	by: {readonly id: string} | {readonly addressKey: string},
): Promise<Pick<Sender, 'id' | 'workspace_id' | 'address'> | undefined> {
	const chosen = 'id' in by ? {id: by.id} : {address_key: by.addressKey};
	const sender: Pick<Sender, 'id' | 'workspace_id' | 'address'> | undefined = await trx('senders')
		.where({workspace_id: workspaceId, ...chosen})
		.first('id', 'workspace_id', 'address');
	// Another node may have removed it meanwhile.
	return sender && (await trx('senders').where({id: sender.id}).delete()) === 1 ? sender : undefined;
}
