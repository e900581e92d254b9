import {createHash, randomBytes} from 'node:crypto';
import test from 'ava';
import {createVault} from '../../src/store/sealed.ts';
import type {Store} from '../../src/store/store.ts';
import {type Answer, codeOf, idOf, startApi, type TestApi} from '../helpers/api.ts';
import {conforms} from '../helpers/conforms.ts';
import {engines, onWriting, sqliteTest, storeTest} from '../helpers/databases.ts';
import {startTwoNodes} from '../helpers/nodes.ts';
import {eachOf} from '../helpers/shop.ts';
import {testVault} from '../helpers/tools.ts';
import {waitFor} from '../helpers/wait.ts';
import {addKey, addWorkspace, newId} from '../helpers/workspace.ts';

const at = '2026-06-09T10:00:00.000Z';
const keyed = (api: TestApi, key: string, fields: object = {}, bearer?: string) =>
	api.send(fields, bearer ?? api.key, {'idempotency-key': key});
const isReplay = ({headers}: Answer) => headers.get('idempotent-replayed') === 'true';
const countMessages = async (store: Store) => (await store.reader('messages')).length;

/** Begins a transaction of another node that the server does not end after seven seconds, as it usually would. */
async function beginElsewhere({database}: Store) {
	const trx = await database.transaction();
	await trx.raw('set local idle_in_transaction_session_timeout = 0');
	return trx;
}

async function suppress({store, workspace}: TestApi, address: string): Promise<void> {
	const key = {address, address_key: address};
	await store.database('suppressions').insert({
		...key,
		id: newId('sup'),
		workspace_id: workspace.id,
		reason: 'manual',
		source: 'api',
		created_at: at,
	});
}

storeTest(test, '50 concurrent sends with one key create one message and get equal responses', async (t, store) => {
	conforms(t, 'idempotency.replay', 'messages.send.idempotency-header');
	const api = await startApi(t, store);
	const answers = await Promise.all(Array.from({length: 50}, () => keyed(api, 'order 77')));
	t.deepEqual(
		answers.map(({status, text}) => [status, text]),
		answers.map(() => [202, answers[0]?.text]),
	);
	t.is(answers.filter(isReplay).length, 49);
	t.is(new Set(answers.map(({headers}) => headers.get('content-type'))).size, 1);
	t.is(await countMessages(store), 1);

	const later = await keyed(api, 'order 77');
	t.is(later.text, answers[0]?.text ?? '');
	t.true(isReplay(later));
	t.is(await countMessages(store), 1);
	t.like(await store.reader('usage_months').first(), {accepted: 1});
});

sqliteTest(test, '60 keys, each sent twice concurrently, create one message each', async (t, store) => {
	const api = await startApi(t, store);
	const ids = new Set<string>();
	let replays = 0;
	await eachOf(new Array(60).keys(), 30, async n => {
		const pair = await Promise.all([1, 2].map(() => keyed(api, `k${n}`, {to: `u${n}@example.org`})));
		t.is(pair[0]?.text, pair[1]?.text ?? '');
		ids.add(idOf(pair[0] as Answer));
		replays += pair.filter(isReplay).length;
	});
	t.is(replays, 60);
	t.is(ids.size, 60);
	t.is(await countMessages(store), 60);
});

