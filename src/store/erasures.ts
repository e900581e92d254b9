import type {Knex} from 'knex';
import {idFloor} from '../mail/ids.ts';
import type {Pair} from './engine/rows.ts';

/**
 * A person who is being erased: their data is not read any more, and the sweep removes it step by step. A row of
 * `erasures`.
 */
export type Erasure = {
	readonly workspaceId: string;
	/** The comparison form of the address. */
	readonly addressKey: string;
	/** Messages from this id on were sent later, and stay. */
	readonly below: string;
};

/**
 * Marks a person for erasure; one who is already marked is erased up to now. `createdAt` is the time of the first
 * request.
 */
export async function insertErasure(
	trx: Knex.Transaction,
	{workspaceId, addressKey, below}: Erasure,
	createdAt: string,
): Promise<void> {
	await trx('erasures')
		.insert({workspace_id: workspaceId, address_key: addressKey, below, created_at: createdAt})
		.onConflict(['workspace_id', 'address_key'])
		.merge(['below']);
}

export async function findErasure(reader: Knex, [workspaceId, addressKey]: Pair): Promise<Erasure | undefined> {
	const row = await reader('erasures').where({workspace_id: workspaceId, address_key: addressKey}).first('below');
	return row && {workspaceId, addressKey, below: row.below};
}

/** Returns an erasure that was requested before a time. */
export async function findErasureBefore(reader: Knex, moment: string): Promise<Erasure | undefined> {
	return await reader('erasures')
		.where('created_at', '<', moment)
		.orderBy('created_at')
		.first({workspaceId: 'workspace_id', addressKey: 'address_key', below: 'below'});
}

/** Finishes an erasure, unless it was requested again since it was read. */
export async function deleteErasure(trx: Knex.Transaction, {workspaceId, addressKey, below}: Erasure): Promise<void> {
	await trx('erasures').where({workspace_id: workspaceId, address_key: addressKey, below}).delete();
}

/** Returns the id below which a request at this time (milliseconds) erases messages. */
export const belowOf = (now: number): string => idFloor('msg', now + 1);

/** An SQL condition on messages, by the table's name: their recipient is not being erased. */
export const isReadable = (messages: string): string => `not exists (select 1 from erasures as pending
	where pending.workspace_id = ${messages}.workspace_id and pending.address_key = ${messages}.to_key and ${messages}.id < pending.below)`;

/** An SQL condition on `received`: nobody in its `from` or `to` is being erased. */
export const isReadableMail = `not exists (select 1 from erasures as pending join received_terms as named
	on named.workspace_id = pending.workspace_id and named.term in ('from:' || pending.address_key, 'to:' || pending.address_key)
	where pending.workspace_id = received.workspace_id and named.received_id = received.id)`;

/** Returns those of the messages whose recipient is being erased. */
export async function findHidden(reader: Knex, messageIds: readonly string[]): Promise<ReadonlySet<string>> {
	// Usually nobody is being erased.
	if (messageIds.length === 0 || (await reader('erasures').first('below')) === undefined) {
		return new Set();
	}
	const hidden: string[] = await reader('messages')
		.whereIn('id', messageIds)
		.whereRaw(`not (${isReadable('messages')})`)
		.pluck('id');
	return new Set(hidden);
}
