import test, {type ExecutionContext} from 'ava';
import type {Caller} from '../../src/api/caller.ts';
import {KeyRateLimits} from '../../src/api/rate-limit.ts';
import {readRateLimit} from '../../src/mail/api-key.ts';
import {sharePart} from '../../src/store/nodes.ts';
import {type Answer, codeOf, idOf, startApi} from '../helpers/api.ts';
import {conforms} from '../helpers/conforms.ts';
import {engines, newStore, sqliteTest} from '../helpers/databases.ts';
import {type ApiDocument, operationsOf} from '../helpers/described.ts';
import {heldBytes} from '../helpers/held-bytes.ts';
import {rawHttp} from '../helpers/raw-http.ts';
import {addKey, addWorkspace, newId} from '../helpers/workspace.ts';

const start = Date.UTC(2026, 5, 9, 10, 0, 20);
const limitsIn = ({headers}: {headers: Headers}) =>
	['limit', 'remaining', 'reset'].map(name => Number(headers.get(`ratelimit-${name}`) ?? Number.NaN));

function clockAt(time: number) {
	const state = {time};
	return {state, clock: {now: () => state.time, monotonic: () => 0}};
}

sqliteTest(test, 'limits the sends of a key in a window that starts with the minute', async (t, store) => {
	conforms(t, 'rate.headers', 'rate.per-key', 'rate.exceeded', 'errors.429.rate_limited');
	const {state, clock} = clockAt(start);
	const api = await startApi(t, store, {clock, rateLimit: {requests: 3, windowMs: 60_000}});
	const reset = start / 1000 + 40;
	t.deepEqual(limitsIn(await api.send()), [3, 2, reset]);
	t.deepEqual(limitsIn(await api.send({to: 'x'})), [3, 1, reset]);
	const id = idOf(await api.send());
	const refused = await api.send();
	t.is(refused.status, 429);
	t.is(codeOf(refused), 'rate_limited');
	t.deepEqual(limitsIn(refused), [3, 0, reset]);
	t.is(refused.headers.get('retry-after'), '40');
	t.is((await store.reader('messages')).length, 2);

	// Other keys do not share it, and reads are not limited.
	t.deepEqual(limitsIn(await api.send({}, await addKey(store, api.workspace.id))), [3, 2, reset]);
	t.deepEqual(limitsIn(await api.get(`/v1/messages/${id}`)), [3, 0, reset]);

	state.time = reset * 1000 - 1;
	const late = await api.send();
	t.is(late.status, 429);
	t.is(late.headers.get('retry-after'), '1');
	state.time++;
	t.deepEqual(limitsIn(await api.send()), [3, 2, reset + 60]);
});

sqliteTest(test, 'a key can have its own limit, or none', async (t, store) => {
	const {clock} = clockAt(start);
	const api = await startApi(t, store, {clock, rateLimit: {requests: 3, windowMs: 60_000}});
	const narrow = await addKey(store, api.workspace.id, {rate_limit: '1/3600'});
	t.deepEqual(limitsIn(await api.send({}, narrow)), [1, 0, Date.UTC(2026, 5, 9, 11) / 1000]);
	t.is((await api.send({}, narrow)).headers.get('retry-after'), String(3600 - 20));
	const free = await addKey(store, api.workspace.id, {rate_limit: '0'});
	for (let sends = 0; sends < 5; sends++) {
		const answer = await api.send({}, free);
		t.is(answer.status, 202);
		t.deepEqual(limitsIn(answer), [1_000_000_000, 1_000_000_000, start / 1000 + 60]);
	}
	await store.database('api_keys').update({rate_limit: '2/3600'});
	api.clear();
	t.is((await api.send({}, narrow)).status, 202);
	t.is((await api.send({}, narrow)).status, 429);
});

