import type {Knex} from 'knex';
import {idFloor} from '../mail/ids.ts';
import type {Mode} from '../mail/message.ts';
import type {RecipientState} from '../mail/recipient-state.ts';

export type MessageFilter = {
	readonly workspaceId: string;
	readonly status?: RecipientState | undefined;
	/** Comparison forms (mail/address.ts). */
	readonly toKey?: string | undefined;
	readonly fromKey?: string | undefined;
	/** Half-open range of acceptance, milliseconds. */
	readonly since?: number | undefined;
	readonly until?: number | undefined;
	readonly limit: number;
};

/** A line of `mailctl message list`. */
export type ListedMessage = {
	readonly id: string;
	readonly mode: Mode;
	readonly status: RecipientState;
	readonly from: string;
	readonly to: string;
	readonly subject: string | null;
	readonly created_at: string;
};

/** Newest first, read along the index of the narrowest filter: one address, then the status, then the workspace. */
export async function listMessages(reader: Knex, filter: MessageFilter): Promise<ListedMessage[]> {
	return await messageListQuery(reader, filter);
}

export function messageListQuery(reader: Knex, filter: MessageFilter): Knex.QueryBuilder {
	const {workspaceId, status, toKey, fromKey, since, until, limit} = filter;
	// `recipients_by_state` ends in the message's id; the other indexes are of `messages`.
	const byState = status !== undefined && toKey === undefined && fromKey === undefined;
	const id = byState ? 'r.message_id' : 'm.id';
	const query = byState
		? reader('recipients as r').join('messages as m', 'm.id', 'r.message_id').where('r.workspace_id', workspaceId)
		: reader('messages as m').join('recipients as r', 'r.message_id', 'm.id').where('m.workspace_id', workspaceId);
	query
		.whereRaw("r.role = 'to'")
		.orderBy(id, 'desc')
		.limit(limit)
		.select('m.id', 'm.mode', 'r.state as status', 'm.from_address as from', 'm.to_address as to', 'r.subject')
		.select('m.created_at');
	if (status !== undefined) {
		query.where('r.state', status);
	}
	if (toKey !== undefined) {
		query.where('m.to_key', toKey);
	}
	if (fromKey !== undefined) {
		query.where('m.from_key', fromKey);
	}
	if (since !== undefined) {
		query.where(id, '>=', idFloor('msg', since));
	}
	if (until !== undefined) {
		query.where(id, '<', idFloor('msg', until));
	}
	return query;
}
