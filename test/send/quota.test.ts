import test, {type ExecutionContext} from 'ava';
import {load} from '../../src/cli/bench/measures.ts';
import type {Store} from '../../src/store/store.ts';
import {codeOf, startApi, type TestApi} from '../helpers/api.ts';
import {conforms} from '../helpers/conforms.ts';
import {engines, storeTest} from '../helpers/databases.ts';
import {startTwoNodes} from '../helpers/nodes.ts';
import {addKey, addWorkspace} from '../helpers/workspace.ts';

const now = Date.UTC(2026, 11, 31, 23, 59, 30, 500);
const clock = {now: () => now, monotonic: () => 0};
const nextMonth = Date.UTC(2027, 0) / 1000;

async function setQuota({store, workspace, clear}: TestApi, quota: number | null): Promise<void> {
	await store.database('workspaces').where({id: workspace.id}).update({monthly_quota: quota});
	clear();
}

const months = (store: Store) => store.reader('usage_months').orderBy(['workspace_id', 'month']);
const countOf = async (store: Store, table: string) => Number((await store.reader(table).count('* as n').first())?.n);

function order({base, workspace, key}: TestApi, messages: number, connections: number) {
	const send = JSON.stringify({from: workspace.sender, to: 'u{n}@example.org', templateId: workspace.templateId});
	return {
		host: '127.0.0.1',
		port: Number(new URL(base).port),
		key,
		send,
		domains: 1,
		perRequest: 1,
		messages,
		connections,
	};
}

async function checkExact(t: ExecutionContext, api: TestApi, quota: number): Promise<void> {
	const {store} = api;
	t.is(await countOf(store, 'messages'), quota);
	t.is(await countOf(store, 'recipients'), quota);
	t.like(await months(store), [{accepted: quota, test: 0}]);
	t.like(await store.reader('usage_days'), [{status: 'accepted', n: quota}]);
	const answer = await api.send();
	t.is(answer.status, 429);
	t.is(codeOf(answer), 'quota_exceeded');
}

storeTest(test, 'accepts exactly 573 of 600 sends over 64 connections with a quota of 573', async (t, store) => {
	t.timeout(300_000);
	// Its clock is stopped, or midnight could split the count between two days.
	const api = await startApi(t, store, {clock});
	await setQuota(api, 573);
	t.like(await load(order(api, 600, 64)), {accepted: 573, refused: 27});
	await checkExact(t, api, 573);
	t.deepEqual(api.reported, []);
});

if (engines.includes('postgres')) {
	test('two nodes share a quota and together accept exactly that many', async t => {
		t.timeout(300_000);
		const [one, other] = await startTwoNodes(t, {clock});
		await setQuota(one, 573);
		const reports = await Promise.all([load(order(one, 300, 32)), load(order(other, 300, 32))]);
		t.is(reports[0].accepted + reports[1].accepted, 573);
		t.is(reports[0].refused + reports[1].refused, 27);
		await checkExact(t, one, 573);
		t.deepEqual([...one.reported, ...other.reported], []);
	});
}

storeTest(test, 'the headers give the monthly quota when the quota refuses a send', async (t, store) => {
	conforms(t, 'rate.quota');
	const api = await startApi(t, store, {clock, rateLimit: {requests: 100, windowMs: 60_000}});
	await setQuota(api, 1);
	const first = await api.send();
	t.is(first.status, 202);
	t.is(first.headers.get('ratelimit-limit'), '100');
	const answer = await api.send();
	t.is(answer.status, 429);
	t.is(codeOf(answer), 'quota_exceeded');
	t.is(answer.headers.get('ratelimit-limit'), '1');
	t.is(answer.headers.get('ratelimit-remaining'), '0');
	t.is(answer.headers.get('ratelimit-reset'), String(nextMonth));
	t.is(answer.headers.get('retry-after'), '30');
	t.is(await countOf(store, 'messages'), 1);
	t.is(await countOf(store, 'contacts'), 1);

	// A quota below the count, a used-up quota, and none at all.
	await setQuota(api, 0);
	t.is((await api.send()).headers.get('ratelimit-limit'), '0');
	await setQuota(api, null);
	t.is((await api.send()).status, 202);
	t.like(await months(store), [{month: '2026-12', accepted: 2, test: 0}]);
});

storeTest(test, 'starts each month at zero', async (t, store) => {
	let time = now;
	const api = await startApi(t, store, {clock: {now: () => time, monotonic: () => 0}});
	await setQuota(api, 1);
	t.deepEqual([(await api.send()).status, (await api.send()).status], [202, 429]);
	time = nextMonth * 1000 - 1;
	t.is((await api.send()).status, 429);
	time += 1;
	t.deepEqual([(await api.send()).status, (await api.send()).status], [202, 429]);
	t.like(await months(store), [
		{month: '2026-12', accepted: 1},
		{month: '2027-01', accepted: 1},
	]);
});

storeTest(test, 'counts test and simulator messages separately and without a quota', async (t, store) => {
	const api = await startApi(t, store, {clock});
	const testKey = await addKey(store, api.workspace.id, {mode: 'test'});
	await setQuota(api, 1);
	t.is((await api.send({}, testKey)).status, 202);
	t.is((await api.send({to: 'delivered@simulator.test', cc: ['bounced@simulator.test']})).status, 202);
	// One recipient outside the simulator makes the message count.
	t.is((await api.send({to: 'delivered@simulator.test', cc: ['user@example.org']})).status, 202);
	t.is(codeOf(await api.send({to: 'delivered@simulator.test', cc: ['user@example.org']})), 'quota_exceeded');
	t.is(codeOf(await api.send()), 'quota_exceeded');
	t.is((await api.send({}, testKey)).status, 202);
	t.is((await api.send({to: 'x@simulator.test'})).status, 202);
	t.like(await months(store), [{accepted: 1, test: 4}]);
	t.like(await store.reader('usage_days'), [{status: 'accepted', n: 1, day: '2026-12-31'}]);
});

storeTest(test, 'each workspace has its own quota, even within one transaction', async (t, store) => {
	const api = await startApi(t, store, {clock});
	await setQuota(api, 10);
	const other = await addWorkspace(store, 'other');
	await store.database('senders').where({workspace_id: other.id}).update({address_key: 'they@example.com'});
	const otherKey = await addKey(store, other.id);
	const theirs = {from: 'they@example.com', templateId: other.templateId};
	const answers = await Promise.all(
		Array.from({length: 60}, (_, n) => (n % 2 ? api.send({to: `u${n}@example.org`}) : api.send(theirs, otherKey))),
	);
	t.is(answers.filter(({status}) => status === 202).length, 40);
	t.is(answers.filter(answer => codeOf(answer) === 'quota_exceeded').length, 20);
	t.deepEqual(new Set((await months(store)).map(({accepted}) => accepted)), new Set([10, 30]));
	t.is(await countOf(store, 'messages'), 40);
});
