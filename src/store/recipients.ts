import type {Knex} from 'knex';
import {type Priority, type Recipient, type RecipientState, type Role, statesBefore} from '../mail/message.ts';
import type {Attempt, PreviousAttempt} from '../mail/outcome.ts';
import {lockLate, queryRows, type Row, rowSource} from './engine/dialect.ts';
import {createdNearIds, insertRows, toColumns} from './engine/rows.ts';
import {listState} from './message-terms.ts';
import type {Claimed} from './queue/claims.ts';
import {dequeue, enqueue, lockOpen, type Waiting} from './queue/open-recipients.ts';
import {stateColumns, stateOf, storeQueued, takeQueued, withCurrentState} from './timeline.ts';

const newColumns = toColumns('id workspace_id message_id address address_key role destination state state_at');

/** Inserts the recipients of new messages, and enqueues those that have a next attempt. */
export async function insertRecipients(trx: Knex.Transaction, recipients: readonly NewRecipient[]): Promise<void> {
	await insertRows(trx, 'recipients', [...newColumns.names, 'attempts', 'crashes'], recipients.map(toRow));
	await enqueue(trx, recipients.flatMap(waitingOf));
}

type NewRecipient = Omit<Recipient, 'attempts' | 'sent_at' | 'last_reply'> & {
	readonly next_attempt_at: string | null;
	readonly priority?: Priority;
	/** `null` or absent if it is not scheduled. */
	readonly send_at?: string | null;
	/** `null` or absent if it does not expire. */
	readonly expires_at?: string | null;
};

function toRow(recipient: NewRecipient): Row {
	return [...newColumns.valuesOf(recipient), 0, 0];
}

function waitingOf(row: NewRecipient): Waiting[] {
	const {id: recipientId, workspace_id: workspaceId, message_id: messageId, destination, priority = 'normal'} = row;
	const {next_attempt_at: nextAttemptAt, send_at: sendAt = null, expires_at: expiresAt = null} = row;
	const queued = {recipientId, workspaceId, messageId, destination, priority};
	return nextAttemptAt === null ? [] : [{...queued, nextAttemptAt, sendAt, expiresAt}];
}

/**
 * Moves recipients whose state allows it (compare-and-set), takes them out of the queue and returns their ids. A
 * recipient with an attempt in progress keeps its claim: the outcome of the attempt is recorded, but cannot undo this
 * change.
 *
 * @param from the states that allow it
 */
export async function moveRecipients(
	trx: Knex.Transaction,
	ids: readonly string[],
	to: RecipientState,
	at: string,
	from: readonly RecipientState[] = statesBefore(to),
): Promise<Set<string>> {
	const queued = await takeQueued(trx, ids);
	await lockOpen(trx, ids);
	// The second call finds claims that were made until the queue was locked.
	await storeQueued(trx, [...queued, ...(await takeQueued(trx, ids, lockLate))]);
	const rows: Array<Pick<Recipient, 'id' | 'workspace_id' | 'message_id' | 'role'>> = await trx('recipients')
		.whereIn('id', ids)
		.whereIn('state', from)
		.update({state: to, state_at: at})
		.returning(['id', 'workspace_id', 'message_id', 'role']);
	await listState(trx, rows, to);
	const moved = rows.map(({id}) => id);
	await dequeue(trx, moved);
	return new Set(moved);
}

/**
 * Returns the recipient of a message with an address, and locks it until the transaction ends. Returns `undefined` if
 * it was removed or erased.
 */
export async function findRecipientFor(
	trx: Knex.Transaction,
	{messageId, addressKey, role}: {readonly messageId: string; readonly addressKey: string; readonly role: Role},
): Promise<string | undefined> {
	const row = await trx('recipients')
		.where({message_id: messageId, address_key: addressKey, role})
		.whereRaw(...createdNearIds(trx, 'id', 'rcp', [messageId]))
		.forShare()
		.first('id');
	return row?.id;
}

/** One conversation with a mail server about a recipient, as it was stored. */
export type StoredAttempt = Omit<Attempt, 'tlsResult'> & {
	readonly recipient_id: string;
	/** The number of the recipient's attempt that it belongs to, from 1. */
	readonly n: number;
};

