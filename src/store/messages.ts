import type {Knex} from 'knex';
import {parseExact} from '../kit/exact-json.ts';
import type {RecipientState} from '../mail/message.ts';
import {type Attachment, type Extras, type Mode, readExtras, submittedType} from '../mail/message.ts';
import type {WebhookMessage} from '../mail/webhook.ts';
import type {Row} from './engine/dialect.ts';
import {createdNearIds, insertReturning, insertRows, toColumns} from './engine/rows.ts';
import {isReadable} from './erasures.ts';
import {insertWithPositions, stateColumns, withCurrentState} from './timeline.ts';

/**
 * A new message. Addresses are stored as spelled and in comparison form, JSON as text (`null` if empty), and times in
 * the store's form.
 */
export type NewMessage = {
	readonly id: string;
	readonly workspaceId: string;
	readonly mode: Mode;
	readonly from: string;
	readonly fromKey: string;
	readonly to: string;
	readonly toKey: string;
	readonly replyTo: string | null;
	readonly cc: string | null;
	readonly templateId: string;
	readonly versionId: string;
	readonly data: string | null;
	readonly metadata: string | null;
	readonly tags: string | null;
	readonly topicId: string | null;
	readonly topicCode: string | null;
	readonly locale: string | null;
	readonly timezone: string | null;
	readonly tracking: string | null;
	/** `Extras`. */
	readonly extras: string | null;
	/** All variables, encrypted, and deleted after the last attempt; `null` if they are in `data`. */
	readonly sealed: string | null;
	/** The number of attachments. */
	readonly attachments: number;
	/** The message that this one resends. */
	readonly resentFrom: string | null;
	readonly createdAt: string;
};

const columns = toColumns(
	'id workspaceId mode fromAddress fromKey toAddress toKey replyTo cc templateId versionId data metadata tags topicId topicCode',
	'locale timezone tracking extras sealed attachments resentFrom createdAt',
);

/** Inserts messages. A message's row is also its `accepted` event, so it has a position among the events. */
export async function insertMessages(trx: Knex.Transaction, messages: readonly NewMessage[]): Promise<void> {
	await insertWithPositions(trx, 'messages', columns.names, messages.map(toRow));
}

function toRow(message: NewMessage): Row {
	return columns.valuesOf({...message, fromAddress: message.from, toAddress: message.to});
}

/** A message as it is read: with the state of its `to` recipient, and the names of its template and attachments. */
export type StoredMessage = Pick<
	NewMessage,
	'id' | 'mode' | 'from' | 'to' | 'replyTo' | 'templateId' | 'resentFrom' | 'createdAt'
> & {
	readonly status: RecipientState;
	readonly cc: readonly string[];
	readonly subject: string | null;
	readonly templateName: string;
	readonly templateVersion: number;
	/** Numbers are `Numeral`s where JavaScript numbers would lose digits. */
	readonly data: Readonly<Record<string, unknown>>;
	readonly metadata: Readonly<Record<string, string>>;
	readonly tags: readonly string[];
	readonly attachments: ReadonlyArray<{readonly filename: string; readonly contentType: string}>;
	readonly extras: Extras;
	readonly updatedAt: string;
};

/** The mode of a message, and whether its content is still there. */
export type ContentStatus = {
	readonly mode: Mode;
	readonly erasedAt: string | null;
	/** Whether its content was removed at the end of the retention period for content. */
	readonly isEmptied: boolean;
};

/** Returns `undefined` if the workspace has no such message. */
export async function findMessageStatus(
	reader: Knex,
	workspaceId: string,
	id: string,
): Promise<ContentStatus | undefined> {
	const row: {mode: Mode; erasedAt: string | null; extras: string | null} | undefined = await reader('messages')
		.where({id, workspace_id: workspaceId})
		.whereRaw(isReadable('messages'))
		.first('mode', 'erased_at as erasedAt', 'extras');
	return row && {mode: row.mode, erasedAt: row.erasedAt, isEmptied: readExtras(row.extras).emptied === true};
}

/** Returns the fields of a message that its links need; `undefined` if it was removed. */
export async function findMessageOfLink(
	reader: Knex,
	workspaceId: string,
	id: string,
): Promise<{readonly mode: Mode; readonly locale: string | null; readonly from: string} | undefined> {
	return await reader('messages')
		.where({id, workspace_id: workspaceId})
		.first('mode', 'locale', 'from_address as from');
}

