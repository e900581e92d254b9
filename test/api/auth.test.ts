import test from 'ava';
import {createApiKey} from '../../src/mail/api-key.ts';
import {idOf, startApi} from '../helpers/api.ts';
import {conforms} from '../helpers/conforms.ts';
import {onWriting, sqliteTest, storeTest} from '../helpers/databases.ts';
import {addKey} from '../helpers/workspace.ts';

const now = Date.UTC(2026, 5, 9, 12);
const clock = {now: () => now, monotonic: () => 0};

sqliteTest(test, 'gives the same response to every kind of invalid key', async (t, store) => {
	conforms(t, 'auth.bearer');
	const api = await startApi(t, store, {clock});
	const expired = await addKey(store, api.workspace.id, {expires_at: '2026-06-09T12:00:00.000Z'});
	const revoked = await addKey(store, api.workspace.id, {revoked_at: '2026-06-09T11:00:00.000Z'});
	const headers: Array<Record<string, string>> = [
		{},
		{authorization: ''},
		{authorization: 'Bearer'},
		{authorization: 'Bearer '},
		{authorization: 'Bearer x'},
		{authorization: api.key},
		{authorization: `Basic ${api.key}`},
		{authorization: `Bearer ${api.key} x`},
		{authorization: `Bearer ${api.key}x`},
		{authorization: `Bearer ${api.key.slice(0, -1)}`},
		{authorization: `Bearer ${api.key.toUpperCase()}`},
		{authorization: `Bearer ${api.key.replace('live', 'test')}`},
		{authorization: `Bearer ${createApiKey('live')}`},
		{authorization: `Bearer ${'é'.repeat(10)}`.normalize('NFD').replaceAll('\u0301', '')},
		{authorization: `Bearer ${'x'.repeat(10_000)}`},
		{authorization: `Bearer ${expired}`},
		{authorization: `Bearer ${revoked}`},
	];
	for (const one of headers) {
		const response = await fetch(`${api.base}/v1/messages`, {method: 'POST', headers: one});
		t.is(response.status, 401, one.authorization);
		t.is(await response.text(), '{"error":"Unauthorized"}');
		t.is(response.headers.get('www-authenticate'), 'Bearer');
		t.is(response.headers.get('content-type'), 'application/json; charset=utf-8');
		t.regex(response.headers.get('x-request-id') ?? '', /^req_/);
	}
});

sqliteTest(test, 'accepts a key until it expires, with the scheme in any case', async (t, store) => {
	const api = await startApi(t, store, {clock});
	const key = await addKey(store, api.workspace.id, {expires_at: '2026-06-09T12:00:00.001Z'});
	for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
		const response = await fetch(`${api.base}/v1/messages`, {
			method: 'POST',
			headers: {authorization: `${scheme} ${key}`},
		});
		t.is(response.status, 400);
	}
});

sqliteTest(test, 'caches a key until something changes', async (t, store) => {
	const api = await startApi(t, store);
	const queries: string[] = [];
	store.reader.on('query', ({sql}) => queries.push(sql));
	await api.send();
	await api.send();
	t.is(queries.filter(sql => sql.includes('api_keys')).length, 1);
	await store.database('api_keys').update({revoked_at: '2026-01-01T00:00:00.000Z'});
	t.is((await api.send()).status, 202);
	api.clear();
	t.is((await api.send()).status, 401);
});

storeTest(test, 'the store holds no key, only its hash', async (t, store) => {
	const api = await startApi(t, store);
	t.false(JSON.stringify(await store.reader('api_keys')).includes(api.key.slice(9)));
});

sqliteTest(test, 'a test key creates test messages', async (t, store) => {
	const api = await startApi(t, store);
	const key = await addKey(store, api.workspace.id, {mode: 'test'});
	const id = idOf(await api.send({}, key));
	t.like((await api.get(`/v1/messages/${id}`, key)).body, {mode: 'test'});
	t.like((await api.get(`/v1/messages/${id}`)).body, {mode: 'test'});
});