/** A recipient of a message with every conversation about it. */
export type StoredRecipient = Pick<Recipient, 'id' | 'address' | 'role' | 'state' | 'state_at' | 'last_reply'> & {
	readonly next_attempt_at: string | null;
	readonly attempts: readonly StoredAttempt[];
};

/** Returns a message's recipients, the `to` recipient first. */
export async function listRecipients(
	reader: Knex,
	workspaceId: string,
	messageId: string,
): Promise<Array<Omit<StoredRecipient, 'attempts'>>> {
	const rows = await reader('recipients as r')
		.leftJoin('queue as q', 'q.recipient_id', 'r.id')
		.where({'r.message_id': messageId, 'r.workspace_id': workspaceId})
		.whereRaw(...createdNearIds(reader, 'r.id', 'rcp', [messageId]))
		.orderBy([{column: 'r.role', order: 'desc'}, {column: 'r.id'}])
		.select('r.id', 'r.address', 'r.role', reader.raw(stateColumns('r')), 'q.next_attempt_at', 'r.last_reply');
	return rows.map(withCurrentState) as Array<Omit<StoredRecipient, 'attempts'>>;
}

/** Returns a message's recipients, each with its attempts in order. */
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

/** Returns every conversation about these recipients, by recipient and in order. */
export async function readAttempts(reader: Knex, recipientIds: readonly string[]): Promise<StoredAttempt[]> {
	return await reader('attempts')
		.whereIn('recipient_id', recipientIds)
		.orderBy(['recipient_id', 'n', 'position'])
		.select('recipient_id', 'n', 'at', 'host', 'ip', 'tls', 'phase', 'code', 'enhanced', 'reply', 'ms', 'dialogue');
}

/** More mail servers than nearly every domain has. */
const maxAttempts = 50;

/**
 * Returns the mail servers that a recipient's last attempts contacted, in order. Attempts without a conversation have
 * no row with a host.
 */
export async function readContactedServers(reader: Knex, recipientId: string): Promise<PreviousAttempt[]> {
	const attempts: PreviousAttempt[] = await reader('attempts')
		.where({recipient_id: recipientId})
		.whereNotNull('host')
		.orderBy([
			{column: 'n', order: 'desc'},
			{column: 'position', order: 'desc'},
		])
		.limit(maxAttempts)
		.select('n', 'host', 'ip', 'phase', 'code');
	return attempts.reverse();
}

/** A conversation with its recipient. The id defines its order among the conversations of the message. */
export type ListedAttempt = Omit<StoredAttempt, 'dialogue' | 'ip'> & {
	readonly id: string;
	readonly recipient: Pick<Recipient, 'id' | 'address' | 'role'>;
};

