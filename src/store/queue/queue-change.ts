import type {Knex} from 'knex';
import type {Role} from '../../mail/message.ts';
import {type RecipientState, statesBefore} from '../../mail/recipient-state.ts';
import {listState} from '../message-terms.ts';
import {dequeue, lockOpen} from './open-recipients.ts';
import {endCutOff, storeQueued, takeClaims} from './queued-events.ts';

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

export type ChangedRecipient = {
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
] as const satisfies ReadonlyArray<keyof ChangedRecipient>;

/** Held copies stay in the queue and are never claimed. */
export async function holdRecipients(trx: Knex.Transaction, step: Step): Promise<ChangedRecipient[]> {
	const untried = await lockUntried(trx, step);
	const held: string[] = await idsOf(
		trx('queue').whereIn('recipient_id', untried).whereNull('held_at').update({held_at: step.now}),
	);
	await endCutOff(trx, trx('claims').whereIn('recipient_id', held), step.now);
	return await readChanged(trx, held);
}

/** Holds all that waits in a store that no daemon has; how many copies of each workspace. */
export async function holdAll(
	trx: Knex.Transaction,
	now: string,
): Promise<ReadonlyArray<{readonly workspaceId: string; readonly recipients: number}>> {
	const all = trx('queue').whereNull('held_at');
	const held: Array<{id: string; recipients: number | string}> = await all
		.clone()
		.groupBy('workspace_id')
		.select('workspace_id as id')
		.count('* as recipients');
	const ended = await takeClaims(trx, trx('claims'));
	await all.update({held_at: now});
	await storeQueued(trx, ended);
	return held.map(({id, recipients}) => ({workspaceId: id, recipients: Number(recipients)}));
}

/** They are tried when they would have been. */
export async function releaseHeld(trx: Knex.Transaction, {ids}: Pick<Step, 'ids'>): Promise<ChangedRecipient[]> {
	const released = await idsOf(waiting(trx, ids).whereNotNull('held_at').update({held_at: null}));
	return await readChanged(trx, released);
}

/** Makes them due now, however long they would have waited; what is held stays so. */
export async function makeDue(
	trx: Knex.Transaction,
	{ids, now}: Pick<Step, 'ids' | 'now'>,
): Promise<ChangedRecipient[]> {
	const due = await idsOf(
		waiting(trx, ids)
			.whereNotExists(claimOf(trx))
			.whereNull('held_at')
			.where('next_attempt_at', '>', now)
			.update({next_attempt_at: now}),
	);
	return await readChanged(trx, due);
}

/** Takes copies out of the queue, held or not. */
export async function endWaiting(
	trx: Knex.Transaction,
	step: Step,
	state: RecipientState,
): Promise<ChangedRecipient[]> {
	const untried = await lockUntried(trx, step);
	await endCutOff(trx, trx('claims').whereIn('recipient_id', untried), step.now);
	const ended: ChangedRecipient[] = await trx('recipients')
		.whereIn('id', untried)
		.whereIn('state', statesBefore(state))
		.update({state, state_at: step.now})
		.returning([...columns]);
	await listState(trx, ended, state);
	await dequeue(
		trx,
		ended.map(({id}) => id),
	);
	return ended;
}

/** Those of the copies that are claimed. */
export async function findClaimed(reader: Knex, ids: readonly string[]): Promise<string[]> {
	return await waiting(reader, ids).whereExists(claimOf(reader)).pluck('recipient_id');
}

function waiting(connection: Knex, ids: readonly string[]): Knex.QueryBuilder {
	return connection('queue').whereIn('recipient_id', ids);
}

function claimOf(connection: Knex): Knex.QueryBuilder {
	return connection('claims').whereRaw('claims.recipient_id = queue.recipient_id').select('claims.recipient_id');
}

/** Those that nobody is trying, or only a dead daemon, whose claims are locked. Nobody claims them until the transaction ends. */
async function lockUntried(trx: Knex.Transaction, {ids, silentSince}: Step): Promise<string[]> {
	const claims = () => trx('claims').whereIn('recipient_id', ids);
	const dead: string[] = [];
	if (silentSince !== null) {
		const alive = trx('nodes').select('id').where('seen_at', '>=', silentSince);
		dead.push(
			...(await claims().whereNotIn('claimed_by', alive).orderBy('recipient_id').forUpdate().pluck('recipient_id')),
		);
	}
	const open = await lockOpen(trx, ids);
	const claimed: string[] = await claims().pluck('recipient_id');
	const tried = new Set(claimed.filter(id => !dead.includes(id)));
	return open.filter(id => !tried.has(id));
}

async function idsOf(update: Knex.QueryBuilder): Promise<string[]> {
	const rows: Array<{recipient_id: string}> = await update.returning('recipient_id');
	return rows.map(({recipient_id: id}) => id);
}

async function readChanged(trx: Knex.Transaction, ids: readonly string[]): Promise<ChangedRecipient[]> {
	return await trx('recipients')
		.whereIn('id', ids)
		.select([...columns]);
}
