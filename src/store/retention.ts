import type {Knex} from 'knex';
import {
	erasedAddress,
	extrasJson,
	isMessageId,
	type Recipient,
	type RecipientState,
	readExtras,
	statesBefore,
	submittedType,
} from '../mail/message.ts';
import {messageIdTerm} from '../mail/terms.ts';
import {deleteDeliveries, findForMessages} from '../resources/webhooks/store.ts';
import {type Dialect, holdsBytes, lockLate, queryRows, rowSource} from './engine/dialect.ts';
import {alongIndex, createdNearIds} from './engine/rows.ts';
import type {Erasure} from './erasures.ts';
import {dropTerms, eraseTerms, listState, readListed} from './message-terms.ts';
import {dequeue, lockOpen} from './queue/open-recipients.ts';
import {storeQueued, takeClaims} from './timeline.ts';

type Removal = {
	/** Messages after this id are checked; empty means from the oldest. */
	readonly after: string;
	/** Messages from this id on are retained. */
	readonly before: string;
	/** Only messages of this workspace; all workspaces if absent. */
	readonly workspaceId?: string;
	/** How many messages to check. */
	readonly limit: number;
};

type Removed = {
	/** The message after which the next step continues; `null` if there are no more. */
	readonly next: string | null;
	/** How many messages were removed. */
	readonly messages: number;
	/** The removed recipients, which may have files. */
	readonly recipientIds: readonly string[];
};

/**
 * Removes old messages with everything that belongs to them, except messages with a recipient in the queue. Messages
 * that another node is removing, or adding rows to, are skipped.
 */
export async function removeMessages(
	trx: Knex.Transaction,
	dialect: Dialect,
	{after, before, workspaceId, limit}: Removal,
): Promise<Removed> {
	const [scope, scopeBindings] = workspaceId === undefined ? ['', []] : ['workspace_id = ? and', [workspaceId]];
	const rows: Array<{id: string}> = await queryRows(
		trx,
		`select id from messages where ${scope} id > ? and id < ? order by id limit ? ${dialect.skipLocked}`,
		[...scopeBindings, after, before, limit],
	);
	const ids = rows.map(({id}) => id);
	const waiting = await findQueuedMessages(trx, ids);
	const old = ids.filter(id => !waiting.has(id));
	// A transaction that adds rows to a recipient holds a lock on it. Waiting for that lock makes its rows visible to
	// the deletes below.
	const recipientIds: string[] = await trx('recipients')
		.whereIn('message_id', old)
		.whereRaw(...createdNearIds(trx, 'id', 'rcp', old))
		.orderBy('id')
		.forUpdate()
		.pluck('id');
	await dropTerms(trx, old);
	for (const table of ['attempts', 'engagement']) {
		await trx(table).whereIn('recipient_id', recipientIds).delete();
	}
	for (const table of ['events', 'attachments', 'reports']) {
		await trx(table).whereIn('message_id', old).delete();
	}
	await deleteDeliveries(trx, await findForMessages(trx, old));
	await trx('recipients').whereIn('id', recipientIds).delete();
	const messages = await trx('messages').whereIn('id', old).delete();
	return {next: ids.length === limit ? (ids.at(-1) ?? null) : null, messages, recipientIds};
}

/** Returns those of the messages that have a recipient in the queue. */
async function findQueuedMessages(trx: Knex.Transaction, ids: readonly string[]): Promise<ReadonlySet<string>> {
	const waiting: string[] = await trx('recipients as r')
		.whereIn('r.message_id', ids)
		.whereRaw(...createdNearIds(trx, 'r.id', 'rcp', ids))
		.whereExists(trx('queue as q').select('q.recipient_id').whereRaw('q.recipient_id = r.id'))
		.pluck('r.message_id');
	return new Set(waiting);
}

type Emptied = Pick<Removed, 'next' | 'recipientIds'> & {
	/** Whether no content of the checked messages remains. Messages in the queue keep theirs. */
	readonly isAll: boolean;
};

/**
 * Removes the content of a workspace's old messages: variables, subject, attachments and search terms. The rest stays.
 */
