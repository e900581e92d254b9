import type {Knex} from 'knex';
import {idBytes, idFloor} from '../mail/ids.ts';
import type {RecipientState} from '../mail/recipient-state.ts';
import {storeTime} from '../mail/time.ts';

/** What waits for one destination; counts of copies. */
export type QueueSummary = {
	readonly destination: string;
	/** Due now. */
	readonly ready: number;
	/** Due later. */
	readonly deferred: number;
	/** Claimed by a daemon. */
	readonly in_flight: number;
	/** Held by an operator. */
	readonly held: number;
	/** When the oldest one was accepted. */
	readonly oldest: string;
	/** The reply to the copy that was deferred last. */
	readonly last_reply: string | null;
};

type Row = Omit<QueueSummary, 'oldest'> & {readonly oldest_message: string};

const summaryColumns = `
	r.destination,
	cast(sum(case when r.claimed_by is null and r.held_at is null and r.next_attempt_at <= ? then 1 else 0 end) as integer)
		as ready,
	cast(sum(case when r.claimed_by is null and r.held_at is null and r.next_attempt_at > ? then 1 else 0 end) as integer)
		as deferred,
	cast(sum(case when r.claimed_by is not null then 1 else 0 end) as integer) as in_flight,
	cast(sum(case when r.claimed_by is null and r.held_at is not null then 1 else 0 end) as integer) as held,
	min(r.message_id) as oldest_message,
	(select x.last_reply from recipients as x where x.destination = r.destination and x.next_attempt_at is not null
		and x.last_reply is not null order by x.next_attempt_at desc limit 1) as last_reply`;

/** Every destination with mail in the queue, by name; of one workspace, or of all. */
export async function summarizeQueue(
	reader: Knex,
	{now, workspaceId}: {readonly now: string; readonly workspaceId?: string | undefined},
): Promise<QueueSummary[]> {
	const query = reader('recipients as r')
		.select(reader.raw(summaryColumns, [now, now]))
		.whereNotNull('r.next_attempt_at')
		.groupBy('r.destination')
		.orderBy('r.destination');
	const rows: Row[] = await (workspaceId === undefined ? query : query.where('r.workspace_id', workspaceId));
	return rows.map(({oldest_message: oldest, ...row}) => ({...row, oldest: acceptedAt(oldest)}));
}

export type QueueFilter = {
	readonly workspaceId?: string | undefined;
	readonly destination?: string | undefined;
	/** Accepted before, milliseconds. */
	readonly before?: number | undefined;
	readonly limit: number;
};

/** One copy that waits. */
export type QueuedCopy = {
	readonly id: string;
	readonly message_id: string;
	readonly address: string;
	readonly destination: string;
	readonly state: RecipientState;
	readonly attempts: number;
	readonly next_attempt_at: string;
	readonly claimed_by: string | null;
	readonly held_at: string | null;
	readonly last_reply: string | null;
	readonly accepted_at: string;
};

/** Copies in the queue, those due first at the top. */
export async function listQueue(reader: Knex, filter: QueueFilter): Promise<QueuedCopy[]> {
	const {workspaceId, destination, before, limit} = filter;
	const query = reader('recipients')
		.select('id', 'message_id', 'address', 'destination', 'state', 'attempts', 'next_attempt_at', 'claimed_by')
		.select('held_at', 'last_reply')
		.whereNotNull('next_attempt_at')
		.orderBy(['next_attempt_at', 'id'])
		.limit(limit);
	if (workspaceId !== undefined) {
		query.where({workspace_id: workspaceId});
	}
	if (destination !== undefined) {
		query.where({destination});
	}
	if (before !== undefined) {
		query.where('message_id', '<', idFloor('msg', before));
	}
	const rows: Array<Omit<QueuedCopy, 'accepted_at'>> = await query;
	return rows.map(row => ({...row, accepted_at: acceptedAt(row.message_id)}));
}

// A message's id begins with the moment of its acceptance.
function acceptedAt(messageId: string): string {
	return storeTime(idBytes(messageId).readUIntBE(0, 6));
}
