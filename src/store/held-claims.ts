import {setTimeout as delay} from 'node:timers/promises';
import type {Knex} from 'knex';
import type {QueueKey} from '../mail/route.ts';
import {rowSource} from './engine/dialect.ts';
import {among} from './engine/rows.ts';
import {loseNodes} from './nodes.ts';
import {namedPriority, removeGoneQueueWaits} from './queue/open-recipients.ts';
import {endClaims, endCutOff} from './timeline.ts';

/** What daemons claim: rows of a table with a `claimed_by` column. The properties are what differs between tables. */
export type Claimable = {
	readonly table: string;
	/** An SQL expression for the name by which a daemon knows its claim. */
	readonly name: string;
	/** Releases the claims of these rows at `now`: they are due again, for any daemon. */
	readonly giveBack: (trx: Knex.Transaction, claims: Knex.QueryBuilder, now: string) => PromiseLike<number>;
	/** Releases the claims of a daemon that died during its work. */
	readonly giveBackOfDead: (trx: Knex.Transaction, claims: Knex.QueryBuilder, now: string) => PromiseLike<number>;
	/** The columns that identify where work is waiting again. */
	readonly identifiedBy: readonly string[];
};

/** Releases all claims of other daemons. On SQLite, the lock of the folder proves that those daemons are dead. */
export async function releaseOthers(
	trx: Knex.Transaction,
	kind: Claimable,
	boot: string,
	now: string,
): Promise<number> {
	return await kind.giveBackOfDead(trx, trx(kind.table).whereNotNull('claimed_by').whereNot('claimed_by', boot), now);
}

/** Releases the claims that this daemon still holds when it stops. */
export async function releaseOwn(trx: Knex.Transaction, kind: Claimable, boot: string, now: string): Promise<number> {
	return await kind.giveBack(trx, trx(kind.table).where({claimed_by: boot}), now);
}

/**
 * Releases claims of this daemon that it does not know (`known` has the names of the others): they were committed, but
 * the response to the commit never arrived. Returns where work is waiting again.
 */
export async function releaseUnknown<Identity>(
	trx: Knex.Transaction,
	kind: Claimable,
	boot: string,
	known: readonly string[],
	now: string,
): Promise<Identity[]> {
	const query = trx(kind.table).where({claimed_by: boot});
	if (known.length > 0) {
		const {sql, bindings} = rowSource(
			trx,
			known.map(name => [name]),
			1,
		);
		query.whereRaw(`${kind.name} not in (select v.column1 from (${sql}) as v)`, bindings as Knex.RawBinding[]);
	}
	const released = await query.clone().select([...kind.identifiedBy]);
	await kind.giveBack(trx, query, now);
	return released as Identity[];
}

/** Makes rows due that would wait longer than any wait can be, because the clock was set back. */
export async function bringForward(rows: Knex.QueryBuilder, latest: string, now: string): Promise<number> {
	return await rows.where('next_attempt_at', '>', latest).update({next_attempt_at: now});
}

/** The pause before the next attempt to write to a failing store, in milliseconds. */
export const storeRetryMs = 1000;

export type HeldClaimsOptions<Released> = {
	/** Releases claims of this daemon other than the named ones. */
	readonly releaseUnknown: (known: () => readonly string[]) => Promise<Released>;
	/** Called if the store could not be written. The release is tried again. */
	readonly onStoreError: (error: unknown) => void;
};

/** The claims that this process knows, by name, and whether the store may hold others for it. */
export function createHeldClaims<Released>({releaseUnknown: release, onStoreError}: HeldClaimsOptions<Released>) {
	const names = new Set<string>();
	let mayHaveUnknown = false;

	return {
		/**
		 * Returns `false` if it is already in progress: another node may have released the claim before this one took
		 * it again.
		 */
		take(name: string): boolean {
			const isNew = !names.has(name);
			names.add(name);
			return isNew;
		},

		/** Called when the result is stored, or the claim is to be released. */
		end: (name: string): void => void names.delete(name),

		/** Notes that the store may hold claims unknown to this process: a failed claim may have been committed. */
		markDoubtful(): void {
			mayHaveUnknown = true;
		},

		get isDoubtful(): boolean {
			return mayHaveUnknown;
		},

		/** Releases claims unknown to this process. Returns `null` if the store failed; it may be tried again now. */
		async releaseUnknown(): Promise<Released | null> {
			mayHaveUnknown = false;
			try {
				return await release(() => [...names]);
			} catch (error) {
				onStoreError(error);
				await delay(storeRetryMs);
				mayHaveUnknown = true;
				return null;
			}
		},
	};
}

/** Claims of recipients. A claim does not change the row in the queue, so without the claim it is due as before. */
export const recipientClaims: Claimable = {
	table: 'claims',
	name: 'recipient_id',
	giveBack: endClaims,
	giveBackOfDead: endCutOff,
	identifiedBy: ['recipient_id'],
};

/**
 * Queries recipients that are neither held nor scheduled for later than `now`. A claim ends with its result, whenever
 * the recipient was due.
 */
export function waitingRecipients(trx: Knex.Transaction, now: string): Knex.QueryBuilder {
	return trx('queue').whereNull('held_at').whereRaw('(send_at is null or send_at <= ?)', [now]);
}

/**
 * Removes nodes that were silent for too long and releases their claims (several machines on PostgreSQL). Also releases
 * claims of unknown nodes that are older than an attempt may take.
 */
export async function releaseSilentClaims(trx: Knex.Transaction, silentSince: string, now: string): Promise<number> {
	const dead = trx('nodes').select('id').where('seen_at', '<', silentSince);
	const lostClaims = trx('claims')
		.whereIn('claimed_by', dead)
		.orWhere(claim => claim.where('until', '<=', now).whereNotIn('claimed_by', trx('nodes').select('id')));
	const released = await endCutOff(trx, lostClaims, now);
	const removed = await loseNodes(trx, nodes => nodes.where('seen_at', '<', silentSince), now);
	await (removed > 0 && removeGoneQueueWaits(trx));
	return released;
}

/** Releases recipients that this daemon has claimed but does not know, by id. Returns their destination queues. */
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
		.distinct('destination', 'workspace_id as workspaceId', trx.raw(`${namedPriority} as priority`));
}