export async function emptyMessages(
	trx: Knex.Transaction,
	dialect: Dialect,
	{after, before, workspaceId, limit}: Required<Removal>,
): Promise<Emptied> {
	const rows: Array<{id: string; extras: string | null}> = await queryRows(
		trx,
		`select id, extras from messages where workspace_id = ? and id > ? and id < ? order by id limit ? ${dialect.skipLocked}`,
		[workspaceId, after, before, limit],
	);
	const next = rows.length === limit ? (rows.at(-1)?.id ?? null) : null;
	const withContent = rows.filter(({extras}) => !readExtras(extras).emptied);
	const waiting = await findQueuedMessages(
		trx,
		withContent.map(({id}) => id),
	);
	const old = withContent.filter(({id}) => !waiting.has(id));
	const ids = old.map(({id}) => id);
	await eraseTerms(trx, ids);
	for (const extras of new Set(old.map(row => row.extras))) {
		const sameExtras = old.filter(row => row.extras === extras).map(({id}) => id);
		const {sendAt, expiresAt, priority} = readExtras(extras);
		const retained = {...(sendAt && {sendAt}), ...(expiresAt && {expiresAt}), ...(priority && {priority})};
		await trx('messages')
			.whereIn('id', sameExtras)
			.update({data: null, sealed: null, attachments: 0, extras: extrasJson({...retained, emptied: true})});
	}
	await trx('attachments').whereIn('message_id', ids).delete();
	const recipientIds: string[] = await trx('recipients')
		.whereIn('message_id', ids)
		.whereRaw(...createdNearIds(trx, 'id', 'rcp', ids))
		.pluck('id');
	await trx('recipients').whereIn('id', recipientIds).whereNotNull('subject').update({subject: null});
	return {next, recipientIds, isAll: waiting.size === 0};
}

const erasedDomain = erasedAddress.slice(erasedAddress.indexOf('@') + 1);

/**
 * How much is stored about a person: messages to the address, recipients with it in `cc`, and received mail from or to
 * it.
 */
export type Traces = {readonly messages: number; readonly recipients: number; readonly received: number};

export async function countTraces(reader: Knex, {workspaceId, addressKey, below}: Erasure): Promise<Traces> {
	const ofWorkspace = {workspace_id: workspaceId};
	const readCount = async (query: Knex.QueryBuilder) => Number((await query)[0]?.n);
	return {
		messages: await readCount(
			reader('messages')
				.where({...ofWorkspace, to_key: addressKey})
				.where('id', '<', below)
				.count({n: '*'}),
		),
		recipients: await readCount(selectCcRecipients(reader, {workspaceId, addressKey, below}).count({n: '*'})),
		received: await readCount(
			reader('received_terms')
				.where(ofWorkspace)
				.whereIn('term', [`from:${addressKey}`, `to:${addressKey}`])
				.countDistinct({n: 'received_id'}),
		),
	};
}

/** Returns some messages to an address, oldest first. */
export async function findMessagesTo(
	reader: Knex,
	{workspaceId, addressKey, below}: Erasure,
	limit: number,
): Promise<string[]> {
	return await reader('messages')
		.where({workspace_id: workspaceId, to_key: addressKey})
		.where('id', '<', below)
		.orderBy('id')
		.limit(limit)
		.pluck('id');
}

/** Queries the `cc` recipients with this address. */
function selectCcRecipients(reader: Knex, {workspaceId, addressKey, below}: Erasure): Knex.QueryBuilder {
	return reader('recipients')
		.where({workspace_id: workspaceId, address_key: addressKey})
		.where('message_id', '<', below)
		.whereRaw("role = 'cc'");
}

/** Returns some of these recipients. */
export async function findRecipientsTo(
	trx: Knex.Transaction,
	erasure: Erasure,
	limit: number,
): Promise<Array<Pick<Recipient, 'id' | 'message_id' | 'role'>>> {
	return await selectCcRecipients(trx, erasure).limit(limit).select('id', 'message_id', 'role');
}

const messagesAtOnce = 500;
const maxPages = 20;

