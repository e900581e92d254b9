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
