import test from 'ava';
import fc from 'fast-check';
import {apiErrors} from '../../src/mail/api-error.ts';
import {type Answer, codeOf, startApi, type TestApi} from '../helpers/api.ts';
import {conforms} from '../helpers/conforms.ts';
import {onWriting, sqliteTest, storeTest} from '../helpers/databases.ts';
import {addKey, newId} from '../helpers/workspace.ts';

const at = '2026-06-09T10:00:00.000Z';

type Result = {
	readonly index: number;
	readonly status: 'accepted' | 'error';
	readonly id?: string;
	readonly replayed?: boolean;
	readonly error?: {readonly code: string; readonly message: string};
};

const resultsOf = ({body}: Answer) => (body as {data: Result[]}).data;
const batch = (api: TestApi, messages: unknown, key = api.key, headers = {}) =>
	api.post('/v1/messages/batch', {messages}, key, headers);
const itemOf = ({workspace}: TestApi, fields: object = {}) => ({
	from: workspace.sender,
	to: 'user@example.org',
	templateId: workspace.templateId,
	...fields,
});

/** Whether the body can be parsed at all. */
const isJson = (item: unknown) => !JSON.stringify(item).includes('__proto__');

/** Adds a suppressed address, a topic with an opt-out and a template without a version. */
async function addObstacles({store, workspace}: TestApi): Promise<{versionless: string}> {
	const versionless = newId('tpl');
	const common = {workspace_id: workspace.id, created_at: at};
	const gone = {address: 'gone@example.org', address_key: 'gone@example.org'};
	const tired = {address: 'tired@example.org', address_key: 'tired@example.org'};
	await store
		.database('templates')
		.insert({...common, id: versionless, public_id: versionless, name: 'draft', updated_at: at});
	await store.database('topics').insert({...common, id: newId('usg'), code: 'news', name: 'News'});
	await store.database('topic_optouts').insert({...common, ...tired, code: 'news', source: 'one-click'});
	await store
		.database('suppressions')
		.insert({...common, ...gone, id: newId('sup'), reason: 'manual', source: 'api'});
	return {versionless};
}

sqliteTest(test, 'validates each item separately and returns the results in order', async (t, store) => {
	conforms(t, 'batch.answer', 'batch.item', 'batch.independent', 'errors.batch-item');
	const api = await startApi(t, store);
	const {versionless} = await addObstacles(api);
	const items: Array<[unknown, string | null]> = [
		[itemOf(api, {cc: ['c@example.net']}), null],
		[itemOf(api, {to: 'gone@example.org'}), 'recipient_suppressed'],
		[itemOf(api, {to: 'Name <a@example.org>', cc: ['x']}), 'validation_failed'],
		[itemOf(api, {data: {n: 1}, unsubscribeGroup: 'news', tags: ['a']}), null],
		[itemOf(api, {to: 'tired@example.org', unsubscribeGroup: 'news'}), 'recipient_unsubscribed'],
		[itemOf(api, {unsubscribeGroup: 'olds'}), 'unknown_unsubscribe_group'],
		[itemOf(api, {templateId: versionless}), 'template_has_no_version'],
		[itemOf(api, {templateId: newId('tpl')}), 'template_not_found'],
		[itemOf(api, {templateId: null}), 'template_required'],
		[itemOf(api, {from: 'other@example.com'}), 'sender_not_available'],
		[itemOf(api, {surprise: 1}), 'validation_failed'],
		[null, 'validation_failed'],
		[7, 'validation_failed'],
		[[], 'validation_failed'],
		['x', 'validation_failed'],
		[{}, 'validation_failed'],
		[itemOf(api), null],
	];
	const answer = await batch(
		api,
		items.map(([item]) => item),
	);
	t.is(answer.status, 200, answer.text);
	const results = resultsOf(answer);
	t.deepEqual(
		results.map(({index, error}) => [index, error?.code ?? null]),
		items.map(([, code], index) => [index, code]),
	);
	for (const {status, id, error} of results) {
		t.is(status === 'accepted', id !== undefined);
		t.is(status === 'error', error !== undefined);
		t.deepEqual(Object.keys(error ?? {code: 1, message: 1}), ['code', 'message']);
	}
	t.regex(results[2]?.error?.message ?? '', /^to must be /);
	t.is(results[10]?.error?.message, 'surprise is not a known field');
	t.is(results[11]?.error?.message, 'the item must be an object');
	t.is(results[1]?.error?.message, apiErrors.recipient_suppressed.message);

	const ids = results.flatMap(({id}) => id ?? []);
	t.deepEqual(ids, ids.toSorted());
	t.deepEqual(await store.reader('messages').orderBy('id').pluck('id'), ids);
	t.deepEqual(new Set(api.announced), new Set(['example.org', 'example.net']));
	t.like(await store.reader('usage_months').first(), {accepted: 3, test: 0});
	t.is((await api.get(`/v1/messages/${ids[1]}`)).status, 200);
});

