import type {Knex} from 'knex';

/** A destination that an operator lets nothing be sent to. */
export type Suspension = {readonly destination: string; readonly reason: string; readonly created_at: string};

/** Every suspension by an operator, by name. */
export async function listSuspensions(reader: Knex): Promise<Suspension[]> {
	return await reader('suspensions').select('destination', 'reason', 'created_at').orderBy('destination');
}

/** A second one keeps the first one's time and takes the new reason. */
export async function upsertSuspension(trx: Knex.Transaction, suspension: Suspension): Promise<Suspension> {
	const {reason} = suspension;
	const rows: Suspension[] = await trx('suspensions')
		.insert(suspension)
		.onConflict('destination')
		.merge({reason})
		.returning(['destination', 'reason', 'created_at']);
	return rows[0] ?? suspension;
}

/** Undefined: the destination is not suspended. */
export async function readSuspension(reader: Knex, destination: string): Promise<Suspension | undefined> {
	return await reader('suspensions').where({destination}).first('destination', 'reason', 'created_at');
}

/** Undefined: the destination was not suspended. */
export async function deleteSuspension(trx: Knex.Transaction, destination: string): Promise<Suspension | undefined> {
	const found = await readSuspension(trx, destination);
	await trx('suspensions').where({destination}).delete();
	return found;
}

/** Destinations that an operator lets nothing go to. */
export async function readSuspensions(reader: Knex): Promise<string[]> {
	return await reader('suspensions').pluck('destination');
}

/** A site that is left alone for a while, and a destination whose mail waits for it. */
export type SiteSuspension = {
	readonly destination: string;
	readonly site: string;
	readonly reason: string | null;
	/** `route`: its smarthost refuses us. */
	readonly waits_for: 'suspension' | 'route' | null;
	readonly suspended_until: string;
};

/** Sites that are left alone at `now`, for each destination whose mail waits for one; of one destination or workspace, or of all. */
export async function listSiteSuspensions(
	reader: Knex,
	now: string,
	{
		destination,
		workspaceId,
	}: {readonly destination?: string | undefined; readonly workspaceId?: string | undefined} = {},
): Promise<SiteSuspension[]> {
	const query = reader('lane_waits as l')
		.join('sites as s', 's.site', 'l.site')
		.where('s.suspended_until', '>', now)
		.distinct('l.destination', 's.site', 's.reason', 's.waits_for', 's.suspended_until')
		.orderBy('l.destination');
	if (destination !== undefined) {
		query.where('l.destination', destination);
	}
	return await (workspaceId === undefined ? query : query.where('l.workspace_id', workspaceId));
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
