import test from 'ava';
import {systemClock} from '../../../src/kit/clock.ts';
import {webhookEventTypes} from '../../../src/mail/message.ts';
import {codeOf, startApi, type TestApi} from '../../helpers/api.ts';
import {conforms} from '../../helpers/conforms.ts';
import {newStore, sqliteTest, storeTest} from '../../helpers/databases.ts';
import {refusedUrls} from '../../helpers/refused-urls.ts';
import {insertDue, rowOf} from '../../helpers/webhooks.ts';
import {addKey, addWorkspace, newId} from '../../helpers/workspace.ts';

const url = 'https://shop.example/hooks/mail';

type Endpoint = {readonly id: string; readonly signing_secret: string};
type Page<Item> = {readonly data: Item[]; readonly next_cursor: string | null};

async function register(api: TestApi, fields: object = {}): Promise<Endpoint> {
	const answer = await api.post('/v1/webhooks', {url, events: ['delivered'], ...fields});
	if (answer.status !== 201) {
		throw new Error(answer.text);
	}
	return answer.body as Endpoint;
}

sqliteTest(test, 'registers, lists and deletes an endpoint', async (t, store) => {
	conforms(t, 'webhooks.add.answer', 'webhooks.list.answer', 'webhooks.delete.answer');
	conforms(t, 'webhooks.delete.rotation', 'endpoint.id', 'endpoint.url', 'endpoint.events', 'endpoint.active');
	conforms(t, 'endpoint.signing_secret', 'endpoint.created_at');
	const api = await startApi(t, store);
	const answer = await api.post('/v1/webhooks', {url, events: ['bounced', 'delivered']});
	t.is(answer.status, 201);
	const endpoint = answer.body as Endpoint & {created_at: string};
	t.regex(endpoint.id, /^whe_[0-9a-hjkmnp-tv-z]{26}$/);
	t.regex(endpoint.signing_secret, /^whsec_[\w-]{43}$/);
	t.regex(endpoint.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/);
	t.like(endpoint, {url, events: ['bounced', 'delivered'], active: true});
	t.false(
		JSON.stringify(await store.reader('webhook_endpoints')).includes(endpoint.signing_secret),
		'sealed at rest',
	);

	const twin = await register(api);
	t.not(twin.signing_secret, endpoint.signing_secret);
	t.deepEqual((await api.get('/v1/webhooks')).body, {data: [twin, endpoint], next_cursor: null});

	const removed = await api.remove(`/v1/webhooks/${endpoint.id}`);
	t.is(removed.status, 204);
	t.is(removed.text, '');
	t.is((await api.remove(`/v1/webhooks/${endpoint.id}`)).status, 404);
	t.deepEqual(((await api.get('/v1/webhooks')).body as Page<Endpoint>).data, [twin]);
});

test('refuses invalid URLs and those that point to internal addresses', async t => {
	conforms(t, 'webhooks.add.refused', 'webhook-safety.rule-1', 'errors.422.unprocessable_entity');
	const api = await startApi(t, await newStore(t, 'sqlite'));
	for (const refused of refusedUrls) {
		const answer = await api.post('/v1/webhooks', {url: refused, events: ['delivered']});
		t.is(answer.status, 422, refused);
		t.is(codeOf(answer), 'unprocessable_entity', refused);
		t.regex((answer.body as {error: {message: string}}).error.message, /^The URL must .+\.$/);
	}
	t.deepEqual((await api.get('/v1/webhooks')).body, {data: [], next_cursor: null});
});

test('reports all invalid fields at once', async t => {
	conforms(t, 'webhooks.add.request');
	const api = await startApi(t, await newStore(t, 'sqlite'));
	const violations = async (body: unknown) => {
		const answer = await api.post('/v1/webhooks', body);
		t.is(answer.status, 422);
		t.is(codeOf(answer), 'validation_failed');
		const found = (answer.body as {error: {violations: Array<{field: string; message: string}>}}).error.violations;
		return Object.fromEntries(found.map(({field, message}) => [field, message]));
	};
	const known = `must be one of ${webhookEventTypes.join(', ')}`;
	t.deepEqual(await violations({}), {url: 'is required', events: 'is required'});
	t.deepEqual(await violations({url: 7, events: 'delivered', active: true}), {
		url: 'must be a string',
		events: 'must be an array',
		active: 'is not a known field',
	});
	t.deepEqual(await violations({url, events: []}), {events: 'must not be empty'});
	t.deepEqual(await violations({url, events: ['delivered', 'delivered']}), {events: 'must not contain duplicates'});
	t.deepEqual(await violations({url, events: ['delivered', 'sent', 5]}), {
		'events[1]': known,
		'events[2]': known,
	});
	t.deepEqual(await violations({url: `https://shop.example/${'x'.repeat(2000)}`, events: ['opened']}), {
		url: 'must be at most 2000 characters long',
	});
	t.deepEqual(await violations({url: 'http://x', events: new Array(10_000).fill('opened')}), {
		events: 'must have at most 12 items',
	});
	t.is((await api.post('/v1/webhooks', '')).status, 400);
});

