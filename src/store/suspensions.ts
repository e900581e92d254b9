import type {Knex} from 'knex';

/** Destinations that an operator lets nothing go to. */
export async function readSuspensions(reader: Knex): Promise<string[]> {
	return await reader('suspensions').pluck('destination');
}
