import {once} from 'node:events';
import {request} from 'node:http';
import {connect} from 'node:net';
import {text} from 'node:stream/consumers';
import test from 'ava';
import {codeOf, startApi, type TestApi} from '../helpers/api.ts';
import {newStore} from '../helpers/databases.ts';
import {rawHttp} from '../helpers/raw-http.ts';
import {waitFor} from '../helpers/wait.ts';

const now = Date.UTC(2026, 5, 9, 10, 0, 20);
const clock = {now: () => now, monotonic: () => 0};
const limited = {clock, rateLimit: {requests: 5, windowMs: 60_000}};
const mebibyte = 1024 * 1024;

const keys = (n: number) => `{${Array.from({length: n}, (_, i) => `"k${i}":0`).join(',')}}`;
const emptyLists = (n: number) => `{"a":[${new Array(n).fill('[]').join(',')}]}`;

/** Returns the body of a send with this JSON as its data. */
const sendOf = ({workspace: {sender, templateId}}: TestApi, data: string) =>
	`{"from":"${sender}","to":"user@example.org","templateId":"${templateId}","data":${data}}`;
const batchOf = (items: readonly string[]) => `{"messages":[${items.join(',')}]}`;

const violationsOf = ({body}: {body: unknown}) =>
	(body as {error: {violations?: Array<{field: string; message: string}>}}).error.violations?.map(({field}) => field);
const remaining = ({headers}: {headers: Headers}) => Number(headers.get('ratelimit-remaining'));

test.serial('rejects a send with too many values and validates one at the limit', async t => {
	const store = await newStore(t, 'sqlite');
	const api = await startApi(t, store, {rateLimit: null});
	for (const data of [keys(50_000), emptyLists(50_000), `[${'0,'.repeat(60_000)}0]`]) {
		const answer = await api.post('/v1/messages', sendOf(api, data));
		t.is(answer.status, 422);
		t.is(codeOf(answer), 'validation_failed');
		t.deepEqual(violationsOf(answer), ['body']);
	}
	t.deepEqual(violationsOf(await api.post('/v1/messages', sendOf(api, keys(49_000)))), ['data']);
	t.is((await api.post('/v1/messages', sendOf(api, emptyLists(49_000)))).status, 202);
	t.deepEqual(violationsOf(await api.post('/v1/suppressions', `{"recipient":[${'0,'.repeat(60_000)}0]}`)), ['body']);
	t.is((await store.reader('messages')).length, 1);
});

test.serial('rejects a batch if one item, or the whole batch, has too many values', async t => {
	const store = await newStore(t, 'sqlite');
	const api = await startApi(t, store);
	const good = sendOf(api, '{}');
	const bad = await api.post('/v1/messages/batch', batchOf([good, sendOf(api, keys(50_001)), good]));
	t.is(bad.status, 422);
	t.deepEqual(violationsOf(bad), ['messages[1]']);
	const many = await api.post('/v1/messages/batch', batchOf(new Array(11).fill(sendOf(api, emptyLists(49_000)))));
	t.deepEqual(violationsOf(many), ['messages']);
	const around = await api.post('/v1/messages/batch', `{"messages":[${good}],"x":${keys(50_001)}}`);
	t.deepEqual(violationsOf(around), ['body']);
	t.deepEqual(await store.reader('messages'), []);
});

test.serial(
	'rejects only the item that is too large for a send, and a batch with large content around its items',
	async t => {
		const store = await newStore(t, 'sqlite');
		const api = await startApi(t, store);
		const good = sendOf(api, '{}');
		const items = [good, sendOf(api, `{"a":"${'x'.repeat(7 * mebibyte)}"}`), '7', good];
		const answer = await api.post('/v1/messages/batch', batchOf(items));
		t.is(answer.status, 200);
		const results = (answer.body as {data: Array<{status: string; error?: {code: string}}>}).data;
		t.deepEqual(
			results.map(({status, error}) => error?.code ?? status),
			['accepted', 'payload_too_large', 'validation_failed', 'accepted'],
		);
		const around = `{"messages":[${good}],"x":"${'x'.repeat(mebibyte)}"}`;
		t.deepEqual(violationsOf(await api.post('/v1/messages/batch', around)), ['body']);
		t.is((await store.reader('messages')).length, 2);
	},
);