sqliteTest(test, 'allows fifty endpoints per workspace, not counting deleted ones', async (t, store) => {
	const api = await startApi(t, store);
	let last = '';
	for (let n = 0; n < 50; n++) {
		last = (await register(api)).id;
	}
	const refused = await api.post('/v1/webhooks', {url, events: ['delivered']});
	t.is(refused.status, 422);
	t.is(codeOf(refused), 'unprocessable_entity');
	const page = (await api.get('/v1/webhooks')).body as Page<Endpoint>;
	t.is(page.data.length, 50);
	t.is(page.next_cursor, null);
	await api.remove(`/v1/webhooks/${last}`);
	await register(api);

	const seen: string[] = [];
	let cursor: string | null = '';
	while (cursor !== null) {
		const next = (await api.get(`/v1/webhooks?limit=20${cursor === '' ? '' : `&cursor=${cursor}`}`))
			.body as Page<Endpoint>;
		seen.push(...next.data.map(({id}) => id));
		cursor = next.next_cursor;
	}
	t.is(seen.length, 50);
	t.deepEqual(seen, seen.toSorted().toReversed());
});

storeTest(test, 'lists deliveries newest first, with the result of the last attempt', async (t, store) => {
	const api = await startApi(t, store);
	const {id: endpoint} = await register(api);
	const [first = '', second = '', third = ''] = await insertDue(store, api.workspace.id, endpoint, 3);
	const attempt = {at: '2026-06-09T10:15:31.500Z', ms: 12, generation: 0};
	await store.database('webhook_attempts').insert([
		{...attempt, delivery_id: first, n: 1, status: null, error: 'no response within 15 s'},
		{...attempt, delivery_id: first, n: 2, status: 503, error: 'the server responded with 503'},
		{...attempt, delivery_id: second, n: 1, status: 200, error: null},
	]);
	await store
		.database('webhook_deliveries')
		.where({id: first})
		.update({state: 'failed', attempts: 2, last_attempt_at: attempt.at});
	await store
		.database('webhook_queue')
		.where({delivery_id: first})
		.update({next_attempt_at: '2026-06-09T10:16:31.600Z'});
	await store
		.database('webhook_deliveries')
		.where({id: second})
		.update({state: 'delivered', attempts: 1, last_attempt_at: attempt.at});
	await store.database('webhook_queue').where({delivery_id: second}).delete();

	const page = (await api.get(`/v1/webhooks/${endpoint}/deliveries`)).body as Page<Record<string, unknown>>;
	t.is(page.next_cursor, null);
	t.deepEqual(
		page.data.map(({id}) => id),
		[third, second, first],
	);
	t.like(page.data[0], {status: 'pending', attempts: 0, last_attempt_at: null, last_status: null, last_error: null});
	t.like(page.data[1], {status: 'delivered', attempts: 1, last_status: 200, last_error: null, next_attempt_at: null});
	t.like(page.data[2], {
		event_type: 'delivered',
		status: 'failed',
		attempts: 2,
		payload: {type: 'delivered'},
		last_attempt_at: '2026-06-09T10:15:31+00:00',
		next_attempt_at: '2026-06-09T10:16:31+00:00',
		last_status: 503,
		last_error: 'the server responded with 503',
	});

	const part = (await api.get(`/v1/webhooks/${endpoint}/deliveries?limit=2`)).body as Page<{id: string}>;
	t.deepEqual(
		part.data.map(({id}) => id),
		[third, second],
	);
	await insertDue(store, api.workspace.id, endpoint, 1);
	const rest = await api.get(`/v1/webhooks/${endpoint}/deliveries?limit=2&cursor=${part.next_cursor}`);
	t.deepEqual(
		(rest.body as Page<{id: string}>).data.map(({id}) => id),
		[first],
	);
	const {id: other} = await register(api);
	t.is((await api.get(`/v1/webhooks/${other}/deliveries?cursor=${part.next_cursor}`)).status, 422);
});