/** Returns the fields of a message that a reply to it needs; `undefined` if the workspace has no such message. */
export async function findRepliedTo(
	reader: Knex,
	workspaceId: string,
	id: string,
): Promise<({mode: Mode; from: string; extras: string | null} & StoredMessage['attachments'][number]) | undefined> {
	return await reader('messages as m')
		.leftJoin('attachments as a', function () {
			this.on('a.message_id', 'm.id').andOnVal('a.position', 0);
		})
		.where({'m.id': id, 'm.workspace_id': workspaceId})
		.first({
			mode: 'm.mode',
			from: 'm.from_address',
			extras: 'm.extras',
			filename: 'a.filename',
			contentType: 'a.content_type',
		});
}

/** Returns how many messages a workspace has. */
export async function countMessages(reader: Knex, workspaceId: string): Promise<number> {
	const [row] = await reader('messages').where({workspace_id: workspaceId}).count({n: '*'});
	return Number(row?.n);
}

export async function hasMessages(reader: Knex, workspaceId: string): Promise<boolean> {
	return (await reader('messages').where({workspace_id: workspaceId}).first('id')) !== undefined;
}

export async function findMessage(reader: Knex, workspaceId: string, id: string): Promise<StoredMessage | undefined> {
	const [message] = await readMessages(reader, workspaceId, [id]);
	return message;
}

/** Returns messages of the workspace, newest first. Removed messages are left out. */
export async function readMessages(
	reader: Knex,
	workspaceId: string,
	ids: readonly string[],
): Promise<StoredMessage[]> {
	const rows = await reader('messages as m')
		.join('recipients as r', function () {
			this.on('r.message_id', 'm.id').andOnVal('r.role', 'to');
		})
		.join('template_versions as v', 'v.id', 'm.version_id')
		.join('templates as t', 't.id', 'v.template_id')
		.whereIn('m.id', ids)
		.whereRaw(...createdNearIds(reader, 'r.id', 'rcp', ids))
		.where({'m.workspace_id': workspaceId})
		.whereRaw(isReadable('m'))
		.orderBy('m.id', 'desc')
		.select('m.*', reader.raw(stateColumns('r')), 'r.subject', 't.name as template_name', 'v.version');
	const attachmentsOf = await readAttachmentNames(
		reader,
		rows.filter(row => row.attachments > 0).map(row => row.id),
	);
	return rows.map(withCurrentState).map(row => ({
		id: row.id,
		mode: row.mode,
		status: row.state,
		from: row.from_address,
		to: row.to_address,
		replyTo: row.reply_to,
		cc: JSON.parse(row.cc ?? '[]'),
		subject: row.subject,
		templateId: row.template_id,
		templateName: row.template_name,
		templateVersion: row.version,
		data: parseExact(row.data ?? '{}') as StoredMessage['data'],
		metadata: JSON.parse(row.metadata ?? '{}'),
		tags: JSON.parse(row.tags ?? '[]'),
		attachments: attachmentsOf(row.id),
		extras: readExtras(row.extras),
		resentFrom: row.resent_from,
		createdAt: row.created_at,
		updatedAt: row.state_at,
	}));
}

/** A message as it was submitted, for resending it; JSON is text. `listAttachments` reads its attachments. */
export type ResendableMessage = Pick<ContentStatus, 'erasedAt'> &
	Omit<
		NewMessage,
		| 'id'
		| 'workspaceId'
		| 'fromKey'
		| 'toKey'
		| 'versionId'
		| 'topicId'
		| 'sealed'
		| 'attachments'
		| 'resentFrom'
		| 'createdAt'
	>;

const sentColumns = toColumns(
	'mode replyTo cc templateId data metadata tags topicCode locale timezone tracking extras erasedAt',
);

export async function findForResend(
	reader: Knex,
	workspaceId: string,
	id: string,
): Promise<ResendableMessage | undefined> {
	return await reader('messages')
		.where({id, workspace_id: workspaceId})
		.whereRaw(isReadable('messages'))
		.first(...sentColumns.selected, 'from_address as from', 'to_address as to');
}

type AttachmentNames = StoredMessage['attachments'];

async function readAttachmentNames(
	reader: Knex,
	messageIds: readonly string[],
): Promise<(messageId: string) => AttachmentNames> {
	if (messageIds.length === 0) {
		return () => [];
	}
	const rows: Array<AttachmentNames[number] & {messageId: string}> = await reader('attachments')
		.whereIn('message_id', messageIds)
		.whereNot({content_type: submittedType})
		.orderBy('position')
		.select('message_id as messageId', 'filename', 'content_type as contentType');
	return messageId =>
		rows.filter(row => row.messageId === messageId).map(({filename, contentType}) => ({filename, contentType}));
}