/**
 * Returns queued recipients of the person's newest messages, and queued `cc` recipients with the address, at most
 * `limit`. Older or further ones end when their message is erased.
 */
export async function findOpenOf(reader: Knex, erasure: Erasure, limit: number): Promise<string[]> {
	const open: string[] = await pluckQueued(selectCcRecipients(reader, erasure)).limit(limit);
	const {workspaceId, addressKey} = erasure;
	let {below} = erasure;
	for (let page = 0; page < maxPages && open.length < limit; page++) {
		const index = {leading: {workspace_id: workspaceId, to_key: addressKey}, id: 'id'};
		const ids: string[] = await alongIndex(reader, 'messages', index, {below}).limit(messagesAtOnce).pluck('id');
		const recipients = reader('recipients')
			.whereIn('message_id', ids)
			.whereRaw(...createdNearIds(reader, 'id', 'rcp', ids));
		open.push(...(await pluckQueued(recipients).limit(limit - open.length)));
		below = ids.at(-1) ?? below;
		if (ids.length < messagesAtOnce) {
			break;
		}
	}
	return open;
}

function pluckQueued(recipients: Knex.QueryBuilder): Knex.QueryBuilder {
	return recipients.whereRaw('exists (select 1 from queue as q where q.recipient_id = recipients.id)').pluck('id');
}

/** Returns every recipient of the messages. */
export async function findRecipientsOf(
	trx: Knex.Transaction,
	messageIds: readonly string[],
): Promise<Array<Pick<Recipient, 'id' | 'message_id' | 'role'>>> {
	return await trx('recipients')
		.whereIn('message_id', messageIds)
		.whereRaw(...createdNearIds(trx, 'id', 'rcp', messageIds))
		.select('id', 'message_id', 'role');
}

/** Whether the address of a recipient was erased. */
export async function isErased(reader: Knex, recipientId: string): Promise<boolean> {
	return (await reader('recipients').where({id: recipientId, address: erasedAddress}).first('id')) !== undefined;
}

/**
 * Takes recipients out of the queue, even while a daemon is attempting delivery: it loses its claim, and its outcome is
 * not written. Returns those that were in the queue.
 */
export async function endRecipients(
	trx: Knex.Transaction,
	recipientIds: readonly string[],
	{state, at}: {readonly state: RecipientState; readonly at: string},
): Promise<Array<Pick<Recipient, 'id' | 'message_id' | 'role'>>> {
	const claims = () => trx('claims').whereIn('recipient_id', recipientIds);
	// Claims are locked before the queue, in the same order as when outcomes are written. The second call finds claims
	// that were made until the queue was locked.
	const before = await takeClaims(trx, claims());
	const open = await lockOpen(trx, recipientIds);
	const ended = [...before, ...(await takeClaims(trx, claims(), lockLate))];
	await dequeue(trx, open);
	await storeQueued(trx, ended);
	if (open.length === 0) {
		return [];
	}
	const moved: Array<Pick<Recipient, 'id' | 'workspace_id' | 'message_id' | 'role'>> = await trx('recipients')
		.whereIn('id', open)
		.whereIn('state', statesBefore(state))
		.update({state, state_at: at})
		.returning(['id', 'workspace_id', 'message_id', 'role']);
	await listState(trx, moved, state);
	return moved;
}

/** Erases the address and the replies of mail servers from recipients. */
export async function eraseRecipients(trx: Knex.Transaction, recipientIds: readonly string[]): Promise<void> {
	await trx('recipients')
		.whereIn('id', recipientIds)
		.update({address: erasedAddress, address_key: erasedAddress, destination: erasedDomain, last_reply: null});
	await trx('attempts')
		.whereIn('recipient_id', recipientIds)
		.update({host: null, ip: null, reply: '', dialogue: null});
}

/**
 * Erases the details of events (except those in `retained`), reports and engagement of recipients. The events
 * themselves stay.
 */
