import type {Knex} from 'knex';
import {type LimitName, readLimits} from '../mail/workspace-limits.ts';

type CountedRows = (trx: Knex, now: string) => Knex.QueryBuilder;

const whereUsable = (query: Knex.QueryBuilder, now: string) =>
	query.whereNull('revoked_at').where(expiry => expiry.whereNull('expires_at').orWhere('expires_at', '>', now));

const counted: Readonly<Record<LimitName, CountedRows>> = {
	topics: trx => trx('topics'),
	public_topics: trx => trx('topics').whereNotNull('public_at'),
	inbound_addresses: trx => trx('inbound_addresses'),
	domains: trx => trx('domains'),
	keys: (trx, now) => whereUsable(trx('api_keys'), now),
	alerts: trx => trx('alerts'),
	templates: trx => trx('templates').whereNull('deleted_at'),
	layouts: trx => trx('layouts'),
};

/**
 * Returns how many objects of a kind the workspace has, and how many are allowed. Within a transaction, others that add
 * to the workspace wait until this one ends, so that the count stays correct.
 *
 * @param now in the store's form
 */
export async function countOfLimit(
	trx: Knex,
	workspaceId: string,
	name: LimitName,
	now: string,
): Promise<{readonly count: number; readonly limit: number}> {
	const query = trx('workspaces').where({id: workspaceId});
	const row: {limits: string | null} | undefined = await (trx.isTransaction ? query.forNoKeyUpdate() : query).first(
		'limits',
	);
	const total: {n: number | string} = await counted[name](trx, now)
		.where({workspace_id: workspaceId})
		.first(trx.raw('count(*) as n'));
	return {count: Number(total.n), limit: readLimits(row?.limits ?? null)[name]};
}
