import type {Knex} from 'knex';
import {alongIndex} from './engine/along-index.ts';

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
	/** `degraded`: verified, but DNS lacks the records of late. */
	readonly state: DomainState;
	readonly state_at: string;
	readonly verified_at: string | null;
	/** When DNS was last asked; whoever asks takes the domain by setting it. */
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

export async function findDomain(reader: Knex, workspaceId: string, name: string): Promise<Domain | undefined> {
	return await reader('domains').where({workspace_id: workspaceId, name}).first();
}

export async function findDomainById(reader: Knex, workspaceId: string, id: string): Promise<Domain | undefined> {
	return await reader('domains').where({workspace_id: workspaceId, id}).first();
}

/** Takes a domain to be checked; false: somebody else took it since it was read. */
export async function claimDomainCheck(
	trx: Knex.Transaction,
	{id, checked_at: checkedAt}: Pick<Domain, 'id' | 'checked_at'>,
	now: string,
): Promise<boolean> {
	return (await trx('domains').where({id, checked_at: checkedAt}).update({checked_at: now})) === 1;
}

/** Writes what a check came to; false: somebody else took the domain meanwhile, or it is gone. */
export async function updateCheckedDomain(
	trx: Knex.Transaction,
	{id, checked_at: checkedAt}: Pick<Domain, 'id' | 'checked_at'>,
	changes: Partial<Pick<Domain, 'state' | 'state_at' | 'verified_at' | 'failures' | 'return_path_at'>>,
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
export type DueMoments = {
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
	const unseen = () => reader('dkim_keys as k').whereRaw('k.domain_id = d.id').where({seen_at: null, retired_at: null});
	const pending = unseen().max('k.created_at').as('pending_at');
	return await reader('domains as d')
		.whereNull('d.checked_at')
		.orWhere('d.checked_at', '<=', dayAgo)
		// The clock was set back.
		.orWhere('d.checked_at', '>', now)
		.orWhere(query =>
			query.where('d.checked_at', '<=', minuteAgo).where(hasten =>
				hasten
					.whereIn('d.state', ['pending', 'degraded'])
					.orWhere(verified => verified.whereNull('d.return_path_at').where('d.state_at', '>', eager))
					.orWhereExists(unseen().where('k.created_at', '>', eager)),
			),
		)
		.orderByRaw('case when d.checked_at is null then 0 else 1 end, d.checked_at, d.id')
		.limit(limit)
		.select('d.*', pending);
}

/** How many domains there are of each state. */
export async function countDomainStates(reader: Knex): Promise<Record<DomainState, number>> {
	const rows: Array<{state: DomainState; n: number | string}> = await reader('domains')
		.groupBy('state')
		.select('state')
		.count('* as n');
	const counts = {pending: 0, verified: 0, degraded: 0, failed: 0};
	for (const {state, n} of rows) {
		counts[state] = Number(n);
	}
	return counts;
}

/** With its keys. False: there is no such domain. */
export async function deleteDomain(trx: Knex.Transaction, id: string): Promise<boolean> {
	return (await trx('domains').where({id}).delete()) === 1;
}
