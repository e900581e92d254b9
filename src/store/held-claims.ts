import {setTimeout as delay} from 'node:timers/promises';
import type {Knex} from 'knex';
import type {QueueKey} from '../mail/route.ts';
import {rowSource} from './engine/dialect.ts';
import {among} from './engine/rows.ts';
import {loseNodes} from './nodes.ts';
import {namedPriority, removeGoneQueueWaits} from './queue/open-recipients.ts';
import {endClaims, endCutOff} from './timeline.ts';

/** What daemons claim: rows of a table with `claimed_by`. The rest differs. */
export type Claimable = {
	readonly table: string;
	/** The name under which a daemon knows what it claimed, as SQL. */
	readonly name: string;
	/** Gives back the claims of these rows at `now`: what was claimed is due again, for any daemon. */
	readonly giveBack: (trx: Knex.Transaction, claims: Knex.QueryBuilder, now: string) => PromiseLike<number>;
	/** The same where the daemon died in the midst of its work. */
	readonly giveBackOfDead: (trx: Knex.Transaction, claims: Knex.QueryBuilder, now: string) => PromiseLike<number>;
	/** Columns that identify what has work again. */
	readonly identifiedBy: readonly string[];
};

/** Gives back every claim that is not this daemon's: on SQLite the folder's lock says that their daemons are dead. */
export async function releaseOthers(trx: Knex.Transaction, of: Claimable, boot: string, now: string): Promise<number> {
	return await of.giveBackOfDead(trx, trx(of.table).whereNotNull('claimed_by').whereNot('claimed_by', boot), now);
}

/** Gives back what this daemon still held when it stopped. */
export async function releaseOwn(trx: Knex.Transaction, of: Claimable, boot: string, now: string): Promise<number> {
	return await of.giveBack(trx, trx(of.table).where({claimed_by: boot}), now);
}

/**
 * Gives back what this daemon holds and does not know of (`known`: the names that it does): a claim was committed, and
 * the answer to the commit never came. Answers what has work again.
 */
export async function releaseUnknown<Told>(
	trx: Knex.Transaction,
	of: Claimable,
	boot: string,
	known: readonly string[],
	now: string,
): Promise<Told[]> {
	const query = trx(of.table).where({claimed_by: boot});
	if (known.length > 0) {
		const {sql, bindings} = rowSource(
			trx,
			known.map(name => [name]),
			1,
		);
		query.whereRaw(`${of.name} not in (select v.column1 from (${sql}) as v)`, bindings as Knex.RawBinding[]);
	}
	const released = await query.clone().select([...of.identifiedBy]);
	await of.giveBack(trx, query, now);
	return released as Told[];
}

/** After the wall clock stepped back: brings forward those of the rows that wait longer than any wait can be. */
export async function bringForward(rows: Knex.QueryBuilder, latest: string, now: string): Promise<number> {
	return await rows.where('next_attempt_at', '>', latest).update({next_attempt_at: now});
}

/** Pause before a failing store is asked again, milliseconds. */
export const storeRetryMs = 1000;

export type HeldClaimsOptions<Released> = {
	/** Gives back claims of this daemon other than those named. */
	readonly releaseUnknown: (known: () => readonly string[]) => Promise<Released>;
	/** The store could not be written; it is tried again. */
	readonly onStoreError: (error: unknown) => void;
};

/** The claims that this process knows, by name, and whether the store may hold others for it. */
export function createHeldClaims<Released>({releaseUnknown: release, onStoreError}: HeldClaimsOptions<Released>) {
	const names = new Set<string>();
	let doubtful = false;

	return {
		/** False: it is being tried already. Another node may give a claim back, which then comes to us again. */
		take(name: string): boolean {
			const isNew = !names.has(name);
			names.add(name);
			return isNew;
		},

		/** Its result is stored, or it is to be released. */
		end: (name: string): void => void names.delete(name),

		/** The store may hold claims for us that we do not know: a claim may have been committed though it failed. */
		doubt(): void {
			doubtful = true;
		},

		get isDoubtful(): boolean {
			return doubtful;
		},

		/** Releases claims that this process does not track; null: the store failed, and may be asked again now. */
		async releaseUnknown(): Promise<Released | null> {
			doubtful = false;
			try {
				return await release(() => [...names]);
			} catch (error) {
				onStoreError(error);
				await delay(storeRetryMs);
				doubtful = true;
				return null;
			}
		},
	};
}

/** Claims of recipients. A claim leaves the row in the queue as it is: without the claim it is due as before. */
export const recipientClaims: Claimable = {
	table: 'claims',
	name: 'recipient_id',
	giveBack: endClaims,
	giveBackOfDead: endCutOff,
	identifiedBy: ['recipient_id'],
};

/**
 * Recipients that are neither held nor scheduled for later than `now`. A claimed one ends by its result, whenever it
 * was due.
 */
export function waitingRecipients(trx: Knex.Transaction, now: string): Knex.QueryBuilder {
	return trx('queue').whereNull('held_at').whereRaw('(send_at is null or send_at <= ?)', [now]);
}

/**
 * Removes nodes that were silent too long and releases their claims (several machines on PostgreSQL); also claims of
 * unknown nodes that are older than an attempt may take.
 */
export async function releaseSilentClaims(trx: Knex.Transaction, silentSince: string, now: string): Promise<number> {
	const dead = trx('nodes').select('id').where('seen_at', '<', silentSince);
	const theirs = trx('claims')
		.whereIn('claimed_by', dead)
		.orWhere(claim => claim.where('until', '<=', now).whereNotIn('claimed_by', trx('nodes').select('id')));
	const released = await endCutOff(trx, theirs, now);
	const gone = await loseNodes(trx, nodes => nodes.where('seen_at', '<', silentSince), now);
	await (gone > 0 && removeGoneQueueWaits(trx));
	return released;
}

/** Releases recipients that this daemon has claimed and does not track, by id. Returns their destination queues. */
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