export async function eraseTimelines(
	trx: Knex.Transaction,
	recipients: ReadonlyArray<Pick<Recipient, 'id' | 'message_id'>>,
	retained: readonly string[],
): Promise<void> {
	const messageIds = [...new Set(recipients.map(({message_id: messageId}) => messageId))];
	const recipientIds = recipients.map(({id}) => id);
	const ofRecipients = (table: string) =>
		trx(table).whereIn('message_id', messageIds).whereIn('recipient_id', recipientIds);
	await ofRecipients('events').whereNotNull('detail').whereNotIn('detail', retained).update({detail: null});
	await trx('engagement').whereIn('recipient_id', recipientIds).delete();
	// The hash of the message that contained the report is retained, so that it is not read again.
	const inbound = ofRecipients('reports').whereNotNull('inbound_sha256').select('inbound_sha256');
	await trx('inbound').whereIn('digest', inbound).update(emptied);
	await ofRecipients('reports').update({detail: null, matched: null});
}

/** What remains of an erased inbound message. */
const emptied = {mail_from: null, rcpt_to: '[]', raw: Buffer.alloc(0), kept: null, reading: null, fault: null};

/**
 * Finds inbound messages without a known recipient, or unreadable ones, whose sender, content or reading contains an
 * address (comparison form). Nothing else links them to the person. It reads all of them, up to a gibibyte, so it must
 * not block writers.
 */
export async function findUnmatched(reader: Knex, addressKey: string): Promise<string[]> {
	const pattern = `%${addressKey.replace(/[\\%_]/g, '\\$&')}%`;
	return await reader('inbound')
		.where(mail =>
			mail
				.where({kept: 'unmatched'})
				.orWhere(unread =>
					unread
						.where({kept: 'unread'})
						.whereNotIn(
							'digest',
							reader('reports').whereNotNull('inbound_sha256').select('inbound_sha256'),
						),
				),
		)
		.where(mail =>
			mail
				.whereRaw(`lower(mail_from) like ? escape '\\'`, [pattern])
				.orWhereRaw(`lower(reading) like ? escape '\\'`, [pattern])
				.orWhereRaw(holdsBytes(reader, 'raw'), [Buffer.from(addressKey)]),
		)
		.pluck('id');
}

/** Empties inbound messages. */
export async function eraseUnmatched(trx: Knex.Transaction, ids: readonly string[]): Promise<void> {
	if (ids.length > 0) {
		await trx('inbound').whereIn('id', ids).update(emptied);
	}
}

/** Erases the recipient and the content of messages. */
export async function eraseMessages(trx: Knex.Transaction, messageIds: readonly string[], at: string): Promise<void> {
	await eraseTerms(trx, messageIds);
	await trx('messages').whereIn('id', messageIds).update({
		to_address: erasedAddress,
		to_key: erasedAddress,
		data: null,
		metadata: null,
		extras: null,
		sealed: null,
		locale: null,
		timezone: null,
		attachments: 0,
		erased_at: at,
	});
	await trx('recipients')
		.whereIn('message_id', messageIds)
		.whereRaw(...createdNearIds(trx, 'id', 'rcp', messageIds))
		.whereNotNull('subject')
		.update({subject: null});
	await trx('attachments').whereIn('message_id', messageIds).delete();
}

/** Returns the Message-IDs of the emails that were submitted for messages. */
export async function findSubmittedNames(reader: Knex, messageIds: readonly string[]): Promise<string[]> {
	if (messageIds.length === 0) {
		return [];
	}
	const names: string[] = await reader('attachments')
		.whereIn('message_id', messageIds)
		.where({position: 0, content_type: submittedType})
		.pluck('filename');
	return [...new Set(names.filter(isMessageId))];
}

/** Returns messages for which an email with this Message-ID was submitted, newest first, at most `limit`. */
export async function findSubmitted(
	reader: Knex,
	workspaceId: string,
	name: string,
	{below, limit}: {readonly below: string | null; readonly limit: number},
): Promise<string[]> {
	return await readListed(reader, {workspaceId, term: messageIdTerm(name)}, {below}, limit);
}

/**
 * Rewrites the other addresses of messages, `cc` and `reply_to`, as they were spelled. The display name of a changed
 * `reply_to` is dropped.
 */
