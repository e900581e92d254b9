import type {Knex} from 'knex';
import {idFloor} from '../../mail/ids.ts';

/** Which copies of the queue are meant; what is left out does not matter. */
export type QueueFilter = {
	readonly workspaceId?: string | undefined;
	readonly destination?: string | undefined;
	/** Accepted before, milliseconds. */
	readonly before?: number | undefined;
};

/**
 * The queue is two partial indexes, of copies that come due by themselves and of held ones: a query on both at once would
 * read every copy there ever was.
 */
export type QueuePart = 'due' | 'held';

export const queueParts = ['due', 'held'] as const satisfies readonly QueuePart[];

/** The copies of one part of the queue, as `recipients`. */
export function queuePart(reader: Knex, part: QueuePart, filter: QueueFilter = {}): Knex.QueryBuilder {
	const {workspaceId, destination, before} = filter;
	const query = reader('recipients').whereNotNull('next_attempt_at');
	if (part === 'due') {
		query.whereNull('held_at');
	} else {
		query.whereNotNull('held_at');
	}
	if (workspaceId !== undefined) {
		query.where('workspace_id', workspaceId);
	}
	if (destination !== undefined) {
		query.where('destination', destination);
	}
	if (before !== undefined) {
		// As an expression: along an index of it SQLite would read every copy there ever was.
		query.whereRaw("message_id || '' < ?", [idFloor('msg', before)]);
	}
	return query;
}
