import test from 'ava';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {planOfQuery} from '../helpers/plans.ts';

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
	t.regex(await planOfQuery(store, engine, due(store)), /recipients_due/);
	const destinations = store
		.reader('recipients')
		.select('destination')
		.min('next_attempt_at as due')
		.whereNotNull('next_attempt_at')
		.groupBy('destination');
	t.regex(await planOfQuery(store, engine, destinations), /recipients_due/);
	const next = store
		.reader('recipients')
		.min('next_attempt_at as due')
		.where({destination: 'a.test'})
		.where('next_attempt_at', '>', '2026-06-09T00:00:00.000Z');
	t.regex(await planOfQuery(store, engine, next), /recipients_due/);
	const others = store.reader('recipients').select('id').whereNotNull('claimed_by').whereNot('claimed_by', 'x');
	t.regex(await planOfQuery(store, engine, others), /recipients_claimed/);
});