type PostedMessage = Omit<WebhookMessage, 'subject'> & {readonly id: string; readonly mode: Mode};

/** Returns the fields of messages that webhooks post, by message id. Removed messages are left out. */
export async function readWebhookMessages(
	trx: Knex.Transaction,
	ids: readonly string[],
): Promise<Map<string, PostedMessage>> {
	const rows: PostedMessage[] = await trx('messages')
		.whereIn('id', [...new Set(ids)])
		.select('id', 'mode', 'metadata', 'tags', 'template_id as templateId');
	return new Map(rows.map(row => [row.id, row]));
}

/** Returns the subjects of messages by their ids. Messages that were not rendered yet are left out. */
export async function readSubjects(trx: Knex.Transaction, ids: readonly string[]): Promise<Map<string, string>> {
	const rows: Array<{id: string; subject: string}> = await trx('recipients')
		.whereIn('message_id', ids)
		.whereRaw(...createdNearIds(trx, 'id', 'rcp', ids))
		.where({role: 'to'})
		.whereNotNull('subject')
		.select('message_id as id', 'subject');
	return new Map(rows.map(({id, subject}) => [id, subject]));
}

const attachmentColumns = ['message_id', 'position', 'filename', 'content_type', 'content', 'content_id'];

/** Drivers copy the values that are bound to a statement, some of them twice. */
const bytesPerStatement = 4 * 1024 * 1024;

export async function insertAttachments(
	trx: Knex.Transaction,
	messages: ReadonlyArray<{readonly messageId: string; readonly attachments: readonly Attachment[]}>,
): Promise<void> {
	let rows: Row[] = [];
	let bytes = 0;
	for (const {messageId, attachments} of messages) {
		for (const [position, {filename, contentType, content, contentId = null}] of attachments.entries()) {
			if (bytes + content.length > bytesPerStatement) {
				// Waits for the statement, so that its rows can be freed.
				await insertReturning(trx, 'attachments', attachmentColumns, rows);
				[rows, bytes] = [[], 0];
			}
			rows.push([messageId, position, filename, contentType, content, contentId]);
			bytes += content.length;
		}
	}
	await insertRows(trx, 'attachments', attachmentColumns, rows);
}

/** Returns the total size of a message's attachments in bytes. */
export async function sumAttachmentSizes(reader: Knex, messageId: string): Promise<number> {
	const row = await reader('attachments')
		.where({message_id: messageId})
		.first<{size: number | string | null}>(reader.raw('sum(length(content)) as size'));
	return Number(row?.size ?? 0);
}

/** Returns a message's attachments in order. */
export async function listAttachments(reader: Knex, messageId: string): Promise<Attachment[]> {
	return await reader('attachments')
		.where({message_id: messageId})
		.orderBy('position')
		.select('filename', 'content_type as contentType', 'content', 'content_id as contentId');
}

/** Replaces the email that was submitted. */
export async function replaceSubmitted(trx: Knex.Transaction, messageId: string, content: Uint8Array): Promise<void> {
	await trx('attachments').where({message_id: messageId, position: 0, content_type: submittedType}).update({content});
}

/** Replaces the extras of a message, which few messages have. */
export async function storeExtras(trx: Knex.Transaction, id: string, extras: string | null): Promise<void> {
	await trx('messages').where({id}).update({extras});
}

/** Deletes the sealed variables of the given messages that no longer have a recipient in the queue. */
export async function forgetSealed(trx: Knex.Transaction, messageIds: readonly string[]): Promise<void> {
	await trx('messages as m')
		.whereIn('m.id', [...new Set(messageIds)])
		.whereNotExists(queuedRecipients(trx))
		.update({sealed: null});
}

/** Deletes the sealed variables of at most `limit` messages without a recipient in the queue; returns how many. */
export async function purgeSealed(trx: Knex.Transaction, limit: number): Promise<number> {
	const ended = trx('messages as m')
		.whereNotNull('m.sealed')
		.whereNotExists(queuedRecipients(trx))
		.orderBy('m.id')
		.limit(limit)
		.select('m.id');
	return await trx('messages').whereIn('id', ended).update({sealed: null});
}

const queuedRecipients = (trx: Knex.Transaction) =>
	trx('recipients as r')
		.join('queue as q', 'q.recipient_id', 'r.id')
		.whereRaw('r.message_id = m.id')
		.select(trx.raw('1'));
