import type {Knex} from 'knex';
import type {Attachment} from '../mail/message.ts';
import {insertRows} from './insert-rows.ts';

export async function insertAttachments(
	trx: Knex.Transaction,
	messages: ReadonlyArray<{readonly messageId: string; readonly attachments: readonly Attachment[]}>,
): Promise<void> {
	await insertRows(
		trx,
		'attachments',
		['message_id', 'position', 'filename', 'content_type', 'content'],
		messages.flatMap(({messageId, attachments}) =>
			attachments.map((one, position) => [messageId, position, one.filename, one.contentType, one.content]),
		),
	);
}

/** How many bytes a message's attachments have together. */
export async function sizeAttachments(reader: Knex, messageId: string): Promise<number> {
	const row = await reader('attachments')
		.where({message_id: messageId})
		.first<{size: number | string | null}>(reader.raw('sum(length(content)) as size'));
	return Number(row?.size ?? 0);
}

/** A message's attachments, in order. */
export async function listAttachments(reader: Knex, messageId: string): Promise<Attachment[]> {
	return await reader('attachments')
		.where({message_id: messageId})
		.orderBy('position')
		.select('filename', 'content_type as contentType', 'content');
}
