import type {Knex} from 'knex';

/** A row of `first_starts`, which exists until the first keys have been shown to the operator. */
export type FirstStart = {
	/** The workspace that the start created. */
	readonly workspace_id: string;
	readonly begun_at: string;
};

export async function insertFirstStart(trx: Knex.Transaction, first: FirstStart): Promise<void> {
	await trx('first_starts').insert(first);
}

/** Returns `undefined` if the first start has finished. */
export async function findFirstStart(reader: Knex): Promise<FirstStart | undefined> {
	return await reader('first_starts').first();
}

/** Compare-and-set: resumes a first start that was interrupted. Returns `false` if another process has done so. */
export async function resumeFirstStart(trx: Knex.Transaction, broken: FirstStart, now: string): Promise<boolean> {
	return (await trx('first_starts').where(broken).update({begun_at: now})) === 1;
}

export async function endFirstStart(trx: Knex.Transaction): Promise<void> {
	await trx('first_starts').delete();
}

/** Returns whether somebody already has access to the store: a key was used, or a user signed in. */
export async function hasBeenUsed(reader: Knex): Promise<boolean> {
	const key = await reader('api_keys').whereNotNull('last_used_at').first('id');
	return key !== undefined || (await reader('users').whereNotNull('last_login_at').first('id')) !== undefined;
}