storeTest(test, 'ends a page of deliveries before the response gets too large', async (t, store) => {
	const api = await startApi(t, store);
	const {id: endpoint} = await register(api);
	const due = await insertDue(store, api.workspace.id, endpoint, 6);
	const body = Buffer.from(JSON.stringify({type: 'delivered', metadata: {text: 'x'.repeat(300_000)}}));
	await store.database('webhook_deliveries').whereIn('id', due.slice(1)).update({body});
	const list = async (query = '') =>
		(await api.get(`/v1/webhooks/${endpoint}/deliveries?limit=100${query}`)).body as Page<{id: string}>;
	const first = await list();
	t.deepEqual(
		first.data.map(({id}) => id),
		due.slice(-3).toReversed(),
	);
	const second = await list(`&cursor=${first.next_cursor}`);
	t.deepEqual(
		second.data.map(({id}) => id),
		due.slice(0, -3).toReversed(),
	);
	t.is(second.next_cursor, null);
});

sqliteTest(test, 'a replayed delivery is due now with no attempts, whatever its state', async (t, store) => {
	conforms(t, 'webhooks.replay.request');
	const api = await startApi(t, store);
	const {id: endpoint} = await register(api);
	const [id = '', pending = ''] = await insertDue(store, api.workspace.id, endpoint, 2);
	await store
		.database('webhook_deliveries')
		.where({id})
		.update({state: 'exhausted', attempts: 5, last_attempt_at: '2026-06-09T10:15:31.500Z'});
	await store.database('webhook_queue').where({delivery_id: id}).delete();
	for (const [target, body] of [
		[id, '{}'],
		[id, ' {}'],
		[pending, '{}'],
	] as const) {
		const answer = await api.post(`/v1/webhooks/deliveries/${target}/replay`, body);
		t.is(answer.status, 202);
		t.like(answer.body, {id: target, status: 'pending', attempts: 0, payload: {type: 'delivered'}});
		t.is(api.due.at(-1), endpoint);
	}
	const bare = await fetch(`${api.base}/v1/webhooks/deliveries/${id}/replay`, {
		method: 'POST',
		headers: {authorization: `Bearer ${api.key}`},
	});
	t.is(bare.status, 202);
	t.like(await rowOf(store, id), {state: 'pending', attempts: 0, generation: 3, claimed_by: null});
	t.is(codeOf(await api.post(`/v1/webhooks/deliveries/${id}/replay`, '')), 'bad_request');

	const odd = await api.post(`/v1/webhooks/deliveries/${id}/replay`, {now: true});
	t.is(codeOf(odd), 'validation_failed');
	t.is((await api.post(`/v1/webhooks/deliveries/${id}/replay`, '[]')).status, 422);
	await api.remove(`/v1/webhooks/${endpoint}`);
	t.is(codeOf(await api.post(`/v1/webhooks/deliveries/${id}/replay`, {})), 'not_found');
});

sqliteTest(test, 'treats endpoints and deliveries of another workspace as unknown', async (t, store) => {
	const api = await startApi(t, store);
	const {id: endpoint} = await register(api);
	const [delivery = ''] = await insertDue(store, api.workspace.id, endpoint, 1);
	const stranger = await addKey(store, (await addWorkspace(store, 'other')).id);
	t.deepEqual((await api.get('/v1/webhooks', stranger)).body, {data: [], next_cursor: null});
	const answers = async (whe: string, whd: string) => {
		const all = [
			await api.get(`/v1/webhooks/${whe}/deliveries`, stranger),
			await api.remove(`/v1/webhooks/${whe}`, stranger),
			await api.post(`/v1/webhooks/deliveries/${whd}/replay`, {}, stranger),
		];
		return all.map(({status, body}) => {
			const {code, message} = (body as {error: {code: string; message: string}}).error;
			return {status, code, message};
		});
	};
	const foreign = await answers(endpoint, delivery);
	t.deepEqual(
		foreign.map(({status, code}) => [status, code]),
		new Array(3).fill([404, 'not_found']),
	);
	t.deepEqual(await answers(newId('whe'), newId('whd')), foreign);
	t.deepEqual(await answers(delivery, endpoint), foreign);
	t.deepEqual(await answers('whe_x%27--', 'deliveries'), foreign);
	t.is((await rowOf(store, delivery)).generation, 0);
});

