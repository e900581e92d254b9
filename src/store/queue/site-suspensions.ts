import type {Knex} from 'knex';

/** A site that is left alone for a while, and a destination whose mail waits for it. */
export type SiteSuspension = {
	readonly destination: string;
	readonly site: string;
	readonly reason: string | null;
	/** `route`: its smarthost refuses us. */
	readonly waits_for: 'suspension' | 'route' | null;
	readonly suspended_until: string;
};

/** Sites that are left alone at `now`, for each destination whose mail waits for one; of one destination, or of all. */
export async function listSiteSuspensions(reader: Knex, now: string, destination?: string): Promise<SiteSuspension[]> {
	const query = reader('lane_waits as l')
		.join('sites as s', 's.site', 'l.site')
		.where('s.suspended_until', '>', now)
		.distinct('l.destination', 's.site', 's.reason', 's.waits_for', 's.suspended_until')
		.orderBy('l.destination');
	return await (destination === undefined ? query : query.where('l.destination', destination));
}

/** Lets one mail try each of those of the sites that are left alone at `now`; answers their names. */
export async function resumeSites(trx: Knex.Transaction, sites: readonly string[], now: string): Promise<string[]> {
	const resumed: Array<{site: string}> = await trx('sites')
		.whereIn('site', sites)
		.where('suspended_until', '>', now)
		.update({suspended_until: now, resumed_at: now})
		.returning('site');
	return resumed.map(({site}) => site).sort();
}

/** When each site was resumed last by an operator, as far as it is remembered. */
export async function readResumed(reader: Knex): Promise<Map<string, string>> {
	const rows: Array<{site: string; resumed_at: string}> = await reader('sites')
		.whereNotNull('resumed_at')
		.select('site', 'resumed_at');
	return new Map(rows.map(row => [row.site, row.resumed_at]));
}