storeTest(test, 'records the last use of a key once a minute', async (t, store) => {
	let at = Date.UTC(2026, 5, 9, 12, 0, 30);
	const api = await startApi(t, store, {clock: {now: () => at, monotonic: () => 0}});
	const updates: string[] = [];
	onWriting(store, 'query', ({sql}) => updates.push(sql));
	const lastUse = async () => {
		await api.get('/v1/messages/x');
		await store.writer.idle();
		return (await store.reader('api_keys').first()).last_used_at;
	};
	t.is(await lastUse(), '2026-06-09T12:00:00.000Z');
	at += 29_000;
	t.is(await lastUse(), '2026-06-09T12:00:00.000Z');
	t.is(updates.filter(sql => sql.startsWith('update')).length, 1);
	at += 1000;
	t.is(await lastUse(), '2026-06-09T12:01:00.000Z');
});

const wrongKey = () => createApiKey('live');
const few = {requests: 3, windowMs: 60_000};

async function ask(base: string, authorization: string | null, headers: Record<string, string> = {}) {
	const response = await fetch(`${base}/v1/messages`, {
		headers: {...headers, ...(authorization === null ? {} : {authorization})},
	});
	return {status: response.status, headers: response.headers, text: await response.text()};
}

sqliteTest(test, 'limits an address after too many invalid keys, but still accepts a valid key', async (t, store) => {
	const time = {monotonic: 0};
	const api = await startApi(t, store, {
		clock: {now: () => now, monotonic: () => time.monotonic},
		authFailures: few,
	});
	const revoked = await addKey(store, api.workspace.id, {revoked_at: '2026-06-09T11:00:00.000Z'});
	const wrong = [`Bearer ${wrongKey()}`, 'Bearer x', `Bearer ${revoked}`, `Basic ${api.key}`, `Bearer ${wrongKey()}`];
	const statuses = [];
	for (const authorization of wrong) {
		statuses.push((await ask(api.base, authorization)).status);
	}
	t.deepEqual(statuses, [401, 401, 401, 429, 429]);

	time.monotonic = 18_500;
	const refused = await ask(api.base, `Bearer ${wrongKey()}`);
	t.is(refused.status, 429);
	t.is(refused.headers.get('retry-after'), '42');
	const {error} = JSON.parse(refused.text);
	t.is(error.code, 'rate_limited');
	t.is(error.request_id, refused.headers.get('x-request-id'));
	t.regex(error.message, /invalid key/);

	t.is((await ask(api.base, `Bearer ${api.key}`)).status, 200);
	t.is((await ask(api.base, null)).status, 401);
	t.is((await fetch(`${api.base}/v1/nothing`, {headers: {authorization: 'Bearer x'}})).status, 404);

	time.monotonic = 60_000;
	t.is((await ask(api.base, `Bearer ${wrongKey()}`)).status, 401);
});

sqliteTest(test, 'does not count requests without a key as failures', async (t, store) => {
	const api = await startApi(t, store, {clock, authFailures: few});
	for (let n = 0; n < 10; n++) {
		t.is((await ask(api.base, null)).status, 401);
	}
	t.is((await ask(api.base, 'Bearer x')).status, 401);
});

sqliteTest(test, 'counts failures per client behind a trusted proxy', async (t, store) => {
	const from = (ip: string) => ({'x-forwarded-for': ip});
	const behind = await startApi(t, store, {clock, authFailures: few, trustProxy: ['127.0.0.0/8']});
	const statusOf = async (ip: string) => (await ask(behind.base, 'Bearer x', from(ip))).status;
	for (const ip of [
		'2001:db8::1',
		'2001:db8::2',
		'2001:db8:0:0:ffff::3',
		'192.0.2.1',
		'::ffff:192.0.2.1',
		'192.0.2.1',
	]) {
		t.is(await statusOf(ip), 401, ip);
	}
	t.is(await statusOf('2001:db8::4'), 429);
	t.is(await statusOf('192.0.2.1'), 429);
	t.is(await statusOf('2001:db8:0:1::1'), 401);
	t.is((await ask(behind.base, `Bearer ${behind.key}`, from('192.0.2.1'))).status, 200);

	// A client that is not behind the proxy cannot choose its address.
	const direct = await startApi(t, store, {clock, authFailures: few, like: behind});
	const direct4 = [];
	for (const ip of ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4']) {
		direct4.push((await ask(direct.base, 'Bearer x', from(ip))).status);
	}
	t.deepEqual(direct4, [401, 401, 401, 429]);
});
