import type {Knex} from 'knex';
import type {QueueKey} from '../../mail/route.ts';
import {among} from '../engine/near-ids.ts';
import {type Claimable, releaseUnknown} from '../held-claims.ts';
import {removeGoneQueueWaits} from './queue-waits.ts';
import {endClaims, endCutOff} from './queued-events.ts';

/** Copies. A claim leaves a copy's row in the queue as it is: without its claim it is due since when it was. */
export const recipientClaims: Claimable = {
	table: 'claims',
	name: 'recipient_id',
	giveBack: endClaims,
	giveBackOfDead: endCutOff,
	told: ['recipient_id'],
};

/** Copies that come due by themselves. What is claimed ends by result, whenever it was due. */
export function waitingRecipients(trx: Knex.Transaction): Knex.QueryBuilder {
	return trx('queue').whereNull('held_at');
}

/**
 * Forgets nodes that were silent too long and gives back their claims (several machines on PostgreSQL); also what a node that
 * nobody knows has held for longer than a try may take.
 */
export async function releaseSilentClaims(trx: Knex.Transaction, silentSince: string, now: string): Promise<number> {
	const dead = trx('nodes').select('id').where('seen_at', '<', silentSince);
	const theirs = trx('claims')
		.whereIn('claimed_by', dead)
		.orWhere(claim => claim.where('until', '<=', now).whereNotIn('claimed_by', trx('nodes').select('id')));
	const released = await endCutOff(trx, theirs, now);
	const gone = await trx('nodes').where('seen_at', '<', silentSince).delete();
	await (gone > 0 && removeGoneQueueWaits(trx));
	return released;
}

/** Gives back the copies that this daemon holds and does not know of, by id. Answers their lanes. */
export async function releaseUnknownClaims(
	trx: Knex.Transaction,
	boot: string,
	known: readonly string[],
	now: string,
): Promise<QueueKey[]> {
	const released: Array<{recipient_id: string}> = await releaseUnknown(trx, recipientClaims, boot, known, now);
	if (released.length === 0) {
		return [];
	}
	const ids = released.map(({recipient_id: id}) => id);
	return await trx('queue')
		.whereRaw(...among(trx, 'recipient_id', ids))
		.distinct('destination', 'workspace_id as workspaceId');
}
