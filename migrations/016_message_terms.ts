import type {Knex} from 'knex';
import {insertRows} from '../src/store/engine/insert-rows.ts';
import {storedTerms} from '../src/store/message-terms.ts';
import {clusteredTable, columnsFor} from './columns.ts';

const messagesAtOnce = 1000;

/** What messages are found by besides their columns: words of the subject, metadata, tags. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnsFor(knex);
	await clusteredTable(knex, 'message_terms', ['workspace_id', 'term', 'message_id'], table => {
		text(table, 'workspace_id').notNullable();
		/** See src/mail/terms.ts. */
		text(table, 'term').notNullable();
		text(table, 'message_id').notNullable();
	});

	for (let after: string | undefined = ''; after !== undefined; ) {
		const rows: Array<Parameters<typeof storedTerms>[0]> = await knex('messages as m')
			.join('recipients as r', 'r.message_id', 'm.id')
			.whereRaw("r.role = 'to'")
			.where('m.id', '>', after)
			.orderBy('m.id')
			.limit(messagesAtOnce)
			.select('m.id', 'm.workspace_id', 'm.metadata', 'm.tags', 'r.subject');
		await insertRows(
			knex as Knex.Transaction,
			'message_terms',
			['workspace_id', 'term', 'message_id'],
			rows.map(storedTerms).flatMap(one => one.terms.map(term => [one.workspaceId, term, one.messageId])),
			'on conflict do nothing',
		);
		after = rows.at(-1)?.id;
	}
}