if (engines.includes('postgres')) {
	test('50 concurrent sends with one key to two nodes create one message and get equal responses', async t => {
		const nodes = await startTwoNodes(t);
		for (const key of ['a', 'b']) {
			const answers = await Promise.all(Array.from({length: 50}, (_, n) => keyed(nodes[n % 2] as TestApi, key)));
			t.is(new Set(answers.map(({status, text}) => `${status} ${text}`)).size, 1);
			t.is(answers[0]?.status, 202);
			t.is(answers.filter(isReplay).length, 49);
		}
		t.is(await countMessages(nodes[0].store), 2);
		t.deepEqual([...nodes[0].reported, ...nodes[1].reported], []);
	});

	test('waits for a key that another node is storing', async t => {
		const [{store}, api] = await startTwoNodes(t);
		const blocked = () =>
			store
				.reader('pg_stat_activity')
				.where({wait_event_type: 'Lock'})
				.whereRaw('datname = current_database()')
				.whereLike('query', '%idempotency_keys%')
				.first();
		const row = (response: string) => ({
			workspace_id: api.workspace.id,
			mode: 'live',
			key: 'k',
			fingerprint: 'other',
			response,
			message_id: newId('msg'),
			created_at: new Date().toISOString(),
		});

		const withdrawn = await beginElsewhere(store);
		await withdrawn('idempotency_keys').insert(row('withdrawn'));
		const first = keyed(api, 'k');
		await waitFor('the send to wait', blocked);
		await withdrawn.rollback();
		t.is((await first).status, 202);
		t.false(isReplay(await first));

		await store.database('idempotency_keys').delete();
		const kept = await beginElsewhere(store);
		await kept('idempotency_keys').insert(row('kept'));
		const [second, neighbour] = [keyed(api, 'k'), api.send({to: 'other@example.org'})];
		await waitFor('the send to wait', blocked);
		await kept.commit();
		t.is(codeOf(await second), 'idempotency_key_reused');
		t.is((await neighbour).status, 202);
		t.is(await countMessages(store), 2);
	});

	test('responds with 503 and stores nothing if another node hangs while storing the key', async t => {
		const [{store}, api] = await startTwoNodes(t);
		await Promise.all(api.store.writing.map(connection => connection.raw(`set lock_timeout = '300ms'`)));
		const hung = await beginElsewhere(store);
		await hung('idempotency_keys').insert({
			workspace_id: api.workspace.id,
			mode: 'live',
			key: 'k',
			fingerprint: 'f',
			response: 'r',
			message_id: newId('msg'),
			created_at: at,
		});
		const answer = await keyed(api, 'k');
		t.is(answer.status, 503);
		t.truthy(answer.headers.get('retry-after'));
		await hung.rollback();
		t.is((await keyed(api, 'k')).status, 202);
		t.is(await countMessages(store), 1);
	});
}

storeTest(test, 'replays a key stored by an earlier version or with another encryption key', async (t, store) => {
	const api = await startApi(t, store);
	const first = await keyed(api, 'k', {data: {code: '123456'}});
	const stored = async () =>
		(await store.reader('idempotency_keys').where({key: 'k'}).first()) as {fingerprint: string; others: string};
	const {fingerprint, others} = await stored();
	const digest = (text: string) => createHash('sha256').update(text).digest('base64url');
	const plain = digest(
		JSON.stringify(['hello@example.com', 'user@example.org', api.workspace.templateId, {code: '123456'}]),
	);
	t.deepEqual(
		[fingerprint, others],
		[testVault.macs('idempotency', plain)[0], testVault.macs('idempotency', digest('{}'))[0]],
	);

	const change = (changes: object) => store.database('idempotency_keys').where({key: 'k'}).update(changes);
	await change({fingerprint: plain, others: digest('{}')});
	const again = await keyed(api, 'k', {data: {code: '123456'}});
	t.deepEqual([again.text, again.headers.get('idempotent-replayed')], [first.text, 'true']);
	t.is(codeOf(await keyed(api, 'k', {data: {code: '123457'}})), 'idempotency_key_reused');
	await change({
		fingerprint: createVault({current: 1, keys: {1: randomBytes(32)}}).macs('idempotency', plain)[0],
	});
	t.true(isReplay(await keyed(api, 'k', {data: {code: '123456'}})), 'a key that only another node has yet');
	t.is(await countMessages(store), 1);
});

sqliteTest(test, 'sends differ only by from, to, templateId and data', async (t, store) => {
	conforms(t, 'idempotency.reused', 'idempotency.scope');
	const api = await startApi(t, store);
	const data = {order: {number: 7, lines: [1, 2]}, name: 'Zoë'};
	const first = await keyed(api, 'k', {data, cc: ['c@example.net'], metadata: {a: '1'}});
	t.is(first.status, 202);
	const others = {metadata: {a: '1'}, cc: ['c@example.net'], tags: null};
	for (const [fields, replayed] of [
		[{data, ...others}, 'true'],
		[{data: {name: 'Zoë', order: {lines: [1, 2], number: 7.0}}, ...others}, 'true'],
		[{data}, 'differs'],
		[{data, metadata: {a: '2'}, cc: [], tags: ['x'], replyTo: 'r@example.net', locale: 'fr'}, 'differs'],
	] as const) {
		const again = await keyed(api, 'k', fields);
		t.is(again.text, first.text);
		t.is(again.headers.get('idempotent-replayed'), replayed);
	}
	for (const fields of [
		{},
		{data: {...data, name: 'Zoe'}},
		{data: {...data, order: {number: 7, lines: [2, 1]}}},
		{data, to: 'other@example.org'},
		{data, to: 'User@example.org'},
		{data, from: 'HELLO@example.com'},
		{data, templateId: newId('tpl')},
	]) {
		const other = await keyed(api, 'k', fields);
		t.is(other.status, 409);
		t.is(codeOf(other), 'idempotency_key_reused');
	}
	t.is((await keyed(api, 'without', {data: {}})).status, 202);
	t.true(isReplay(await keyed(api, 'without', {data: null})));
	t.is(await countMessages(store), 2);
});

