import type {Knex} from 'knex';
import {type QueueFilter, queuePart, queueParts} from './queue-parts.ts';

/** The ids of all copies in the queue that the filter means. */
export async function findWaiting(reader: Knex, filter: QueueFilter): Promise<string[]> {
	const parts = await Promise.all(
		queueParts.map(part => queuePart(reader, part, filter).pluck('id') as Promise<string[]>),
	);
	return parts.flat().sort();
}

/** A copy that an id names, its own or its message's, in the queue or not. */
export type NamedCopy = {readonly id: string; readonly message_id: string; readonly waits: boolean};

const idsAtOnce = 500;

/** The copies that these ids (`rcp_…`, `msg_…`) name; of one workspace, or of all. */
export async function findNamed(
	reader: Knex,
	ids: readonly string[],
	workspaceId: string | undefined,
): Promise<NamedCopy[]> {
	const found: NamedCopy[] = [];
	for (let from = 0; from < ids.length; from += idsAtOnce) {
		const some = ids.slice(from, from + idsAtOnce);
		for (const column of ['id', 'message_id']) {
			const query = reader('recipients').whereIn(column, some).select('id', 'message_id', 'next_attempt_at');
			const rows: Array<{id: string; message_id: string; next_attempt_at: string | null}> = await (workspaceId ===
			undefined
				? query
				: query.where('workspace_id', workspaceId));
			found.push(...rows.map(({next_attempt_at: next, ...row}) => ({...row, waits: next !== null})));
		}
	}
	return found;
}