test.serial('a large batch gives each item the result of a single send', async t => {
	const store = await newStore(t, 'sqlite');
	const api = await startApi(t, store);
	const content = Buffer.alloc(300_000, 'ä').toString('base64');
	const attachments = [{filename: 'a.bin', contentType: 'application/octet-stream', content}];
	const item = (to: string) => ({from: api.workspace.sender, to, templateId: api.workspace.templateId, attachments});
	const messages = [
		item('a@example.org'),
		item('b@example.org'),
		{...item('c'), data: {ä: 'ö'}},
		item('d@example.org'),
	];
	const answer = await api.post('/v1/messages/batch', JSON.stringify({messages}, null, '\t'));
	t.is(answer.status, 200);
	const results = (answer.body as {data: Array<{status: string}>}).data;
	t.deepEqual(
		results.map(({status}) => status),
		['accepted', 'accepted', 'error', 'accepted'],
	);
	const stored = await store.reader('attachments').select('content');
	t.deepEqual(
		stored.map(({content}) => Buffer.from(content).toString('base64') === attachments[0]?.content),
		[true, true, true],
	);
	for (const broken of ['{"messages":[', '{"messages":[1,]}', '{"messages":[1],"messages":[1]}']) {
		const padded = broken.replace('[1', `["${'x'.repeat(mebibyte)}"`);
		t.is((await api.post('/v1/messages/batch', padded)).status, 400, broken);
	}
});

test.serial('a refused batch counts as one item of the rate limit, which is checked before the body', async t => {
	const store = await newStore(t, 'sqlite');
	const api = await startApi(t, store, limited);
	const refused = [
		[422, batchOf([sendOf(api, keys(50_001))])],
		[413, ' '.repeat(33 * mebibyte)],
		[400, '{"messages":'],
		[422, '{"messages":[]}'],
		[422, batchOf(new Array(600_000).fill('[]'))],
	] as const;
	for (const [index, [status, body]] of refused.entries()) {
		const answer = await api.post('/v1/messages/batch', body);
		t.is(answer.status, status);
		t.is(remaining(answer), 4 - index);
	}
	const answer = await api.post('/v1/messages/batch', batchOf([sendOf(api, keys(50_001))]));
	t.is(answer.status, 429);
	t.is(codeOf(answer), 'rate_limited');
	t.is(answer.headers.get('retry-after'), '40');
	t.is(remaining(await api.send()), 4);
	t.is(remaining(await api.post('/v1/messages', sendOf(api, keys(50_001)))), 3);
});

test.serial('treats a body without a Content-Length like one with it', async t => {
	const store = await newStore(t, 'sqlite');
	const api = await startApi(t, store);
	const chunked = async (path: string, pieces: readonly string[]) => {
		const sent = request(api.base + path, {
			method: 'POST',
			headers: {
				authorization: `Bearer ${api.key}`,
				'content-type': 'application/json',
				'transfer-encoding': 'chunked',
			},
		});
		sent.on('error', () => undefined);
		for (const piece of pieces) {
			sent.write(piece);
		}
		sent.end();
		const [response] = await once(sent, 'response');
		return {status: response.statusCode as number, body: await text(response)};
	};
	const pieces = (body: string, size: number) => body.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
	t.is((await chunked('/v1/messages', pieces(sendOf(api, '{"ä":"ö"}'), 1))).status, 202);
	t.is((await chunked('/v1/messages', pieces(sendOf(api, keys(50_001)), 50_000))).status, 422);
	t.is((await chunked('/v1/messages', pieces('x'.repeat(7 * mebibyte), 50_000))).status, 413);
	const large = sendOf(api, `{"a":"${'x'.repeat(200_000)}"}`);
	t.is((await chunked('/v1/messages/batch', pieces(batchOf([large, large, large]), 60_000))).status, 200);
	const crumbs = await chunked('/v1/messages', pieces(`{"a":"${'x'.repeat(40_000)}"}`, 1));
	t.is(crumbs.status, 413);
	t.regex(crumbs.body, /pieces/);
});

test.serial('frees the room of bodies that break off', async t => {
	const store = await newStore(t, 'sqlite');
	const api = await startApi(t, store);
	const {port} = new URL(api.base);
	for (let round = 0; round < 6; round++) {
		const socket = connect(Number(port), '127.0.0.1');
		socket.on('error', () => undefined);
		socket.write(
			`POST /v1/messages/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${api.key}\r\nContent-Type: application/json\r\nContent-Length: 30000000\r\n\r\n`,
		);
		socket.write(`{"messages":["${'x'.repeat(20_000_000)}`);
		await waitFor('it was taken in', () => socket.writableLength === 0);
		socket.resetAndDestroy();
	}
	const large = sendOf(api, `{"a":"${'x'.repeat(200_000)}"}`);
	t.is((await api.post('/v1/messages/batch', batchOf([large, large]))).status, 200);
	const expecting = await rawHttp(
		Number(port),
		`POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${api.key}\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 9000000\r\n\r\n`,
	);
	t.regex(expecting, /HTTP\/1\.1 413 /);
});
