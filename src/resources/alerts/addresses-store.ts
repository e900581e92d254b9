import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import {domainOf} from '../../mail/address.ts';
import {queryRows} from '../../store/engine/dialect.ts';
import {type Pair, pairKey} from '../../store/engine/rows.ts';
import type {DomainState} from '../domains/store.ts';
import {findSuppressed} from '../suppressions/store.ts';

/** Whether a workspace's alert emails may be sent to an address. */
export type AddressStatus = 'active' | 'unconfirmed' | 'suppressed';

/** Returns the statuses of addresses. An address is `active` if it is confirmed, a user's, or in a verified domain. */
export async function readAddressStatuses(
	reader: Knex,
	workspaceId: string,
	keys: readonly string[],
): Promise<Map<string, AddressStatus>> {
	const confirmed = await reader('alert_addresses')
		.where({workspace_id: workspaceId})
		.whereIn('address_key', keys)
		.pluck('address_key');
	const users = await reader('users')
		.whereIn('email', keys)
		.whereNotNull('vouched_at')
		.where(query => query.where({workspace_id: workspaceId}).orWhereNull('workspace_id'))
		.pluck('email');
	const domains = await reader('domains')
		.where({workspace_id: workspaceId})
		.whereIn('state', ['verified', 'degraded'] satisfies DomainState[])
		.whereIn('name', keys.map(domainOf))
		.pluck('name');
	const pairs: Pair[] = keys.map(key => [workspaceId, key]);
	const suppressed = await findSuppressed(reader, pairs);
	const allowedAddresses = new Set<string>([...confirmed, ...users]);
	const verifiedDomains = new Set<string>(domains);
	const statusOf = (key: string): AddressStatus => {
		if (suppressed.get(pairKey(workspaceId, key)) === 'live') {
			return 'suppressed';
		}
		return allowedAddresses.has(key) || verifiedDomains.has(domainOf(key)) ? 'active' : 'unconfirmed';
	};
	return new Map(keys.map(key => [key, statusOf(key)]));
}

/** Returns `false` if the address was already confirmed. */
export async function confirmAddress(
	trx: Knex.Transaction,
	[workspaceId, addressKey]: readonly [string, string],
	now: string,
): Promise<boolean> {
	const added = await trx('alert_addresses')
		.insert({workspace_id: workspaceId, address_key: addressKey, confirmed_at: now})
		.onConflict(['workspace_id', 'address_key'])
		.ignore()
		.returning('address_key');
	return added.length === 1;
}

/** How often something may be done within a sliding window. */
export type Allowance = {readonly name: string; readonly uses: number; readonly windowMs: number};

/**
 * Uses an allowance once. Each use claims a slot with one upsert, so that several nodes cannot exceed it together.
 * Returns `null` if it was used, or else the milliseconds until it can be used again.
 */
export async function takeAllowance(
	trx: Knex.Transaction,
	{name, uses, windowMs}: Allowance,
	now: number,
): Promise<number | null> {
	const windowStart = storeTime(now - windowMs);
	for (let slot = 1; slot <= uses; slot++) {
		const claimed = await queryRows(
			trx,
			`insert into alert_allowances (name, slot, used_at) values (?, ?, ?)
				on conflict (name, slot) do update set used_at = excluded.used_at where alert_allowances.used_at <= ?
				returning slot`,
			[name, slot, storeTime(now), windowStart],
		);
		if (claimed.length === 1) {
			return null;
		}
	}
	const oldest: {used_at: string} | undefined = await trx('alert_allowances')
		.where({name})
		.orderBy('used_at')
		.first('used_at');
	return oldest === undefined ? windowMs : Math.max(1, Date.parse(oldest.used_at) + windowMs - now);
}

/** Removes at most `limit` uses from before a time. */
export async function purgeAllowances(trx: Knex.Transaction, before: string, limit: number): Promise<number> {
	const expired = trx('alert_allowances').where('used_at', '<', before).select('name', 'slot').limit(limit);
	return await trx('alert_allowances').whereIn(['name', 'slot'], expired).delete();
}
