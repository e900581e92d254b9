import test from 'ava';
import {apiTime, storeTime} from '../../../src/kit/time.ts';
import {startApi} from '../../helpers/api.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {clearOfMidnight} from '../../helpers/wait.ts';
import {addKey, addWorkspace} from '../../helpers/workspace.ts';

type Stats = {
	readonly from: string;
	readonly to: string;
	readonly by: string | null;
	readonly rows: ReadonlyArray<Record<string, unknown>>;
	readonly truncated: boolean;
};

const dayMs = 86_400_000;
const zeros = {delivered: 0, bounced: 0, complained: 0, opened: 0, clicked: 0, errored: 0};

storeTest(test, 'counts a workspace’s own messages of the last days, in total or by group', async (t, store) => {
	await clearOfMidnight();
	let time = Date.now();
	const api = await startApi(t, store, {clock: {now: () => time, monotonic: () => 0}});
	const stats = async (query = '', key = api.key) => {
		const answer = await api.get(`/v1/stats${query}`, key);
		t.is(answer.status, 200, answer.text);
		return answer.body as Stats;
	};
	await api.send({to: 'a@example.net', cc: ['b@example.com']});
	await api.send({to: 'c@example.net'});
	await api.send({to: 'd@example.org'});
	await api.send({to: 'delivered@simulator.test'});
	await api.send({to: 'e@example.org'}, await addKey(store, api.workspace.id, {mode: 'test'}));
	await store.database('recipients').where({address: 'c@example.net'}).update({state: 'delivered'});
	const today = Math.floor(Date.now() / dayMs) * dayMs;

	// Messages have the machine's time and age as the test's clock advances.
	time = today + 29.5 * dayMs;
	const all = {key: 'total', ...zeros, accepted: 3, delivered: 1};
	t.deepEqual(await stats(), {
		from: apiTime(storeTime(today)),
		to: apiTime(storeTime(time)),
		by: null,
		rows: [all],
		truncated: false,
	});
	t.deepEqual((await stats('?days=29')).rows, [{key: 'total', ...zeros, accepted: 0}]);
	t.deepEqual((await stats('?days=29&by=destination')).rows, []);
	time = today + 6.5 * dayMs;
	const week = await stats('?days=7&by=destination');
	t.like(week, {from: apiTime(storeTime(today)), by: 'destination'});
	t.deepEqual(week.rows, [
		{key: 'example.net', ...zeros, accepted: 2, delivered: 1},
		{key: 'example.org', ...zeros, accepted: 1},
	]);
	const name = (await store.reader('workspaces').where({id: api.workspace.id}).first()).name;
	t.deepEqual((await stats('?by=workspace')).rows, [
		{key: name, id: api.workspace.id, ...zeros, accepted: 3, delivered: 1},
	]);
	t.like((await stats('?by=template')).rows[0], {key: 'welcome', id: api.workspace.templateId, accepted: 3});

	const other = await addKey(store, (await addWorkspace(store, 'other')).id);
	t.deepEqual((await stats('', other)).rows, [{key: 'total', ...zeros, accepted: 0}]);
	t.deepEqual((await stats('?by=workspace', other)).rows, []);
	const scopeless = await addKey(store, api.workspace.id, {scopes: '["usage:read"]'});
	t.is((await api.get('/v1/stats', scopeless)).status, 403);
});

storeTest(test, 'returns the thousand largest groups and reports if there are more', async (t, store) => {
	const api = await startApi(t, store);
	for (let n = 0; n < 1001; n += 91) {
		const messages = Array.from({length: 91}, (_, index) => ({
			...{from: api.workspace.sender, templateId: api.workspace.templateId},
			to: `a@d${n + index}.example`,
		}));
		await api.post('/v1/messages/batch', {messages});
	}
	const {rows, truncated} = (await api.get('/v1/stats?by=destination')).body as Stats;
	t.is(rows.length, 1000);
	t.true(truncated);
	await store.database('recipients').where({address: 'a@d0.example'}).update({destination: 'd1.example'});
	const fewer = (await api.get('/v1/stats?by=destination')).body as Stats;
	t.is(fewer.rows.length, 1000);
	t.false(fewer.truncated);
	t.like(fewer.rows[0], {key: 'd1.example', accepted: 2});
});

sqliteTest(test, 'rejects invalid values of days and by', async (t, store) => {
	const api = await startApi(t, store);
	for (const [query, field] of [
		...['0', '91', 'x', ''].map(days => [`days=${days}`, 'days']),
		...['total', 'Template', '', 'template&by=domain'].map(by => [`by=${by}`, 'by']),
		['from=2026-01-01', 'from'],
	]) {
		const answer = await api.get(`/v1/stats?${query}`);
		t.is(answer.status, 422, query);
		t.like((answer.body as {error: object}).error, {code: 'validation_failed', violations: [{field}]}, query);
	}
});
