import type {Knex} from 'knex';

/** A row of `first_starts`, there until the operator was shown the first keys. */
export type FirstStart = {
	/** The workspace that the start created. */
	readonly workspace_id: string;
	readonly begun_at: string;
};

export async function insertFirstStart(trx: Knex.Transaction, first: FirstStart): Promise<void> {
	await trx('first_starts').insert(first);
}

/** `undefined` where the first start came to its end. */
export async function findFirstStart(reader: Knex): Promise<FirstStart | undefined> {
	return await reader('first_starts').first();
}

/** Compare-and-set: takes over a first start that broke off. `false` if another process has done so. */
export async function resumeFirstStart(trx: Knex.Transaction, broken: FirstStart, now: string): Promise<boolean> {
	return (await trx('first_starts').where(broken).update({begun_at: now})) === 1;
}

export async function endFirstStart(trx: Knex.Transaction): Promise<void> {
	await trx('first_starts').delete();
}

/** Whether somebody has access to the store already: a key was used, or a user signed in. */
export async function hasBeenUsed(reader: Knex): Promise<boolean> {
	const key = await reader('api_keys').whereNotNull('last_used_at').first('id');
	return key !== undefined || (await reader('users').whereNotNull('last_login_at').first('id')) !== undefined;
}