sqliteTest(test, 'compares the numbers of two sends by their digits', async (t, store) => {
	const api = await startApi(t, store);
	const {templateId} = api.workspace;
	const post = (data: string, key: string) =>
		api.post(
			'/v1/messages',
			`{"from":"hello@example.com","to":"user@example.org","templateId":"${templateId}","data":${data}}`,
			api.key,
			{'idempotency-key': key},
		);
	for (const [index, [one, same, other]] of [
		['{"n":1234567890123456789}', '{ "n" : 1234567890123456789 }', '{"n":1234567890123456788}'],
		['{"n":[1.10]}', '{"n": [1.10]}', '{"n":[1.1]}'],
		['{"n":{"a":1e2}}', '{"n":{"a":1e2}}', '{"n":{"a":100}}'],
		['{"n":-0}', '{"n":-0}', '{"n":0}'],
		['{"n":0.1000000000000000055}', '{"n":0.1000000000000000055}', '{"n":0.1}'],
		['{"n":1.0}', '{"n":1.0}', '{"n":"1.0"}'],
	].entries()) {
		const first = await post(one as string, `k${index}`);
		t.is(first.status, 202, first.text);
		const again = await post(same as string, `k${index}`);
		t.true(isReplay(again));
		t.is(again.text, first.text);
		t.is(codeOf(await post(other as string, `k${index}`)), 'idempotency_key_reused', other);
	}
});

sqliteTest(test, 'scopes a key to its workspace and mode', async (t, store) => {
	conforms(t, 'idempotency.scope', 'idempotency.none');
	const api = await startApi(t, store);
	const other = await addWorkspace(store, 'other');
	await store.database('senders').where({workspace_id: other.id}).update({address_key: 'they@example.com'});
	const answers = [
		await keyed(api, 'k'),
		await keyed(api, 'k', {}, await addKey(store, api.workspace.id, {mode: 'test'})),
		await keyed(api, 'k', {from: 'they@example.com', templateId: other.templateId}, await addKey(store, other.id)),
		await keyed(api, 'K'),
	];
	t.deepEqual(
		answers.map(answer => [answer.status, isReplay(answer)]),
		answers.map(() => [202, false]),
	);
	const sameWorkspace = await addKey(store, api.workspace.id);
	t.true(isReplay(await keyed(api, 'k', {}, sameWorkspace)));
	t.is(await countMessages(store), 4);
	t.not(idOf(await api.send()), idOf(await api.send()), 'without a key');
});

sqliteTest(test, 'accepts keys of 1 to 255 printable ASCII characters', async (t, store) => {
	const api = await startApi(t, store);
	for (const key of ['', ' ', 'x'.repeat(256), 'é', 'a\tb', '\u00a0']) {
		const answer = await keyed(api, key, {to: 'x'});
		t.is(answer.status, 400, key);
		t.is(codeOf(answer), 'bad_request', key);
	}
	for (const key of ['x', 'x'.repeat(255), '~!"#$ %&/,;:{}\\', '0']) {
		t.is((await keyed(api, key)).status, 202, key);
		t.true(isReplay(await keyed(api, key)));
	}
});

sqliteTest(test, 'replays before it checks the content of the send', async (t, store) => {
	const api = await startApi(t, store);
	const first = await keyed(api, 'k', {unsubscribeGroup: undefined});
	const stillReplays = async (what: string) => {
		const again = await keyed(api, 'k');
		t.is(again.text, first.text, what);
		t.true(isReplay(again), what);
		t.is(codeOf(await keyed(api, 'k', {data: {a: 1}})), 'idempotency_key_reused', what);
	};
	await suppress(api, 'user@example.org');
	await stillReplays('suppressed');
	await store.database('workspaces').update({monthly_quota: 0});
	api.clear();
	await stillReplays('no quota');
	await store.database('senders').update({disabled_at: at});
	api.clear();
	await stillReplays('no sender');
	await store.database('templates').update({deleted_at: at});
	api.clear();
	await stillReplays('no template');
	await store.database('workspaces').update({paused_at: at});
	api.clear();
	await stillReplays('paused');
	t.is(codeOf(await keyed(api, 'new')), 'sending_paused');
	t.is(codeOf(await keyed(api, 'k', {to: 'x'})), 'validation_failed');
	t.is(await countMessages(store), 1);
});