storeTest(test, 'stores a batch in one transaction, in order', async (t, store) => {
	const api = await startApi(t, store);
	let inserts = 0;
	onWriting(store, 'query', ({sql}: {sql: string}) => {
		inserts += /^(?:insert into|copy) messages\b/.test(sql) ? 1 : 0;
	});
	const answers = await Promise.all(
		[1, 2, 3].map(n =>
			batch(
				api,
				Array.from({length: 100}, (_, i) => itemOf(api, {to: `u${n}-${i}@example.org`})),
			),
		),
	);
	for (const [n, answer] of answers.entries()) {
		const ids = resultsOf(answer).map(({id}) => id as string);
		t.deepEqual(ids, ids.toSorted());
		const addresses = await store.reader('messages').whereIn('id', ids).orderBy('id').pluck('to_address');
		t.deepEqual(
			addresses,
			ids.map((_, i) => `u${n + 1}-${i}@example.org`),
		);
	}
	t.is(inserts, 3);
});

sqliteTest(test, 'rejects an invalid batch as a whole', async (t, store) => {
	conforms(t, 'batch.request', 'batch.paused', 'limits.batch');
	const api = await startApi(t, store);
	const violations = async (body: unknown) => {
		const answer = await api.post('/v1/messages/batch', body);
		t.is(codeOf(answer), 'validation_failed', JSON.stringify(body).slice(0, 50));
		return (answer.body as {error: {violations: Array<{field: string}>}}).error.violations.map(({field}) => field);
	};
	t.deepEqual(await violations({messages: []}), ['messages']);
	t.deepEqual(await violations({messages: Array.from({length: 101}, () => itemOf(api))}), ['messages']);
	t.deepEqual(await violations({messages: new Array(700_000).fill(0)}), ['messages']);
	t.deepEqual(await violations({messages: null}), ['messages']);
	t.deepEqual(await violations({messages: {0: itemOf(api)}}), ['messages']);
	t.deepEqual(await violations({}), ['messages']);
	t.deepEqual(await violations({messages: [itemOf(api)], mode: 'all'}), ['mode']);
	t.deepEqual(await violations([itemOf(api)]), ['body']);
	t.is(codeOf(await api.post('/v1/messages/batch', 'null')), 'bad_request');
	t.is((await api.post('/v1/messages/batch?x=1', {messages: [itemOf(api)]})).status, 422);
	const get = await fetch(`${api.base}/v1/messages/batch`);
	t.is(get.status, 405);
	t.is(get.headers.get('allow'), 'OPTIONS, POST');

	await store.database('workspaces').update({paused_at: at});
	api.clear();
	const paused = await batch(api, [itemOf(api), 'x']);
	t.is(paused.status, 403);
	t.is(codeOf(paused), 'sending_paused');
	t.is((await store.reader('messages')).length, 0);
	const full = Array.from({length: 100}, () => itemOf(api));
	await store.database('workspaces').update({paused_at: null});
	api.clear();
	t.is(resultsOf(await batch(api, full)).filter(({status}) => status === 'accepted').length, 100);
});

