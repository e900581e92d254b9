import type {Knex} from 'knex';
import type {Mode} from '../mail/message.ts';
import type {RecipientState} from '../mail/recipient-state.ts';
import {insertRows} from './insert-rows.ts';

/** A new message: addresses as spelled and in comparison form, JSON as text (null: empty), times in the store's form. */
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
	/** How many. */
	readonly attachments: number;
	readonly createdAt: string;
};

const columns = [
	'id',
	'workspace_id',
	'mode',
	'from_address',
	'from_key',
	'to_address',
	'to_key',
	'reply_to',
	'cc',
	'template_id',
	'version_id',
	'data',
	'metadata',
	'tags',
	'topic_id',
	'topic_code',
	'locale',
	'timezone',
	'tracking',
	'attachments',
	'created_at',
];

export async function insertMessages(trx: Knex.Transaction, messages: readonly NewMessage[]): Promise<void> {
	await insertRows(
		trx,
		'messages',
		columns,
		messages.map(one => [
			one.id,
			one.workspaceId,
			one.mode,
			one.from,
			one.fromKey,
			one.to,
			one.toKey,
			one.replyTo,
			one.cc,
			one.templateId,
			one.versionId,
			one.data,
			one.metadata,
			one.tags,
			one.topicId,
			one.topicCode,
			one.locale,
			one.timezone,
			one.tracking,
			one.attachments,
			one.createdAt,
		]),
	);
}

/** A message as it is read: with the state of its `to` copy, its template's name and its attachments' names. */
export type StoredMessage = {
	readonly id: string;
	readonly mode: Mode;
	readonly status: RecipientState;
	readonly from: string;
	readonly to: string;
	readonly replyTo: string | null;
	readonly cc: readonly string[];
	readonly subject: string | null;
	readonly templateId: string;
	readonly templateName: string;
	readonly templateVersion: number;
	readonly data: Readonly<Record<string, unknown>>;
	readonly metadata: Readonly<Record<string, string>>;
	readonly tags: readonly string[];
	readonly attachments: ReadonlyArray<{readonly filename: string; readonly contentType: string}>;
	readonly createdAt: string;
	readonly updatedAt: string;
};

/** Whether the workspace has this message. */
export async function hasMessage(reader: Knex, workspaceId: string, id: string): Promise<boolean> {
	return (await reader('messages').where({id, workspace_id: workspaceId}).first('id')) !== undefined;
}

export async function findMessage(reader: Knex, workspaceId: string, id: string): Promise<StoredMessage | undefined> {
	const row = await reader('messages as m')
		.join('recipients as r', function () {
			this.on('r.message_id', 'm.id').andOnVal('r.role', 'to');
		})
		.join('templates as t', 't.id', 'm.template_id')
		.join('template_versions as v', 'v.id', 'm.version_id')
		.where({'m.id': id, 'm.workspace_id': workspaceId})
		.first('m.*', 'r.state', 'r.state_at', 'r.subject', 't.name as template_name', 'v.version');
	if (!row) {
		return undefined;
	}
	const attachments = row.attachments === 0 ? [] : await findAttachments(reader, id);
	return {
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
		data: JSON.parse(row.data ?? '{}'),
		metadata: JSON.parse(row.metadata ?? '{}'),
		tags: JSON.parse(row.tags ?? '[]'),
		attachments,
		createdAt: row.created_at,
		updatedAt: row.state_at,
	};
}

async function findAttachments(reader: Knex, messageId: string): Promise<StoredMessage['attachments']> {
	return await reader('attachments')
		.where({message_id: messageId})
		.orderBy('position')
		.select('filename', 'content_type as contentType');
}

/** The metadata of some messages, as JSON text; those without any are left out. */
export async function readMetadata(trx: Knex.Transaction, ids: readonly string[]): Promise<Map<string, string>> {
	const rows: Array<{id: string; metadata: string}> = await trx('messages')
		.whereIn('id', [...new Set(ids)])
		.whereNotNull('metadata')
		.select('id', 'metadata');
	return new Map(rows.map(({id, metadata}) => [id, metadata]));
}