sqliteTest(test, 'every response to a valid key has the rate limit headers, whatever its status', async (t, store) => {
	conforms(t, 'messages.send.headers');
	const {clock} = clockAt(start);
	const failing = {is: false};
	const api = await startApi(t, store, {
		clock,
		rateLimit: {requests: 100, windowMs: 60_000},
		mayAccept: () => !failing.is,
	});
	const key = await addKey(store, api.workspace.id);
	const scopeless = await addKey(store, api.workspace.id, {scopes: '[]'});
	const send = (fields: object, headers: Record<string, string> = {}) => api.send(fields, key, headers);
	const again = {'idempotency-key': 'k'};
	const answers: Array<readonly [status: number, answer: Answer]> = [
		[202, await send({}, again)],
		[202, await send({}, again)],
		[409, await send({data: {a: 1}}, again)],
		[400, await api.post('/v1/messages', '{', key)],
		[400, await send({}, {'idempotency-key': ''})],
		[413, await send({data: {a: 'x'.repeat(6 * 1024 * 1024)}})],
		[415, await send({}, {'content-type': 'text/plain'})],
		[422, await send({to: 'x'})],
		[422, await send({templateId: 'x'})],
	];
	failing.is = true;
	answers.push([503, await send({})]);
	for (const [index, [status, answer]] of answers.entries()) {
		t.is(answer.status, status, answer.text);
		t.deepEqual(limitsIn(answer), [100, 99 - index, start / 1000 + 40], answer.text);
	}
	const forbidden = await api.send({}, scopeless);
	t.is(forbidden.status, 403);
	t.deepEqual(limitsIn(forbidden), [100, 100, start / 1000 + 40]);
	const unknown = await api.send({}, 'key_live_x');
	t.is(unknown.status, 401);
	t.false([...unknown.headers.keys()].some(name => name.startsWith('ratelimit')));
});

test('every route reports what is left of the limit, but only sends use it up', async t => {
	const store = await newStore(t, 'sqlite');
	const {clock} = clockAt(start);
	const api = await startApi(t, store, {clock, rateLimit: {requests: 100, windowMs: 60_000}});
	const document = (await (await fetch(`${api.base}/openapi.json`)).json()) as ApiDocument;
	const routes = operationsOf(document).filter(({path}) => path.startsWith('/v1/'));
	t.true(routes.length > 3);
	const keys = [await addKey(store, api.workspace.id), await addKey(store, api.workspace.id, {scopes: '[]'})];
	const sends = new Set(['POST /v1/messages', 'POST /v1/messages/batch', 'POST /v1/messages/{id}/resend']);
	for (const {method, path} of routes.filter(one => !sends.has(`${one.method} ${one.path}`))) {
		for (const [index, key] of keys.entries()) {
			const response = await fetch(api.base + path.replaceAll(/\{[^}]+\}/g, newId('msg')), {
				method,
				headers: {authorization: `Bearer ${key}`},
			});
			t.is(response.status === 403, index === 1, `${method} ${path}`);
			t.deepEqual(limitsIn(response), [100, 100, start / 1000 + 40], `${method} ${path}`);
		}
	}
});

test('responds with 429 before reading the body', async t => {
	const store = await newStore(t, 'sqlite');
	const {clock} = clockAt(start);
	const api = await startApi(t, store, {clock, rateLimit: {requests: 1, windowMs: 86_400_000}});
	t.is((await api.send()).status, 202);
	const answer = await rawHttp(
		Number(new URL(api.base).port),
		`POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${api.key}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`,
	);
	t.regex(answer, /^HTTP\/1\.1 429 /);
	t.regex(answer, /\r\nretry-after: \d+\r\n/i);
});

test('handles changed settings, clock steps and expired windows', t => {
	const {state, clock} = clockAt(start);
	let usual = readRateLimit('2/60') ?? null;
	const limits = new KeyRateLimits(clock, () => usual, null);
	const caller: Caller = {keyId: 'key_1', workspaceId: 'ws_1', mode: 'live', scopes: [], rateLimit: null};
	t.deepEqual(
		[1, 2, 3].map(() => limits.take(caller, 'send', 1)),
		[1, 1, 0],
	);
	t.is(limits.take(caller, 'batch', 4), 2);
	usual = readRateLimit('5/60') ?? null;
	t.deepEqual(limits.read(caller, 'send'), {limit: 5, remaining: 3, reset: start / 1000 + 40});
	usual = readRateLimit('1/60') ?? null;
	t.deepEqual(limits.read(caller, 'send'), {limit: 1, remaining: 0, reset: start / 1000 + 40});
	t.is(limits.take(caller, 'send', 1), 0);
	state.time -= 3_600_000;
	t.is(limits.take(caller, 'send', 1), 1);
	state.time += 7_200_000;
	t.is(limits.take(caller, 'send', 1), 1);
	usual = null;
	t.is(limits.take(caller, 'send', 1), 1);
	t.is(limits.take({...caller, rateLimit: '0'}, 'send', 1), 1);

	// The windows of a million keys, used one after another, are not retained.
	usual = readRateLimit('1/1') ?? null;
	const before = heldBytes();
	for (let n = 0; n < 1_000_000; n++) {
		state.time += 1000;
		limits.take({...caller, keyId: `key_${n}`}, 'send', 1);
	}
	t.true(heldBytes() - before < 60_000_000);
});