sqliteTest(test, 'ignores an Idempotency-Key header on a batch', async (t, store) => {
	conforms(t, 'batch.no-idempotency');
	const api = await startApi(t, store);
	for (const key of ['k', 'k', '', 'x'.repeat(300)]) {
		const answer = await batch(api, [itemOf(api)], api.key, {'idempotency-key': key});
		t.is(resultsOf(answer)[0]?.status, 'accepted', key);
		t.is(answer.headers.get('idempotent-replayed'), null);
	}
	t.is((await store.reader('messages')).length, 4);
	t.deepEqual(await store.reader('idempotency_keys'), []);
	const answer = await batch(api, [itemOf(api)], api.key, {'idempotency-key': 'k'});
	t.is(answer.headers.get('idempotency-key-ignored'), 'true');
	t.is((await batch(api, [itemOf(api)])).headers.get('idempotency-key-ignored'), null);
});

sqliteTest(test, 'an idempotencyKey creates one message within one batch or across several', async (t, store) => {
	const api = await startApi(t, store);
	const keyed = (idempotencyKey: string, more: object = {}) => itemOf(api, {idempotencyKey, ...more});
	const items = [keyed('a'), itemOf(api), keyed('a'), keyed('b'), keyed('a', {to: 'other@example.org'})];
	const first = resultsOf(await batch(api, items));
	t.deepEqual(
		first.map(({status, replayed, error}) => error?.code ?? [status, replayed]),
		[
			['accepted', false],
			['accepted', undefined],
			['accepted', true],
			['accepted', false],
			'idempotency_key_reused',
		],
	);
	t.is(first[2]?.id, first[0]?.id);
	t.deepEqual(
		await store.reader('messages').orderBy('id').pluck('id'),
		[0, 1, 3].map(index => first[index]?.id),
	);

	// A rejected item stores no key, and a known key is replayed before any check.
	await store.database('workspaces').update({monthly_quota: 3});
	api.clear();
	const second = resultsOf(await batch(api, [keyed('c'), keyed('b', {metadata: {n: '1'}}), keyed('')]));
	t.deepEqual(
		second.map(({replayed, error}) => error?.code ?? replayed),
		['quota_exceeded', true, 'validation_failed'],
	);
	const {from, to, templateId} = itemOf(api);
	const single = await api.post('/v1/messages', {from, to, templateId}, api.key, {'idempotency-key': 'b'});
	t.deepEqual([single.status, single.headers.get('idempotent-replayed')], [202, 'true']);
	t.is((await store.reader('messages')).length, 3);
});

storeTest(test, 'concurrent single sends and batch items with the same key create one message', async (t, store) => {
	const api = await startApi(t, store);
	const answers = await Promise.all(
		Array.from({length: 20}, (_, n) =>
			n % 2 === 0
				? batch(api, [itemOf(api, {idempotencyKey: 'k'})]).then(answer => resultsOf(answer)[0]?.id)
				: api.send({}, api.key, {'idempotency-key': 'k'}).then(({body}) => (body as {id?: string}).id),
		),
	);
	t.is(new Set(answers).size, 1);
	t.is((await store.reader('messages')).length, 1);
});

storeTest(test, 'counts each item against the quota', async (t, store) => {
	conforms(t, 'batch.quota');
	const api = await startApi(t, store);
	await store.database('workspaces').update({monthly_quota: 3});
	const items = ['a', 'b', 'x', 'c@simulator.test', 'd', 'e', 'f'].map(name =>
		itemOf(api, {to: name === 'x' || name.includes('@') ? name : `${name}@example.org`}),
	);
	const answer = await batch(api, items);
	t.deepEqual(
		resultsOf(answer).map(({status, error}) => error?.code ?? status),
		['accepted', 'accepted', 'validation_failed', 'accepted', 'accepted', 'quota_exceeded', 'quota_exceeded'],
	);
	t.like(await store.reader('usage_months').first(), {accepted: 3, test: 1});
});