sqliteTest(test, 'only keys that may read inbound messages get them, also by webhook', async (t, store) => {
	const api = await startApi(t, store);
	const scopes = '["webhooks:manage","webhooks:read"]';
	const key = await addKey(store, api.workspace.id, {scopes});
	const {id} = await register(api, {events: ['received']});
	const path = `/v1/webhooks/${id}`;
	for (const refused of [
		await api.post('/v1/webhooks', {url, events: ['delivered', 'received']}, key),
		await api.patch(path, {events: ['received']}, key),
		await api.patch(path, {url: 'https://new.example/hook'}, key),
	]) {
		t.is(codeOf(refused), 'insufficient_scope', refused.text);
		t.regex(refused.text, /received:read/);
	}
	t.is((await api.patch(path, {active: true}, key)).status, 200);
	const [delivery = ''] = await insertDue(store, api.workspace.id, id, 1);
	const body = JSON.stringify({type: 'received', recipient: null, detail: {id: 'rcv_1', text: 'secret'}});
	await store.writer.transaction(trx =>
		trx('webhook_deliveries')
			.where({id: delivery})
			.update({event_type: 'received', body: Buffer.from(body)}),
	);
	const replay = `/v1/webhooks/deliveries/${delivery}/replay`;
	for (const {text} of [await api.get(`${path}/deliveries`, key), await api.post(replay, {}, key)]) {
		t.regex(text, /"detail":\{"id":"rcv_1"\}/);
	}
	t.regex((await api.get(`${path}/deliveries`)).text, /secret/);
});

sqliteTest(
	test,
	'rotating a secret returns the new one and keeps the old one valid until the overlap ends',
	async (t, store) => {
		let now = Date.parse('2026-06-09T10:15:30Z');
		const api = await startApi(t, store, {clock: {...systemClock, now: () => now}});
		const endpoint = await register(api);
		const path = `/v1/webhooks/${endpoint.id}/rotate-secret`;
		type Rotated = Endpoint & {readonly previous_secret_expires_at: string | null};
		const rotate = async (body: unknown) => {
			const answer = await api.post(path, body);
			t.is(answer.status, 200, answer.text);
			return answer.body as Rotated;
		};
		const row = async () => (await store.reader('webhook_endpoints').first()) as Record<string, string | null>;
		const listed = async () => ((await api.get('/v1/webhooks')).body as Page<Rotated>).data[0];

		const first = await rotate({});
		t.regex(first.signing_secret, /^whsec_[\w-]{43}$/);
		t.not(first.signing_secret, endpoint.signing_secret);
		t.deepEqual({...first, signing_secret: ''}, {
			...endpoint,
			signing_secret: '',
			previous_secret_expires_at: '2026-06-10T10:15:30+00:00',
		} as Rotated);
		t.deepEqual(await listed(), first);
		const sealed = await row();
		t.regex(sealed.previous_secret ?? '', /^v1\./);
		t.false(JSON.stringify(sealed).includes('whsec_'), 'sealed at rest');

		const second = await rotate({overlap: '1h'});
		t.is(second.previous_secret_expires_at, '2026-06-09T11:15:30+00:00');
		t.is((await row()).previous_secret, sealed.secret ?? '', 'the secret shown so far is the old one now');
		t.is((await rotate({overlap: 90})).previous_secret_expires_at, '2026-06-09T10:17:00+00:00');
		now += 90_000;
		t.is((await listed())?.previous_secret_expires_at, null);

		const third = await rotate({overlap: '0'});
		t.is(third.previous_secret_expires_at, null);
		t.like(await row(), {previous_secret: null, previous_until: null});
		t.is((await rotate({overlap: null})).previous_secret_expires_at, '2026-06-10T10:17:00+00:00');
		await api.remove(`/v1/webhooks/${endpoint.id}`);
		t.like(await row(), {secret: '', previous_secret: null});
		t.is((await api.post(path, {})).status, 404);
	},
);

