import type {Knex} from 'knex';
import type {Role} from '../mail/message.ts';
import type {Asked, Phase} from '../mail/outcome.ts';
import type {RecipientState} from '../mail/recipient-state.ts';
import {nearIds} from './engine/near-ids.ts';
import {shown, stateColumns, stateOf} from './queue/claimed-state.ts';

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
export type ListedRecipient = {
	readonly id: string;
	readonly address: string;
	readonly role: Role;
	readonly state: RecipientState;
	readonly state_at: string;
	readonly next_attempt_at: string | null;
	readonly last_reply: string | null;
};

export type StoredRecipient = ListedRecipient & {readonly attempts: readonly StoredAttempt[]};

/** A message's copies, the `to` one first. */
export async function listRecipients(reader: Knex, workspaceId: string, messageId: string): Promise<ListedRecipient[]> {
	const rows = await reader('recipients as r')
		.leftJoin('queue as q', 'q.recipient_id', 'r.id')
		.where({'r.message_id': messageId, 'r.workspace_id': workspaceId})
		.whereRaw(...nearIds(reader, 'r.id', 'rcp', [messageId]))
		.orderBy([{column: 'r.role', order: 'desc'}, {column: 'r.id'}])
		.select('r.id', 'r.address', 'r.role', reader.raw(stateColumns('r')), 'q.next_attempt_at', 'r.last_reply');
	return rows.map(shown) as ListedRecipient[];
}

/** The same, each with its attempts in order. */
export async function readRecipients(reader: Knex, workspaceId: string, messageId: string): Promise<StoredRecipient[]> {
	const recipients = await listRecipients(reader, workspaceId, messageId);
	const attempts = await readAttempts(
		reader,
		recipients.map(({id}) => id),
	);
	return recipients.map(recipient => ({
		...recipient,
		attempts: attempts.filter(attempt => attempt.recipient_id === recipient.id),
	}));
}

/** Every conversation about these copies, copy by copy, each in order. */
export async function readAttempts(reader: Knex, recipientIds: readonly string[]): Promise<StoredAttempt[]> {
	return await reader('attempts')
		.whereIn('recipient_id', recipientIds)
		.orderBy(['recipient_id', 'n', 'position'])
		.select('recipient_id', 'n', 'at', 'host', 'ip', 'tls', 'phase', 'code', 'enhanced', 'reply', 'ms', 'dialogue');
}

/** More than the addresses of nearly every domain. */
const mostAsked = 50;

/** Whom the tries of a copy asked, in order, the last ones. Tries that asked nobody have no row with a host. */
export async function readAsked(reader: Knex, recipientId: string): Promise<Asked[]> {
	const asked: Asked[] = await reader('attempts')
		.where({recipient_id: recipientId})
		.whereNotNull('host')
		.orderBy([
			{column: 'n', order: 'desc'},
			{column: 'position', order: 'desc'},
		])
		.limit(mostAsked)
		.select('n', 'host', 'ip', 'phase', 'code');
	return asked.reverse();
}

/** A conversation with the copy that it is about; the id tells its place among those of the message. */
export type ListedAttempt = Omit<StoredAttempt, 'dialogue' | 'ip'> & {
	readonly id: string;
	readonly recipient: Pick<ListedRecipient, 'id' | 'address' | 'role'>;
};

/** The conversations about copies, copy by copy, each in order, from after the one with the id `after`. */
export async function pageAttempts(
	reader: Knex,
	recipients: ReadonlyArray<ListedAttempt['recipient']>,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<ListedAttempt[]> {
	const [begun = '', n, position] = after?.split(' ') ?? [];
	const found: ListedAttempt[] = [];
	for (const recipient of recipients.slice(
		Math.max(
			0,
			recipients.findIndex(({id}) => id === begun),
		),
	)) {
		const query = reader('attempts')
			.where({recipient_id: recipient.id})
			.orderBy(['n', 'position'])
			.limit(limit - found.length)
			.select('recipient_id', 'n', 'position', 'at', 'host', 'tls', 'phase', 'code', 'enhanced', 'reply', 'ms');
		if (recipient.id === begun) {
			query.whereRaw('(n, position) > (?, ?)', [Number(n), Number(position)]);
		}
		for (const row of await query) {
			found.push({...row, recipient, id: `${recipient.id} ${row.n} ${row.position}`});
		}
		if (found.length === limit) {
			break;
		}
	}
	return found;
}

/** The state of a message's `to` copy, and whether it is still in the queue. */
export async function readStatus(
	reader: Knex,
	messageId: string,
): Promise<{readonly state: RecipientState; readonly waiting: boolean} | undefined> {
	const row = await reader('recipients as r')
		.leftJoin('queue as q', 'q.recipient_id', 'r.id')
		.where({'r.message_id': messageId, 'r.role': 'to'})
		.whereRaw(...nearIds(reader, 'r.id', 'rcp', [messageId]))
		.first(reader.raw(`${stateOf('r')} as state`), 'q.next_attempt_at');
	return row && {state: row.state, waiting: row.next_attempt_at !== null};
}
