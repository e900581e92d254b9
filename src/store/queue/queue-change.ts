import type {Knex} from 'knex';
import type {Role} from '../../mail/message.ts';
import {type RecipientState, statesBefore} from '../../mail/recipient-state.ts';

/** What an operator changes of copies in the queue, some hundred at a time. Compare-and-set: each answers what it changed. */
export type Step = {
	readonly ids: readonly string[];
	readonly now: string;
	/**
	 * What a daemon is trying is left alone. Null: every claim counts as one; else that of a node that was last seen before
	 * this is dead, and ends.
	 */
	readonly silentSince: string | null;
};

export type ChangedCopy = {
	readonly id: string;
	readonly workspace_id: string;
	readonly message_id: string;
	readonly address: string;
	readonly role: Role;
	readonly destination: string;
	readonly attempts: number;
	readonly last_reply: string | null;
};

const columns = [
	'id',
	'workspace_id',
	'message_id',
	'address',
	'role',
	'destination',
	'attempts',
	'last_reply',
] as const satisfies ReadonlyArray<keyof ChangedCopy>;

/** Held copies stay in the queue and are never claimed. */
export async function holdCopies(trx: Knex.Transaction, step: Step): Promise<ChangedCopy[]> {
	return await untried(trx, step)
		.whereNull('held_at')
		.update({held_at: step.now, claimed_by: null})
		.returning([...columns]);
}

/** Holds all that waits in a store that no daemon has; how many copies of each workspace. */
export async function holdAll(
	trx: Knex.Transaction,
	now: string,
): Promise<ReadonlyArray<{readonly workspaceId: string; readonly copies: number}>> {
	const all = trx('recipients').whereNotNull('next_attempt_at').whereNull('held_at');
	const held: Array<{id: string; copies: number | string}> = await all
		.clone()
		.groupBy('workspace_id')
		.select('workspace_id as id')
		.count('* as copies');
	await all.update({held_at: now, claimed_by: null});
	return held.map(({id, copies}) => ({workspaceId: id, copies: Number(copies)}));
}

/** They are tried when they would have been. */
export async function releaseHeld(trx: Knex.Transaction, {ids}: Pick<Step, 'ids'>): Promise<ChangedCopy[]> {
	return await waiting(trx, ids)
		.whereNotNull('held_at')
		.update({held_at: null})
		.returning([...columns]);
}

/** Makes them due now, however long they would have waited; what is held stays so. */
export async function makeDue(trx: Knex.Transaction, {ids, now}: Pick<Step, 'ids' | 'now'>): Promise<ChangedCopy[]> {
	return await waiting(trx, ids)
		.whereNull('claimed_by')
		.whereNull('held_at')
		.where('next_attempt_at', '>', now)
		.update({next_attempt_at: now})
		.returning([...columns]);
}

/** Takes copies out of the queue, held or not. */
export async function endWaiting(trx: Knex.Transaction, step: Step, state: RecipientState): Promise<ChangedCopy[]> {
	return await untried(trx, step)
		.whereIn('state', statesBefore(state))
		.update({state, state_at: step.now, next_attempt_at: null, held_at: null, claimed_by: null})
		.returning([...columns]);
}

/** Those of the copies that are claimed. */
export async function findClaimed(reader: Knex, ids: readonly string[]): Promise<string[]> {
	return await waiting(reader, ids).whereNotNull('claimed_by').pluck('id');
}

function waiting(connection: Knex, ids: readonly string[]): Knex.QueryBuilder {
	return connection('recipients').whereIn('id', ids).whereNotNull('next_attempt_at');
}

function untried(trx: Knex.Transaction, {ids, silentSince}: Step): Knex.QueryBuilder {
	const query = waiting(trx, ids);
	if (silentSince === null) {
		return query.whereNull('claimed_by');
	}
	const alive = trx('nodes').select('id').where('seen_at', '>=', silentSince);
	return query.where(claim => claim.whereNull('claimed_by').orWhereNotIn('claimed_by', alive));
}