/** Returns two processes that share a store and count the sends of one key. */
async function sharing(t: ExecutionContext, rateLimit: string) {
	const store = await newStore(t, 'postgres');
	const workspace = await addWorkspace(store, 'Shared');
	await addKey(store, workspace.id);
	const [keyId = ''] = await store.reader('api_keys').pluck('id');
	const {state, clock} = clockAt(start);
	const asked = {n: 0, fails: false};
	const node = () =>
		new KeyRateLimits(
			clock,
			() => null,
			async part => {
				asked.n++;
				return asked.fails ? Promise.reject(new Error('away')) : await sharePart(store.reader, part);
			},
		);
	const caller: Caller = {keyId, workspaceId: workspace.id, mode: 'live', scopes: [], rateLimit};
	return {state, caller, asked, a: node(), b: node()};
}

if (engines.includes('postgres')) {
	test('nodes on one store share the window of a key, however sends are distributed', async t => {
		const {state, caller, asked, a, b} = await sharing(t, '50/60');
		let taken = 0;
		for (let n = 0; n < 80; n++) {
			taken += await (n % 2 === 0 ? a : b).take(caller, 'send', 1);
		}
		t.is(taken, 50);
		t.is(a.read(caller, 'send').remaining + b.read(caller, 'send').remaining, 0);
		const before = asked.n;
		t.is(await a.take(caller, 'send', 1), 0);
		t.is(asked.n, before, 'a window that is used up is not asked for again');

		state.time += 60_000;
		const crowd = await Promise.all(
			Array.from({length: 90}, (_, n) => (n % 3 === 0 ? a : b).take(caller, 'send', 1)),
		);
		t.is(
			crowd.reduce((sum, n) => sum + n, 0),
			50,
		);

		state.time += 60_000;
		t.is(await a.take(caller, 'send', 1), 1);
		t.is(a.read(caller, 'send').remaining, 49);
		t.is(await b.take(caller, 'batch', 70), 50);
		t.is(await a.take(caller, 'batch', 1), 0);
	});

	test('a node that goes silent withholds only a small part of the limit', async t => {
		const {caller, a, b} = await sharing(t, '50/60');
		let taken = 0;
		for (let n = 0; n < 20; n++) {
			taken += await a.take(caller, 'send', 1);
		}
		for (let n = 0; n < 60; n++) {
			taken += await b.take(caller, 'send', 1);
		}
		t.true(taken >= 46 && taken <= 50, `${taken} of 50`);
	});

	test('rarely queries the store for a large limit; without the store, each node counts alone', async t => {
		const {state, caller, asked, a, b} = await sharing(t, '6000/60');
		for (let n = 0; n < 3000; n++) {
			t.is(await a.take(caller, 'send', 1), 1);
			t.is(await b.take(caller, 'send', 1), 1);
		}
		t.is(await b.take(caller, 'send', 1), 0);
		t.true(asked.n < 100, `${asked.n} statements`);

		asked.fails = true;
		state.time += 60_000;
		t.is(await a.take(caller, 'send', 7000), 6000);
		t.is(await b.take(caller, 'send', 1), 1);
	});
}

test('parses rate limits', t => {
	t.deepEqual(readRateLimit('6000/60'), {requests: 6000, windowMs: 60_000});
	t.deepEqual(readRateLimit('1000000000/86400'), {requests: 1_000_000_000, windowMs: 86_400_000});
	t.is(readRateLimit('0'), null);
	for (const text of [
		'',
		'5',
		'0/60',
		'60/0',
		'1/86401',
		'1000000001/1',
		'-1/60',
		'1.5/60',
		'1e3/60',
		'1/60/2',
		' 1/60',
	]) {
		t.is(readRateLimit(text), undefined, text);
	}
});
