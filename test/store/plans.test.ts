import test from 'ava';
import type {Knex} from 'knex';
import type {Store} from '../../src/store/store.ts';
import {type Engine, storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';

/** How the engine would run a query, as one text. */
async function planOf(store: Store, engine: Engine, query: Knex.QueryBuilder): Promise<string> {
	const {sql, bindings} = query.toSQL();
	if (engine === 'sqlite') {
		const rows: Array<{detail: string}> = await store.reader.raw(`explain query plan ${sql}`, [...bindings]);
		return rows.map(row => row.detail).join('\n');
	}
	// With few rows PostgreSQL would read the table from end to end: ask what it does when it must not.
	return await store.reader.transaction(async trx => {
		await trx.raw('set local enable_seqscan = off');
		const {rows} = await trx.raw(`explain ${sql}`, [...bindings]);
		return rows.map((row: Record<string, string>) => row['QUERY PLAN']).join('\n');
	});
}

const due = (store: Store) =>
	store
		.reader('recipients')
		.select('id')
		.where('destination', 'a.test')
		.where('next_attempt_at', '<=', '2026-06-09T00:00:00.000Z')
		.whereNull('held_at')
		.orderBy('next_attempt_at')
		.limit(20);

storeTest(test, 'claims and the scheduler’s start read an index', async (t, store, engine) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test', 'two@b.test']);
	t.regex(await planOf(store, engine, due(store)), /recipients_due/);
	const destinations = store
		.reader('recipients')
		.select('destination')
		.min('next_attempt_at as due')
		.whereNotNull('next_attempt_at')
		.groupBy('destination');
	t.regex(await planOf(store, engine, destinations), /recipients_due/);
	const next = store
		.reader('recipients')
		.min('next_attempt_at as due')
		.where({destination: 'a.test'})
		.where('next_attempt_at', '>', '2026-06-09T00:00:00.000Z');
	t.regex(await planOf(store, engine, next), /recipients_due/);
	const others = store.reader('recipients').select('id').whereNotNull('claimed_by').whereNot('claimed_by', 'x');
	t.regex(await planOf(store, engine, others), /recipients_claimed/);
});