sqliteTest(test, 'does not store rejections: the next send with the key is checked anew', async (t, store) => {
	const api = await startApi(t, store);
	await suppress(api, 'gone@example.org');
	const answers = await Promise.all([
		keyed(api, 'k', {to: 'gone@example.org'}),
		keyed(api, 'k', {to: 'gone@example.org'}),
		keyed(api, 'k', {templateId: newId('tpl')}),
	]);
	t.deepEqual(answers.map(codeOf), ['recipient_suppressed', 'recipient_suppressed', 'template_not_found']);
	t.deepEqual(await store.reader('idempotency_keys'), []);
	t.false(isReplay(await keyed(api, 'k')));
	t.true(isReplay(await keyed(api, 'k')));
});

storeTest(test, 'frees the key of a send that the quota refused', async (t, store) => {
	const api = await startApi(t, store);
	await store.database('workspaces').update({monthly_quota: 1});
	const answers = await Promise.all(['a', 'b'].map(key => keyed(api, key, {to: `${key}@example.org`})));
	t.deepEqual(answers.map(({status}) => status).toSorted(), [202, 429]);
	const [taken, free] = answers[0]?.status === 202 ? ['a', 'b'] : ['b', 'a'];
	t.deepEqual(await store.reader('idempotency_keys').pluck('key'), [taken]);
	await store.database('workspaces').update({monthly_quota: 2});
	api.clear();
	t.is((await keyed(api, free, {to: 'else@example.org'})).status, 202);
	t.is(codeOf(await keyed(api, free)), 'idempotency_key_reused');
});

storeTest(test, 'a key can be reused after its retention, purged or not', async (t, store) => {
	let now = Date.UTC(2026, 5, 9);
	const api = await startApi(t, store, {
		clock: {now: () => now, monotonic: () => now},
		keyRetention: 60_000,
	});
	const first = await keyed(api, 'k');
	now += 59_999;
	t.is((await keyed(api, 'k')).text, first.text);
	now += 1;
	const second = await keyed(api, 'k', {data: {other: true}});
	t.is(second.status, 202);
	t.false(isReplay(second));
	t.not(idOf(second), idOf(first));
	t.is((await keyed(api, 'k', {data: {other: true}})).text, second.text);
	t.is((await store.reader('idempotency_keys')).length, 1);
	// Even if the send would be rejected.
	now += 60_000;
	await suppress(api, 'user@example.org');
	t.is(codeOf(await keyed(api, 'k', {data: {other: true}})), 'recipient_suppressed');
	await store.database('workspaces').update({paused_at: at});
	api.clear();
	t.is(codeOf(await keyed(api, 'k', {data: {other: true}})), 'sending_paused');
});

storeTest(test, 'responds with 503 if the first send takes too long', async (t, store) => {
	const api = await startApi(t, store, {keyWait: 100});
	let release = () => {};
	const held = new Promise<void>(resolve => {
		release = resolve;
	});
	const holding = {name: 'held', rank: 0, isBeside: true, apply: () => held.then(() => [null])};
	const hold = store.writer.submit(holding, null);
	const both = [keyed(api, 'k'), keyed(api, 'k')];
	const early = await Promise.race(both);
	t.is(early.status, 503);
	t.is(codeOf(early), 'unavailable');
	t.truthy(early.headers.get('retry-after'));
	release();
	await hold;
	t.deepEqual((await Promise.all(both)).map(({status}) => status).toSorted(), [202, 503]);
	t.true(isReplay(await keyed(api, 'k')));
	t.is(await countMessages(store), 1);
});

storeTest(test, 'frees the key of a send that the store failed to write', async (t, store) => {
	const api = await startApi(t, store);
	const lost = Object.assign(new Error('lost'), {code: store.dialect.name === 'sqlite' ? 'SQLITE_FULL' : '57P01'});
	const failing = {is: true};
	onWriting(store, 'start', builder => {
		if (builder && failing.is) {
			throw lost;
		}
	});
	const answers = await Promise.all([keyed(api, 'k'), keyed(api, 'k')]);
	t.deepEqual(
		answers.map(({status}) => status),
		[503, 503],
	);
	failing.is = false;
	const answer = await keyed(api, 'k');
	t.is(answer.status, 202);
	t.false(isReplay(answer));
});
