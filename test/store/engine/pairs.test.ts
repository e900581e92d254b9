import test from 'ava';
import {findSuppressed} from '../../../src/resources/suppressions/store.ts';
import {findOptedOut} from '../../../src/resources/topics/store.ts';
import {pairKey, selectPairs} from '../../../src/store/engine/rows.ts';
import {storeTest} from '../../helpers/databases.ts';
import {addWorkspace, newId} from '../../helpers/workspace.ts';

storeTest(test, 'finds pairs by both parts, however many are requested', async (t, store) => {
	const [one, two] = [(await addWorkspace(store, 'one')).id, (await addWorkspace(store, 'two')).id];
	const entry = {reason: 'manual', source: 'api', created_at: ''};
	for (const [workspace_id, address] of [
		[one, 'a@x.test'],
		[two, 'b@x.test'],
	]) {
		await store
			.database('suppressions')
			.insert({...entry, id: newId('sup'), workspace_id, address, address_key: address});
	}
	const asked = Array.from({length: 10_500}, (_, index) => [one, `u${index}@x.test`] as const);
	const found = await findSuppressed(store.reader, [
		[one, 'b@x.test'],
		[two, 'a@x.test'],
		...asked,
		[one, 'a@x.test'],
		[two, 'b@x.test'],
	]);
	t.deepEqual([...found.keys()].sort(), [pairKey(one, 'a@x.test'), pairKey(two, 'b@x.test')].sort());
	t.is((await findSuppressed(store.reader, [])).size, 0);
});

storeTest(test, 'finds opt-outs by address, with all their topics', async (t, store) => {
	const {id} = await addWorkspace(store, 'one');
	const optOut = {workspace_id: id, address: 'a@x.test', address_key: 'a@x.test', source: 'api', created_at: ''};
	await store.database('topic_optouts').insert([
		{...optOut, code: 'news'},
		{...optOut, code: 'offers'},
	]);
	const found = await findOptedOut(store.reader, [
		[id, 'a@x.test'],
		[id, 'b@x.test'],
	]);
	t.deepEqual(
		[...found],
		[[pairKey(id, 'a@x.test'), new Map(['news', 'offers'].map(code => [code, {source: 'api', until: null}]))]],
	);
});

storeTest(test, 'looks up pairs in an index', async (t, store, engine) => {
	const {id: workspace_id} = await addWorkspace(store, 'one');
	// Of an empty table PostgreSQL would read any index.
	const rows = Array.from({length: 500}, (_, n) => ({address: `u${n}@x.test`, address_key: `u${n}@x.test`}));
	const entry = {workspace_id, reason: 'manual', source: 'api', created_at: ''};
	await store.database('suppressions').insert(rows.map(row => ({...entry, ...row, id: newId('sup')})));
	await store.database.raw('analyze');
	const asked: Array<{sql: string; bindings: readonly string[]}> = [];
	store.reader.once('query', query => asked.push(query));
	await selectPairs(store.reader, 'suppressions', [], [[workspace_id, 'u7@x.test']]);
	const {sql = '', bindings = []} = asked[0] ?? {};
	const plan = await store.reader.transaction(async trx => {
		if (engine === 'sqlite') {
			const rows: Array<{detail: string}> = await trx.raw(`explain query plan ${sql}`, [...bindings]);
			return rows.map(row => row.detail).join('\n');
		}
		await trx.raw('set local enable_seqscan = off');
		const {rows} = await trx.raw(`explain ${sql.replaceAll(/\$\d+/g, '?')}`, [...bindings]);
		return rows.map((row: Record<string, string>) => row['QUERY PLAN']).join('\n');
	});
	t.regex(plan, /suppressions_by_address/);
	t.notRegex(plan, /SCAN suppressions(?! USING)|Seq Scan on suppressions/);
});