export async function rewriteAddresses(
	trx: Knex.Transaction,
	messageIds: readonly string[],
	rewrite: (address: string) => string,
): Promise<void> {
	const messages: Array<Record<'cc' | 'reply_to' | 'extras', string | null> & {id: string}> = await trx('messages')
		.whereIn('id', messageIds)
		.select('id', 'cc', 'reply_to', 'extras');
	// Another node may have removed them in the meantime.
	if (messages.length === 0) {
		return;
	}
	const rows = messages.map(({id, cc, reply_to: replyTo, extras}) => {
		const newReplyTo = replyTo === null ? null : rewrite(replyTo);
		const {replyToName: _, ...otherExtras} = readExtras(extras);
		const newCc = cc === null ? null : JSON.stringify(JSON.parse(cc).map(rewrite));
		return [id, newCc, newReplyTo, newReplyTo === replyTo ? extras : extrasJson(otherExtras)];
	});
	const {sql, bindings} = rowSource(trx, rows, 4);
	const [near, nearBindings] = createdNearIds(trx, 'messages.id', 'msg', messageIds);
	await trx.raw(
		`update messages set cc = v.column2, reply_to = v.column3, extras = v.column4 from (${sql}) as v
		where messages.id = v.column1 and ${near}`,
		[...bindings, ...nearBindings] as Knex.RawBinding[],
	);
}

/** The body of a webhook (docs/reference/interface.md, Webhook request). */
export type WebhookBody = {readonly recipient: string; readonly metadata: Readonly<Record<string, string>>};

/**
 * Rewrites the stored webhook bodies about messages, both pending ones and those retained for a replay. Responses are
 * erased, because they may name anybody.
 */
export async function rewriteWebhookBodies(
	trx: Knex.Transaction,
	messageIds: readonly string[],
	rewrite: (body: WebhookBody) => WebhookBody,
): Promise<void> {
	const deliveries: Array<{id: string; body: Uint8Array}> = await trx('webhook_deliveries')
		.whereIn('message_id', messageIds)
		.select('id', 'body');
	for (const {id, body} of deliveries) {
		await trx('webhook_attempts').where({delivery_id: id}).whereNotNull('answer').update({answer: null});
		const parsed = JSON.parse(Buffer.from(body).toString());
		const rewritten = rewrite(parsed);
		const isAbout = rewritten.recipient !== parsed.recipient || rewritten.metadata !== parsed.metadata;
		const cleared = 'subject' in parsed && isAbout && {subject: null, detail: {}};
		await trx('webhook_deliveries')
			.where({id})
			.update({body: Buffer.from(JSON.stringify({...rewritten, ...cleared}))});
	}
}

/** Returns `null` if there is no such contact. */
export async function findContactId(reader: Knex, workspaceId: string, addressKey: string): Promise<string | null> {
	const row = await reader('contacts').where({workspace_id: workspaceId, address_key: addressKey}).first('id');
	return row?.id ?? null;
}

/** Deletes the contact and its delivery failures. Returns `false` if there was no such contact. */
export async function deleteContact(trx: Knex.Transaction, workspaceId: string, addressKey: string): Promise<boolean> {
	const person = {workspace_id: workspaceId, address_key: addressKey};
	await trx('address_health').where(person).delete();
	return (await trx('contacts').where(person).delete()) > 0;
}

/** Deletes at most `limit` deliveries of deleted endpoints, then the endpoint. Returns `true` if there may be more. */
export async function purgeEndpoints(trx: Knex.Transaction, limit: number): Promise<boolean> {
	const row: {id: string} | undefined = await trx('webhook_endpoints').whereNotNull('deleted_at').first('id');
	if (!row) {
		return false;
	}
	const ids = await trx('webhook_deliveries').where({endpoint_id: row.id}).orderBy('id').limit(limit).pluck('id');
	if ((await deleteDeliveries(trx, ids)) === 0) {
		await trx('webhook_endpoints').where({id: row.id}).delete();
	}
	return true;
}
