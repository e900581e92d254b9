import type {Knex} from 'knex';
import type {Role} from '../mail/message.ts';
import {type RecipientState, statesBefore} from '../mail/recipient-state.ts';
import {lockLate} from './engine/dialect.ts';
import {insertRows} from './engine/insert-rows.ts';
import {nearIds} from './engine/near-ids.ts';
import {listState, type MovedRecipient} from './message-terms.ts';
import {dequeue, enqueue, lockOpen} from './queue/open-recipients.ts';
import {storeQueued, takeQueued} from './queue/queued-events.ts';

/** A copy of a new message; times in the store's form. */
export type NewRecipient = {
	readonly id: string;
	readonly workspaceId: string;
	readonly messageId: string;
	/** As the caller spelled it. */
	readonly address: string;
	readonly addressKey: string;
	readonly role: Role;
	/** The address's domain in A-labels. */
	readonly destination: string;
	readonly state: RecipientState;
	readonly stateAt: string;
	/** Null: never, it is final already. */
	readonly nextAttemptAt: string | null;
};

export async function insertRecipients(trx: Knex.Transaction, recipients: readonly NewRecipient[]): Promise<void> {
	await insertRows(
		trx,
		'recipients',
		[
			'id',
			'workspace_id',
			'message_id',
			'address',
			'address_key',
			'role',
			'destination',
			'state',
			'state_at',
			'attempts',
			'crashes',
		],
		recipients.map(one => [
			one.id,
			one.workspaceId,
			one.messageId,
			one.address,
			one.addressKey,
			one.role,
			one.destination,
			one.state,
			one.stateAt,
			0,
			0,
		]),
	);
	await enqueue(
		trx,
		recipients.flatMap(({id, nextAttemptAt, ...one}) =>
			nextAttemptAt === null ? [] : [{...one, recipientId: id, nextAttemptAt}],
		),
	);
}

/**
 * Moves the copies whose state allows it (compare-and-set) and takes them out of the queue; answers their ids. A copy that
 * is being tried keeps its claim: the end of its try is recorded, and cannot undo this.
 */
export async function moveRecipients(
	trx: Knex.Transaction,
	ids: readonly string[],
	to: RecipientState,
	at: string,
): Promise<Set<string>> {
	const queued = await takeQueued(trx, ids);
	await lockOpen(trx, ids);
	// And what was claimed until the queue was locked.
	await storeQueued(trx, [...queued, ...(await takeQueued(trx, ids, lockLate))]);
	const rows: Array<MovedRecipient & {id: string}> = await trx('recipients')
		.whereIn('id', ids)
		.whereIn('state', statesBefore(to))
		.update({state: to, state_at: at})
		.returning(['id', 'workspace_id', 'message_id', 'role']);
	await listState(trx, rows, to);
	const moved = rows.map(({id}) => id);
	await dequeue(trx, moved);
	return new Set(moved);
}

/** The copy of a message for an address, which stays as it is until the transaction ends; undefined: it is gone, or was erased. */
export async function findRecipientFor(
	trx: Knex.Transaction,
	{messageId, addressKey, role}: {readonly messageId: string; readonly addressKey: string; readonly role: Role},
): Promise<string | undefined> {
	const row = await trx('recipients')
		.where({message_id: messageId, address_key: addressKey, role})
		.whereRaw(...nearIds(trx, 'id', 'rcp', [messageId]))
		.forShare()
		.first('id');
	return row?.id;
}
