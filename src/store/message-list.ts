import type {Knex} from 'knex';
import type {Mode} from '../mail/message.ts';
import type {RecipientState} from '../mail/recipient-state.ts';
import {type MessageFilter, scanMessages} from './message-scan.ts';

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

const linesAtOnce = 500;

/** The newest messages that match, newest first. */
export async function listMessages(reader: Knex, filter: MessageFilter, limit: number): Promise<ListedMessage[]> {
	const lines: ListedMessage[] = [];
	let after: string | null = null;
	do {
		const {ids, next} = await scanMessages(reader, filter, {after, limit: Math.min(limit - lines.length, linesAtOnce)});
		lines.push(...(await readLines(reader, ids)));
		after = next;
	} while (after !== null && lines.length < limit);
	return lines;
}

async function readLines(reader: Knex, ids: readonly string[]): Promise<ListedMessage[]> {
	if (ids.length === 0) {
		return [];
	}
	return await reader('messages as m')
		.join('recipients as r', 'r.message_id', 'm.id')
		.whereRaw("r.role = 'to'")
		.whereIn('m.id', ids)
		.orderBy('m.id', 'desc')
		.select('m.id', 'm.mode', 'r.state as status', 'm.from_address as from', 'm.to_address as to', 'r.subject')
		.select('m.created_at');
}
