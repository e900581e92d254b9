import type {Knex} from 'knex';
import {idFloor} from '../../mail/ids.ts';

/** Which copies of the queue are meant; what is left out does not matter. */
export type QueueFilter = {
	readonly workspaceId?: string | undefined;
	readonly destination?: string | undefined;
	/** Accepted before, milliseconds. */
	readonly before?: number | undefined;
};

/** The queue is two partial indexes, of copies that come due by themselves and of held ones. */
export type QueuePart = 'due' | 'held';

export const queueParts = ['due', 'held'] as const satisfies readonly QueuePart[];

/** The copies of one part of the queue, as `q`. */
export function queuePart(
	reader: Knex,
	part: QueuePart,
	{workspaceId, destination, before}: QueueFilter = {},
): Knex.QueryBuilder {
	const query = reader('queue as q');
	if (part === 'due') {
		query.whereNull('q.held_at');
	} else {
		query.whereNotNull('q.held_at');
	}
	if (workspaceId !== undefined) {
		query.where('q.workspace_id', workspaceId);
	}
	if (destination !== undefined) {
		query.where('q.destination', destination);
	}
	if (before !== undefined) {
		query.where('q.recipient_id', '<', idFloor('rcp', before));
	}
	return query;
}
