import type {Knex} from 'knex';
import type {QueueKey} from '../../mail/route.ts';
import {rowSource} from '../engine/dialect.ts';
import {insertRows} from '../engine/insert-rows.ts';
import {among} from '../engine/near-ids.ts';
import {unanswered} from '../engine/postgres-pipeline.ts';

/*
 * The table `queue` has a row for each copy that waits or is being tried, `claims` one for each that a daemon has. All that
 * change several lock claims first, then the queue, then `recipients`. A claim is made with the copy's row in the queue
 * locked: to see that there is none, lock that row and look again. A claim found then is locked without waiting (`lockLate`).
 */

/** A copy that waits; its time in the store's form. */
export type OpenRecipient = QueueKey & {
	readonly recipientId: string;
	readonly nextAttemptAt: string;
	/** Tries that have ended. */
	readonly attempts: number;
};

/** Puts new copies into the queue. */
export async function enqueue(
	trx: Knex.Transaction,
	recipients: ReadonlyArray<Omit<OpenRecipient, 'attempts'>>,
): Promise<void> {
	await insertRows(
		trx,
		'queue',
		['recipient_id', 'workspace_id', 'destination', 'next_attempt_at'],
		recipients.map(one => [one.recipientId, one.workspaceId, one.destination, one.nextAttemptAt]),
	);
}

/** Moves copies that are in the queue to the times of their next tries. */
export async function postpone(
	trx: Knex.Transaction,
	recipients: ReadonlyArray<Pick<OpenRecipient, 'recipientId' | 'nextAttemptAt' | 'attempts'>>,
): Promise<void> {
	if (recipients.length === 0) {
		return;
	}
	const {sql, bindings} = rowSource(
		trx,
		recipients.map(one => [one.recipientId, one.nextAttemptAt, one.attempts]),
		3,
	);
	await trx
		.raw(
			`update queue set next_attempt_at = v.column2, attempts = cast(v.column3 as integer) from (${sql}) as v
			where queue.recipient_id = v.column1`,
			bindings as Knex.RawBinding[],
		)
		.options(unanswered);
}

/** Takes copies out of the queue. */
export async function dequeue(trx: Knex.Transaction, ids: readonly string[]): Promise<void> {
	if (ids.length === 0) {
		return;
	}
	const [condition, bindings] = among(trx, 'recipient_id', ids);
	// As text: the query builder would take longer than the engine.
	await trx.raw(`delete from queue where ${condition}`, bindings).options(unanswered);
}

/** Those of the copies that are in the queue. Their rows stay as they are until the transaction ends, and nobody claims them. */
export async function lockOpen(trx: Knex.Transaction, ids: readonly string[]): Promise<string[]> {
	return await trx('queue').whereIn('recipient_id', ids).orderBy('recipient_id').forUpdate().pluck('recipient_id');
}
