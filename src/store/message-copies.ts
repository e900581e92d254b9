import type {Knex} from 'knex';
import type {Role} from '../mail/message.ts';
import type {Phase} from '../mail/outcome.ts';
import type {RecipientState} from '../mail/recipient-state.ts';

/** One conversation about a copy, as it was stored. */
export type StoredAttempt = {
	readonly recipient_id: string;
	/** Which try of the copy it belongs to, from 1. */
	readonly n: number;
	readonly at: string;
	readonly host: string | null;
	readonly ip: string | null;
	readonly tls: string | null;
	readonly phase: Phase;
	readonly code: number | null;
	readonly enhanced: string | null;
	readonly reply: string;
	readonly ms: number;
	/** What was said both ways, for people; null: the mail was accepted, or nothing was said. */
	readonly dialogue: string | null;
};

/** A copy of a message: what became of one address. */
export type StoredCopy = {
	readonly id: string;
	readonly address: string;
	readonly role: Role;
	readonly state: RecipientState;
	readonly state_at: string;
	readonly next_attempt_at: string | null;
	readonly last_reply: string | null;
	readonly attempts: readonly StoredAttempt[];
};

/** A message's copies, the `to` one first, each with its attempts in order. */
export async function readCopies(reader: Knex, workspaceId: string, messageId: string): Promise<StoredCopy[]> {
	const copies: StoredCopy[] = await reader('recipients')
		.where({message_id: messageId, workspace_id: workspaceId})
		.orderBy([{column: 'role', order: 'desc'}, {column: 'id'}])
		.select('id', 'address', 'role', 'state', 'state_at', 'next_attempt_at', 'last_reply');
	const ids = copies.map(({id}) => id);
	const attempts: StoredAttempt[] = await reader('attempts')
		.whereIn('recipient_id', ids)
		.orderBy(['recipient_id', 'n', 'position'])
		.select('recipient_id', 'n', 'at', 'host', 'ip', 'tls', 'phase', 'code', 'enhanced', 'reply', 'ms', 'dialogue');
	return copies.map(copy => ({...copy, attempts: attempts.filter(attempt => attempt.recipient_id === copy.id)}));
}

/** The state of a message's `to` copy, and whether it is still in the queue. */
export async function readStatus(
	reader: Knex,
	messageId: string,
): Promise<{readonly state: RecipientState; readonly waiting: boolean} | undefined> {
	const row = await reader('recipients').where({message_id: messageId, role: 'to'}).first('state', 'next_attempt_at');
	return row && {state: row.state, waiting: row.next_attempt_at !== null};
}