sqliteTest(test, 'batch items have their own rate limit', async (t, store) => {
	const now = Date.UTC(2026, 5, 9, 10, 0, 20);
	const api = await startApi(t, store, {
		clock: {now: () => now, monotonic: () => 0},
		rateLimit: {requests: 4, windowMs: 60_000},
	});
	const headers = ({headers}: Answer) =>
		['limit', 'remaining', 'reset'].map(name => Number(headers.get(`ratelimit-${name}`)));
	const reset = now / 1000 + 40;
	t.deepEqual(headers(await api.send()), [4, 3, reset]);
	const first = await batch(api, [itemOf(api), 'x', itemOf(api)]);
	t.deepEqual(headers(first), [4, 1, reset]);
	const second = await batch(api, ['x', itemOf(api), itemOf(api), 'x']);
	t.is(second.status, 200);
	t.deepEqual(
		resultsOf(second).map(({error}) => error?.code),
		['validation_failed', 'rate_limited', 'rate_limited', 'rate_limited'],
	);
	t.deepEqual(headers(second), [4, 0, reset]);
	t.deepEqual(headers(await batch(api, [])), [4, 0, reset]);
	t.deepEqual(headers(await api.send()), [4, 2, reset]);
	const scopeless = await addKey(store, api.workspace.id, {scopes: '[]'});
	t.deepEqual(headers(await batch(api, [itemOf(api)], scopeless)), [4, 4, reset]);
});

storeTest(test, 'a batch gets 503 and stores nothing while the store cannot be written', async (t, store) => {
	const api = await startApi(t, store);
	const lost = Object.assign(new Error('lost'), {code: store.dialect.name === 'sqlite' ? 'SQLITE_FULL' : '57P01'});
	onWriting(store, 'start', builder => {
		throw builder && lost;
	});
	const answer = await batch(api, [itemOf(api), 'x', itemOf(api)]);
	t.is(answer.status, 503, answer.text);
	t.deepEqual(await store.reader('messages'), []);
	t.is((await batch(await startApi(t, store, {like: api, mayAccept: () => false}), [itemOf(api)])).status, 503);
});

sqliteTest(test, 'a batch gives each item the result it would get as a single send', async (t, store) => {
	const api = await startApi(t, store);
	await addObstacles(api);
	const address = fc.constantFrom('a@example.org', 'b@example.org', 'gone@example.org', 'tired@example.org', 'x', '');
	const item = fc.oneof(
		{
			weight: 8,
			arbitrary: fc.record(
				{
					from: fc.constantFrom(api.workspace.sender, 'HELLO@example.com', 'other@example.com'),
					to: address,
					templateId: fc.constantFrom(api.workspace.templateId, 'tpl_x', '', null),
					data: fc.oneof(
						fc.dictionary(fc.string({maxLength: 3}), fc.jsonValue({maxDepth: 1}), {maxKeys: 2}),
						fc.constant(null),
					),
					cc: fc.array(address, {maxLength: 3}),
					unsubscribeGroup: fc.constantFrom('news', 'olds', null),
					locale: fc.constantFrom('de', '', null, '!'),
					tags: fc.constantFrom(['a'], [], null, 'a'),
				},
				{requiredKeys: ['from', 'to', 'templateId']},
			),
		},
		{weight: 1, arbitrary: fc.jsonValue({maxDepth: 1})},
	);
	const stored = async (id: string | undefined) => {
		const {body} = await api.get(`/v1/messages/${id}`);
		const {id: _, created_at, updated_at, ...rest} = body as Record<string, unknown>;
		return rest;
	};
	await fc.assert(
		fc.asyncProperty(fc.array(item.filter(isJson), {minLength: 1, maxLength: 12}), async items => {
			const together = resultsOf(await batch(api, items));
			for (const [index, result] of together.entries()) {
				const alone = await api.post('/v1/messages', items[index]);
				// A body that is not an object is malformed; within a batch, it is an invalid item.
				const code = alone.status === 400 ? 'validation_failed' : codeOf(alone);
				t.is(result.error?.code, code, JSON.stringify(items[index]));
				if (alone.status === 202) {
					t.deepEqual(await stored(result.id), await stored((alone.body as {id: string}).id));
				}
			}
		}),
		{numRuns: 20},
	);
	t.deepEqual(api.reported, []);
});
