import type {Knex} from 'knex';
import {type LaneKey, laneText} from '../../mail/way.ts';
import {rowSource} from '../engine/dialect.ts';
import {removeGoneLaneWaits} from './lane-waits.ts';

/** A copy that a report ended during its try has left the queue, and stays out of it. */
const givenBack = (trx: Knex.Transaction, now: string) => ({
	claimed_by: null,
	next_attempt_at: trx.raw('case when next_attempt_at is not null then ? end', [now]),
});

/** Gives back every claim that is not this daemon's: on SQLite the folder's lock says that their daemons are dead. */
export async function releaseOtherClaims(trx: Knex.Transaction, boot: string, now: string): Promise<number> {
	return await trx('recipients').whereNotNull('claimed_by').whereNot('claimed_by', boot).update(givenBack(trx, now));
}

/** Forgets nodes that were silent too long and gives back their claims (several machines on PostgreSQL). */
export async function releaseSilentClaims(trx: Knex.Transaction, silentSince: string, now: string): Promise<number> {
	const dead = trx('nodes').select('id').where('seen_at', '<', silentSince);
	const released = await trx('recipients').whereIn('claimed_by', dead).update(givenBack(trx, now));
	const gone = await trx('nodes').where('seen_at', '<', silentSince).delete();
	await (gone > 0 && removeGoneLaneWaits(trx));
	return released;
}

/** Gives back what this daemon still held when it stopped. */
export async function releaseOwnClaims(trx: Knex.Transaction, boot: string, now: string): Promise<number> {
	return await trx('recipients').where({claimed_by: boot}).update(givenBack(trx, now));
}

/**
 * Gives back what this daemon holds and does not know of (`known`: the ids that it does): a claim was committed, and the
 * answer to the commit never came. Answers their lanes.
 */
export async function releaseUnknownClaims(
	trx: Knex.Transaction,
	boot: string,
	known: readonly string[],
	now: string,
): Promise<LaneKey[]> {
	const query = trx('recipients').where({claimed_by: boot});
	if (known.length > 0) {
		const {sql, bindings} = rowSource(
			trx,
			known.map(id => [id]),
			1,
		);
		query.whereRaw(`id not in (select v.column1 from (${sql}) as v)`, bindings as Knex.RawBinding[]);
	}
	const released: Array<{destination: string; workspace_id: string}> = await query
		.update(givenBack(trx, now))
		.returning(['destination', 'workspace_id']);
	const lanes = released.map(({destination, workspace_id: workspaceId}) => ({destination, workspaceId}));
	return [...new Map(lanes.map(lane => [laneText(lane), lane])).values()];
}

/**
 * After the wall clock stepped back: brings forward what waits longer than any wait can be. Claimed copies end by result
 * and are left alone.
 */
export async function bringForward(trx: Knex.Transaction, latest: string, now: string): Promise<number> {
	return await trx('recipients')
		.whereNull('claimed_by')
		.whereNull('held_at')
		.where('next_attempt_at', '>', latest)
		.update({next_attempt_at: now});
}
