import type {Knex} from 'knex';
import {type LaneKey, laneText} from '../../mail/way.ts';
import {type Claimable, giveBack, releaseUnknown} from '../held-claims.ts';
import {removeGoneLaneWaits} from './lane-waits.ts';

/** Copies. One that a report ended during its try has left the queue, and stays out of it. */
export const copyClaims: Claimable = {
	table: 'recipients',
	name: 'id',
	dueAgain: 'case when next_attempt_at is not null then :now end',
	mayMove: 'held_at is null',
	owner: ['destination', 'workspace_id'],
};

/** Forgets nodes that were silent too long and gives back their claims (several machines on PostgreSQL). */
export async function releaseSilentClaims(trx: Knex.Transaction, silentSince: string, now: string): Promise<number> {
	const dead = trx('nodes').select('id').where('seen_at', '<', silentSince);
	const released = await giveBack(trx, trx(copyClaims.table).whereIn('claimed_by', dead), copyClaims, now);
	const gone = await trx('nodes').where('seen_at', '<', silentSince).delete();
	await (gone > 0 && removeGoneLaneWaits(trx));
	return released;
}

/** Gives back the copies that this daemon holds and does not know of, by id. Answers their lanes. */
export async function releaseUnknownClaims(
	trx: Knex.Transaction,
	boot: string,
	known: readonly string[],
	now: string,
): Promise<LaneKey[]> {
	const released: Array<{destination: string; workspace_id: string}> = await releaseUnknown(
		trx,
		copyClaims,
		boot,
		known,
		now,
	);
	const lanes = released.map(({destination, workspace_id: workspaceId}) => ({destination, workspaceId}));
	return [...new Map(lanes.map(lane => [laneText(lane), lane])).values()];
}
