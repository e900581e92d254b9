import test from 'ava';
import {insertSuppressions, type NewSuppression} from '../../src/resources/suppressions/store.ts';
import {countOptOuts, purgeOptOuts} from '../../src/resources/topics/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertWorkspace, newId} from '../helpers/messages.ts';

const at = '2026-06-09T10:15:30.123Z';

function entry(workspaceId: string, address: string, fields: Partial<NewSuppression> = {}): NewSuppression {
	const id = newId('sup');
	return {id, workspaceId, address, addressKey: address, reason: 'manual', source: 'api', createdAt: at, ...fields};
}

storeTest(
	test,
	'keeps the first entry of an address, even within one insertion, and returns the ids of new ones',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		const [b, a, again] = ['b@x.test', 'a@x.test', 'b@x.test'].map(address => entry(workspaceId, address)) as [
			NewSuppression,
			NewSuppression,
			NewSuppression,
		];
		const added = await store.writer.transaction(trx => insertSuppressions(trx, [b, a, again]));
		t.deepEqual(added, new Set([a.id, b.id]));
		const later = entry(workspaceId, 'a@x.test', {reason: 'complaint'});
		t.deepEqual(await store.writer.transaction(trx => insertSuppressions(trx, [later])), new Set());
		t.deepEqual(
			(await store.reader('suppressions').orderBy('id')).map(({id, reason}) => [id, reason]),
			[
				[b.id, 'manual'],
				[a.id, 'manual'],
			],
		);
		const other = await insertWorkspace(store, 'other');
		const theirs = entry(other.workspaceId, 'a@x.test');
		t.deepEqual(await store.writer.transaction(trx => insertSuppressions(trx, [theirs])), new Set([theirs.id]));
		t.deepEqual(await store.writer.transaction(trx => insertSuppressions(trx, [])), new Set());
	},
);

storeTest(test, 'any other entry replaces one of a test key, even within one insertion', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const insert = async (...entries: NewSuppression[]) => {
		const added = await store.writer.transaction(trx => insertSuppressions(trx, entries));
		const rows = await store.reader('suppressions').orderBy('address').select('id', 'reason', 'mode');
		return {added, rows};
	};
	const tried = entry(workspaceId, 'a@x.test', {mode: 'test'});
	const bounced = entry(workspaceId, 'a@x.test', {reason: 'hard_bounce'});
	t.deepEqual(await insert(tried), {
		added: new Set([tried.id]),
		rows: [{id: tried.id, reason: 'manual', mode: 'test'}],
	});
	t.deepEqual((await insert(entry(workspaceId, 'a@x.test', {mode: 'test'}))).added, new Set());
	const live = {id: bounced.id, reason: 'hard_bounce', mode: 'live'};
	t.deepEqual(await insert(bounced), {added: new Set([bounced.id]), rows: [live]});
	t.deepEqual(await insert(tried, entry(workspaceId, 'a@x.test')), {added: new Set(), rows: [live]});

	const [first, second] = [entry(workspaceId, 'b@x.test', {mode: 'test'}), entry(workspaceId, 'b@x.test')];
	t.deepEqual((await insert(first, second)).added, new Set([second.id]));
});

storeTest(test, 'counts opt-outs by topic and removes them in steps', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const other = await insertWorkspace(store, 'other');
	const optOut = (workspace_id: string, code: string, address: string) => ({
		...{workspace_id, code, address, address_key: address, source: 'one-click', created_at: at},
	});
	await store
		.database('topic_optouts')
		.insert([
			...[1, 2, 3, 4, 5].map(n => optOut(workspaceId, 'news', `u${n}@x.test`)),
			optOut(workspaceId, 'offers', 'u1@x.test'),
			optOut(other.workspaceId, 'news', 'u1@x.test'),
		]);
	t.deepEqual(
		await countOptOuts(store.reader, workspaceId),
		new Map([
			['news', 5],
			['offers', 1],
		]),
	);
	const forget = () => store.writer.transaction(trx => purgeOptOuts(trx, workspaceId, 'news', 3));
	t.deepEqual([await forget(), await forget(), await forget()], [3, 2, 0]);
	t.deepEqual(await countOptOuts(store.reader, workspaceId), new Map([['offers', 1]]));
	t.deepEqual(await countOptOuts(store.reader, other.workspaceId), new Map([['news', 1]]));
});
