import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import {idTime} from '../../mail/ids.ts';
import type {RecipientState} from '../../mail/recipient-state.ts';
import {nearIds} from '../engine/near-ids.ts';
import {stateOf} from './claimed-state.ts';
import {type QueueFilter, queuePart, queueParts} from './queue-parts.ts';

/** One copy that waits. */
export type QueuedRecipient = {
	readonly id: string;
	readonly workspace_id: string;
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

export type QueueListing = QueueFilter & {
	/** Only what an operator holds. */
	readonly held?: boolean | undefined;
	/** Only to these destinations. */
	readonly destinations?: readonly string[] | undefined;
	readonly limit: number;
};

/** Copies in the queue, those due first at the top. */
export async function listQueue(reader: Knex, listing: QueueListing): Promise<QueuedRecipient[]> {
	const {held, destinations, limit, ...filter} = listing;
	const rows: Array<Omit<QueuedRecipient, 'accepted_at'>> = [];
	for (const part of held ? (['held'] as const) : queueParts) {
		const first = queuePart(reader, part, filter).orderBy(['q.next_attempt_at', 'q.recipient_id']).limit(limit);
		if (destinations !== undefined) {
			first.whereIn('q.destination', destinations);
		}
		const found: typeof rows = await reader
			.from(first.select('q.*').as('f'))
			.join('recipients as r', 'r.id', 'f.recipient_id')
			.leftJoin('claims as c', 'c.recipient_id', 'f.recipient_id')
			.select('r.id', 'r.workspace_id', 'r.message_id', 'r.address', 'r.destination', 'r.attempts')
			.select(reader.raw(`${stateOf('r')} as state`))
			.select('f.next_attempt_at', 'c.claimed_by', 'f.held_at', 'r.last_reply');
		rows.push(...found);
	}
	return rows
		.sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1))
		.slice(0, limit)
		.map(row => ({...row, accepted_at: storeTime(idTime(row.message_id))}));
}

const orderOf = ({next_attempt_at: due, id}: {readonly next_attempt_at: string; readonly id: string}) => due + id;

/** The ids of all copies in the queue that the filter means. */
export async function findWaiting(reader: Knex, filter: QueueFilter): Promise<string[]> {
	const parts = await Promise.all(
		queueParts.map(part => queuePart(reader, part, filter).pluck('q.recipient_id') as Promise<string[]>),
	);
	return parts.flat().sort();
}

/** A copy that an id names, its own or its message's, in the queue or not. */
export type NamedRecipient = {readonly id: string; readonly message_id: string; readonly waits: boolean};

const idsAtOnce = 500;

/** The copies that these ids (`rcp_…`, `msg_…`) name; of one workspace, or of all. */
export async function findNamed(
	reader: Knex,
	ids: readonly string[],
	workspaceId: string | undefined,
): Promise<NamedRecipient[]> {
	const found: NamedRecipient[] = [];
	for (let from = 0; from < ids.length; from += idsAtOnce) {
		const some = ids.slice(from, from + idsAtOnce);
		for (const column of ['r.id', 'r.message_id']) {
			const query = reader('recipients as r')
				.leftJoin('queue as q', 'q.recipient_id', 'r.id')
				.whereIn(column, some)
				.whereRaw(...nearIds(reader, 'r.id', 'rcp', some))
				.select('r.id', 'r.message_id', 'q.recipient_id as queued');
			const rows: Array<{id: string; message_id: string; queued: string | null}> = await (workspaceId === undefined
				? query
				: query.where('r.workspace_id', workspaceId));
			found.push(...rows.map(({queued, ...row}) => ({...row, waits: queued !== null})));
		}
	}
	return found;
}
