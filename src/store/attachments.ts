import type {Knex} from 'knex';
import {type Attachment, submittedType} from '../mail/message.ts';
import {insertReturning, insertRows, type Row} from './engine/insert-rows.ts';

const columns = ['message_id', 'position', 'filename', 'content_type', 'content'];

/** Drivers copy what is bound to a statement, some twice. */
const bytesPerStatement = 4 * 1024 * 1024;

export async function insertAttachments(
	trx: Knex.Transaction,
	messages: ReadonlyArray<{readonly messageId: string; readonly attachments: readonly Attachment[]}>,
): Promise<void> {
	let rows: Row[] = [];
	let bytes = 0;
	for (const {messageId, attachments} of messages) {
		for (const [position, {filename, contentType, content}] of attachments.entries()) {
			if (bytes + content.length > bytesPerStatement) {
				// Waited for: then its copies are free.
				await insertReturning(trx, 'attachments', columns, rows);
				[rows, bytes] = [[], 0];
			}
			rows.push([messageId, position, filename, contentType, content]);
			bytes += content.length;
		}
	}
	await insertRows(trx, 'attachments', columns, rows);
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

/** Puts another mail in the place of the one that was submitted. */
export async function replaceSubmitted(trx: Knex.Transaction, messageId: string, content: Uint8Array): Promise<void> {
	await trx('attachments').where({message_id: messageId, position: 0, content_type: submittedType}).update({content});
}
