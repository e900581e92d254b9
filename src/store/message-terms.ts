import type {Knex} from 'knex';
import {subjectTerms, type Term, termsOf} from '../mail/terms.ts';
import {rowSource} from './engine/dialect.ts';
import {insertRows} from './engine/insert-rows.ts';
import {nearIds} from './engine/near-ids.ts';

/** What a message can be found by. */
export type MessageTerms = {
	readonly workspaceId: string;
	readonly messageId: string;
	readonly terms: readonly Term[];
};

const columns = ['workspace_id', 'term', 'message_id'];

/** Adds to the index; what is there already stays. */
export async function insertTerms(trx: Knex.Transaction, messages: readonly MessageTerms[]): Promise<void> {
	const rows = rowsOf(messages);
	if (rows.length > 0) {
		await insertRows(trx, 'message_terms', columns, rows, 'on conflict do nothing');
	}
}

function rowsOf(messages: readonly MessageTerms[]): string[][] {
	return messages.flatMap(({workspaceId, messageId, terms}) => terms.map(term => [workspaceId, term, messageId]));
}

const rowsAtOnce = 5000;

/**
 * Takes messages out of the index, before their rows lose what they are found by: that tells where they are in it, so it
 * needs no second index. `keepTags`: their tags stay.
 */
export async function deleteTerms(
	trx: Knex.Transaction,
	messageIds: readonly string[],
	{keepTags}: {readonly keepTags: boolean},
): Promise<void> {
	const found: Found[] = await trx('messages as m')
		.join('recipients as r', 'r.message_id', 'm.id')
		.leftJoin('attachments as a', join => join.on('a.message_id', 'm.id').andOnVal('a.position', 0))
		.whereRaw("r.role = 'to'")
		.whereIn('m.id', messageIds)
		.whereRaw(...nearIds(trx, 'r.id', 'rcp', messageIds))
		.select('m.id', 'm.workspace_id', 'm.metadata', 'm.tags', 'r.subject', 'a.filename', 'a.content_type');
	const [near, about] = nearIds(trx, 'message_id', 'msg', messageIds);
	const rows = rowsOf(found.map(row => storedTerms(keepTags ? {...row, tags: null} : row)));
	for (let start = 0; start < rows.length; start += rowsAtOnce) {
		const {sql, bindings} = rowSource(trx, rows.slice(start, start + rowsAtOnce), columns.length);
		await trx.raw(
			`delete from message_terms where (${columns.join(', ')}) in (select column1, column2, column3 from (${sql}) as v)
				and ${near}`,
			[...bindings, ...about] as Knex.RawBinding[],
		);
	}
}

type Found = {
	readonly id: string;
	readonly workspace_id: string;
	readonly metadata: string | null;
	readonly tags: string | null;
	readonly subject: string | null;
	/** Of the first attachment; null: there is none. */
	readonly filename?: string | null;
	readonly content_type?: string | null;
};

/** All that a message as it is stored can be found by. */
export function storedTerms({id, workspace_id: workspaceId, subject, ...row}: Found): MessageTerms {
	const attachments = row.filename ? [{filename: row.filename, contentType: row.content_type ?? ''}] : [];
	return {workspaceId, messageId: id, terms: [...termsOf({...row, attachments}), ...subjectTerms(subject ?? '')]};
}