test('a rotation needs no body and rejects invalid overlaps, ids and keys', async t => {
	const store = await newStore(t, 'sqlite');
	const api = await startApi(t, store);
	const {id} = await register(api);
	const path = `/v1/webhooks/${id}/rotate-secret`;
	const bare = await fetch(api.base + path, {method: 'POST', headers: {authorization: `Bearer ${api.key}`}});
	t.is(bare.status, 200, 'no body at all');
	for (const overlap of ['31d', '-1', 'x', '', -1, 2_592_001, 1.5, true, {}]) {
		const refused = await api.post(path, {overlap});
		t.is(refused.status, 422, String(overlap));
		t.is(codeOf(refused), 'validation_failed');
	}
	t.is((await api.post(path, {overlaps: '1h'})).status, 422);
	t.is((await api.post('/v1/webhooks/x/rotate-secret', {})).status, 404);
	const reader = await addKey(store, api.workspace.id, {scopes: '["webhooks:read"]'});
	t.is((await api.post(path, {}, reader)).status, 403);
	const other = await addWorkspace(store, 'other');
	t.is((await api.post(path, {}, await addKey(store, other.id))).status, 404);
	const tested = await addKey(store, api.workspace.id, {mode: 'test'});
	t.is((await api.post(path, {}, tested)).status, 404, 'a live endpoint is not a test key’s');
	const mine = (await api.post('/v1/webhooks', {url, events: ['delivered']}, tested)).body as Endpoint;
	t.is((await api.post(`/v1/webhooks/${mine.id}/rotate-secret`, {}, tested)).status, 200);
});

sqliteTest(
	test,
	'changes the URL and events of an endpoint, disables and enables it, and keeps its secret',
	async (t, store) => {
		const api = await startApi(t, store);
		const made = await register(api);
		const path = `/v1/webhooks/${made.id}`;
		const moved = await api.patch(path, {url: 'https://new.example/hook', events: ['opened', 'bounced']});
		t.is(moved.status, 200, moved.text);
		t.deepEqual(moved.body, {...made, url: 'https://new.example/hook', events: ['opened', 'bounced']} as object);
		t.like((await api.patch(path, {active: false})).body, {active: false, events: ['opened', 'bounced']});
		t.like((await api.patch(path, {})).body, {active: false, url: 'https://new.example/hook'});
		await store.database('webhook_endpoints').update({failing_since: '2026-01-01T00:00:00.000Z'});
		// It starts afresh: an old failure must not disable it again.
		t.like((await api.patch(path, {active: true, url})).body, {active: true, url, failing_since: null});
		t.deepEqual((await api.get('/v1/webhooks')).body, {
			data: [{...made, events: ['opened', 'bounced']}],
			next_cursor: null,
		} as object);
		for (const bad of refusedUrls) {
			t.is(codeOf(await api.patch(path, {url: bad})), 'unprocessable_entity', bad);
		}
		for (const body of [{events: []}, {events: ['sent']}, {active: 1}, {signing_secret: 'x'}]) {
			t.is(codeOf(await api.patch(path, body)), 'validation_failed');
		}
		const acts = await store.reader('audit').where({target: made.id}).orderBy('id').select('action', 'detail');
		t.deepEqual(
			acts.map(({action}) => action),
			['webhook.created', 'webhook.updated', 'webhook.disabled', 'webhook.updated', 'webhook.enabled'],
		);
		t.false(JSON.stringify(acts).includes('/hook'), 'a path may hold a secret');
		const stranger = await addKey(store, (await addWorkspace(store, 'globex')).id);
		for (const [id, key] of [
			[made.id, stranger],
			[newId('whe'), api.key],
			['x', api.key],
		] as const) {
			t.is(codeOf(await api.patch(`/v1/webhooks/${id}`, {active: false}, key)), 'not_found');
			t.is(codeOf(await api.post(`/v1/webhooks/${id}/test`, {}, key)), 'not_found');
		}
	},
);

test('a test reports why an endpoint does not acknowledge, and stores nothing', async t => {
	const store = await newStore(t, 'sqlite');
	const api = await startApi(t, store);
	const {id} = await register(api);
	const tested = await api.post(`/v1/webhooks/${id}/test`, {});
	t.is(tested.status, 200, tested.text);
	t.like(tested.body, {acknowledged: false, status: null});
	t.regex((tested.body as {error: string}).error, /\w/);
	t.is((await store.reader('webhook_deliveries')).length, 0);
});