/** Returns the conversations about recipients, by recipient and in order, after the one with the id `after`. */
export async function pageAttempts(
	reader: Knex,
	recipients: ReadonlyArray<ListedAttempt['recipient']>,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<ListedAttempt[]> {
	const [lastId = '', n, position] = after?.split(' ') ?? [];
	const attempts: ListedAttempt[] = [];
	const start = recipients.findIndex(({id}) => id === lastId);
	for (const recipient of recipients.slice(Math.max(0, start))) {
		const query = reader('attempts')
			.where({recipient_id: recipient.id})
			.orderBy(['n', 'position'])
			.limit(limit - attempts.length)
			.select('recipient_id', 'n', 'position', 'at', 'host', 'tls', 'phase', 'code', 'enhanced', 'reply', 'ms');
		if (recipient.id === lastId) {
			query.whereRaw('(n, position) > (?, ?)', [Number(n), Number(position)]);
		}
		for (const row of await query) {
			attempts.push({...row, recipient, id: `${recipient.id} ${row.n} ${row.position}`});
		}
		if (attempts.length === limit) {
			break;
		}
	}
	return attempts;
}

/** Returns the state of a message's `to` recipient, and whether it is still in the queue. */
export async function readStatus(
	reader: Knex,
	messageId: string,
): Promise<{readonly state: RecipientState; readonly waiting: boolean} | undefined> {
	const row = await reader('recipients as r')
		.leftJoin('queue as q', 'q.recipient_id', 'r.id')
		.where({'r.message_id': messageId, 'r.role': 'to'})
		.whereRaw(...createdNearIds(reader, 'r.id', 'rcp', [messageId]))
		.first(reader.raw(`${stateOf('r')} as state`), 'q.next_attempt_at');
	return row && {state: row.state, waiting: row.next_attempt_at !== null};
}

export type EngagementType = 'opened' | 'clicked';

/** How often a recipient opened the message or clicked one of its links. Times are in the store's form. */
export type EngagementCount = {
	readonly recipientId: string;
	readonly kind: EngagementType;
	/** The target of the link; empty for an open. */
	readonly url: string;
	readonly n: number;
	/** How many of `n` were automated. */
	readonly machineN: number;
	readonly firstAt: string;
	readonly lastAt: string;
};

/** Whether the added count is the first in its row, and whether it contains the first that was not automated. */
export type FirstOf = {readonly isFirst: boolean; readonly isFirstHuman: boolean};

/**
 * Adds counts, at most one for each link, and returns for each whether it is the first. All opens of a recipient share
 * one row, and so do all clicks on one link.
 */
export async function addEngagement(trx: Knex.Transaction, counts: readonly EngagementCount[]): Promise<FirstOf[]> {
	if (counts.length === 0) {
		return [];
	}
	const {sql, bindings} = rowSource(
		trx,
		counts.map(item => [item.recipientId, item.kind, item.url, item.n, item.machineN, item.firstAt, item.lastAt]),
		7,
	);
	const rows: Array<{recipient_id: string; kind: string; url: string; n: number; machine_n: number}> =
		await queryRows(
			trx,
			`insert into engagement (recipient_id, kind, url, n, machine_n, first_at, last_at) ${sql}
		on conflict (recipient_id, kind, url) do update set
			n = engagement.n + excluded.n,
			machine_n = engagement.machine_n + excluded.machine_n,
			last_at = case when excluded.last_at > engagement.last_at then excluded.last_at else engagement.last_at end
		returning recipient_id, kind, url, n, machine_n`,
			bindings,
		);
	const totals = new Map(rows.map(row => [`${row.recipient_id} ${row.kind} ${row.url}`, row]));
	// If the total equals what was added, the row is new.
	return counts.map(item => {
		const {n = 0, machine_n: machineN = 0} = totals.get(`${item.recipientId} ${item.kind} ${item.url}`) ?? {};
		const people = item.n - item.machineN;
		return {isFirst: n === item.n, isFirstHuman: people > 0 && n - machineN === people};
	});
}

const trackedColumns = toColumns('id workspace_id message_id address role destination state state_at links');

/**
 * Returns the recipients of these messages, except those that were removed or erased, and locks them until the
 * transaction ends.
 */
export async function findTrackedRecipients(
	trx: Knex.Transaction,
	messageIds: readonly string[],
): Promise<
	Array<
		Pick<
			Claimed,
			Exclude<(typeof trackedColumns.fields)[number], 'state' | 'links'> | 'track_opens_at' | 'track_clicks_at'
		> & {readonly state: RecipientState; readonly links: number | null}
	>
> {
	return await trx('recipients as r')
		.join('messages as m', 'm.id', 'r.message_id')
		.join('workspaces as w', 'w.id', 'r.workspace_id')
		.whereIn('r.message_id', messageIds)
		.whereRaw(...createdNearIds(trx, 'r.id', 'rcp', messageIds))
		.whereRaw(...createdNearIds(trx, 'm.id', 'msg', messageIds))
		.whereNull('m.erased_at')
		.forShare('r')
		.select(...trackedColumns.selectedOf('r'), 'w.track_opens_at', 'w.track_clicks_at');
}

const engagementColumns = toColumns('recipientId kind url n machineN firstAt lastAt');

/** Returns a message's opens and clicks by recipient, opens first. */
export async function readEngagement(reader: Knex, messageId: string): Promise<EngagementCount[]> {
	return await reader('engagement as e')
		.join('recipients as r', 'r.id', 'e.recipient_id')
		.where('r.message_id', messageId)
		.whereRaw(...createdNearIds(reader, 'r.id', 'rcp', [messageId]))
		.whereRaw(...createdNearIds(reader, 'e.recipient_id', 'rcp', [messageId]))
		.orderBy([
			{column: 'e.recipient_id'},
			{column: 'e.kind', order: 'desc'},
			{column: 'e.first_at'},
			{column: 'e.url'},
		])
		.select(engagementColumns.selectedOf('e'));
}
