import type {Knex} from 'knex';
import {readSizes, select, tellReading} from './by-day.ts';
import {columnsFor} from './columns.ts';

const listed = "role = 'to' and state not in ('accepted', 'queued')";

/**
 * Messages are listed by their states where they are listed by words (`src/store/message-terms.ts`), many in a row. An index of
 * states made each change of a state write an entry of each index of its copy.
 */
export async function up(knex: Knex, tell: (line: string) => void = () => undefined): Promise<void> {
	await knex.schema.alterTable('message_terms', table => {
		columnsFor(knex).text(table, 'members');
	});
	const isPostgres = knex.client.driverName === 'pg';
	if (isPostgres) {
		tellReading('Copies', await readSizes(knex, ['recipients']), tell);
	}
	await knex.raw(`insert into message_terms (workspace_id, term, message_id, members)
		select workspace_id, 's:' || state, max(message_id),
			case when count(*) > 1 then string_agg(substr(message_id, 13), ' ' order by message_id desc) end
		from recipients where ${listed} group by workspace_id, state, substr(message_id, 1, 12)`);
	await knex.raw('drop index recipients_by_state');
	if (isPostgres) {
		// A copy's row is changed at the end of its try: in its page, if there is room.
		const parts = await select<{name: string}>(
			knex,
			`select inhrelid::regclass as name from pg_inherits where inhparent = 'recipients'::regclass`,
		);
		for (const {name} of parts) {
			await knex.raw(`alter table ${name} set (fillfactor = 50)`);
		}
	}
}
