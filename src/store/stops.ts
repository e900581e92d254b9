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

/** Undefined: the destination was not suspended. */
export async function deleteSuspension(trx: Knex.Transaction, destination: string): Promise<Suspension | undefined> {
	const found: Suspension | undefined = await trx('suspensions')
		.where({destination})
		.first('destination', 'reason', 'created_at');
	await trx('suspensions').where({destination}).delete();
	return found;
}

/** A site that is left alone for a while after failures, and a destination whose mail waits for it. */
export type SiteSuspension = {
	readonly destination: string;
	readonly site: string;
	readonly reason: string | null;
	readonly suspended_until: string;
};

/** Suspensions after failures that hold at `now`, for each destination with mail; of one destination, or of all. */
export async function listSiteSuspensions(reader: Knex, now: string, destination?: string): Promise<SiteSuspension[]> {
	const query = reader('lane_waits as l')
		.join('sites as s', 's.site', 'l.site')
		.where('s.suspended_until', '>', now)
		.distinct('l.destination', 's.site', 's.reason', 's.suspended_until')
		.orderBy('l.destination');
	return await (destination === undefined ? query : query.where('l.destination', destination));
}

/** Lets mail to these sites go again. */
export async function endSiteSuspensions(trx: Knex.Transaction, sites: readonly string[], now: string): Promise<void> {
	await trx('sites').whereIn('site', sites).update({suspended_until: null, step: 0, updated_at: now});
}
