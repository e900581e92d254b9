import {connect} from 'node:net';
import test from 'ava';
import createKnex from 'knex';
import type {Failure} from '../helpers/api-client.ts';
import {conforms} from '../helpers/conforms.ts';
import {rawHttp} from '../helpers/raw-http.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {codeOf, fieldsOf, send, sendBody, unknownId} from './resources.ts';
import {pathWith, type Route, routes} from './routes.ts';

const service = serviceOf(test, {workspaces: {main: [], paused: []}});
const withBody = routes.filter(({body}) => body !== undefined);

const pathOf = (route: Route) => pathWith(route, unknownId);

/** The answer to bytes that no client would send. */
async function rawAnswer(request: string | Uint8Array): Promise<{status: number; headers: Headers; body: Failure}> {
	const answer = await rawHttp(Number(new URL(service().url).port), request);
	const end = answer.indexOf('\r\n\r\n');
	const [first = '', ...lines] = answer.slice(0, end).split('\r\n');
	const headers = new Headers(
		lines.map(line => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]),
	);
	return {status: Number(first.split(' ')[1]), headers, body: JSON.parse(answer.slice(end + 4))};
}

test('the envelope of every failure: code, message and the id that the header has', async t => {
	// The client of these tests holds every answer of every test to it.
	conforms(
		t,
		'errors.envelope',
		'errors.code',
		'errors.message',
		'errors.request_id',
		'errors.violations',
		'overview.json',
	);
	conforms(t, 'overview.times');
	const {main} = service().workspaces as {main: Workspace};
	const one = await main.live.get(`/v1/messages/${unknownId('msg')}`);
	const two = await main.live.get(`/v1/messages/${unknownId('msg')}`);
	t.is(one.headers.get('content-type'), two.headers.get('content-type'));
	t.regex(one.headers.get('content-type') ?? '', /^application\/json/);
	t.is(one.body.error.request_id, one.headers.get('x-request-id') as string);
	t.not(one.body.error.request_id, two.body.error.request_id);
	const given = await main.live.call('GET', '/v1/usage', null, {'x-request-id': 'req_mine'});
	t.not(given.headers.get('x-request-id'), 'req_mine');
});

test('bodies that are no JSON object as RFC 8259 wants it, on every route that takes one', async t => {
	conforms(t, 'errors.400.bad_request', 'overview.json', 'messages.send.request');
	const {main} = service().workspaces as {main: Workspace};
	const bodies = [
		...[
			'',
			' ',
			'{',
			'{"a":1,}',
			'{"to":1 "from":2}',
			"{'a':1}",
			'{"a":01}',
			'{"a":NaN}',
			'\ufeff\ufeff{}',
			'{}{}',
			'{"a":"\t"}',
		],
		...['{"to":"a@b.example","to":"c@d.example"}', '{"__proto__":{"admin":true}}', '{"data":{"__proto__":{}}}'],
		...[`{"data":${'{"a":'.repeat(33)}1${'}'.repeat(33)}}`, '['.repeat(100_000)],
	];
	for (const route of withBody) {
		for (const body of bodies) {
			const answer = await main.live.call(route.method, pathOf(route), body);
			t.deepEqual(
				[answer.status, answer.status === 400 && codeOf(answer)],
				[400, 'bad_request'],
				`${route.path} ${body.slice(0, 60)}`,
			);
		}
	}
	for (const bytes of [
		Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]),
		Buffer.from('{"a":"\xed\xa0\x80"}', 'latin1'),
	]) {
		const response = await fetch(`${service().url}/v1/messages`, {
			method: 'POST',
			body: new Uint8Array(bytes),
			headers: {authorization: `Bearer ${main.live.key}`, 'content-type': 'application/json'},
		});
		t.is(response.status, 400);
	}
	const noBody = await main.live.call('POST', '/v1/messages');
	t.true([400, 415].includes(noBody.status));
});

test('JSON that is no object, text that the store cannot keep: violations, not failures', async t => {
	conforms(t, 'errors.422.validation_failed', 'errors.violations', 'errors.names-fields');
	const {main} = service().workspaces as {main: Workspace};
	for (const body of ['[]', '"text"', '5', 'null', 'true']) {
		for (const route of withBody) {
			const answer = await main.live.call(route.method, pathOf(route), body);
			t.true([400, 422].includes(answer.status), `${route.path} ${body}: ${answer.status}`);
		}
	}
	for (const [field, fields] of [
		['metadata.k', {metadata: {k: 'a\u0000b'}}],
		['metadata.k', {metadata: {k: '\ud800'}}],
		['to', {to: 'a\u0000@b.example'}],
		['tags[0]', {tags: ['a\u0000']}],
		['locale', {locale: 'de\u0000'}],
	] as const) {
		const answer = await send(main, fields);
		t.is(answer.status, 422, field);
		t.deepEqual(fieldsOf(answer), [field]);
	}
	for (const data of [{a: '\u0000'}, {a: ['\udfff']}, {'a\u0000': 1}]) {
		const answer = await send(main, {data});
		t.deepEqual([answer.status, codeOf(answer)], [422, 'validation_failed'], JSON.stringify(data));
	}
});

test('another content type is 415, a body over the limit 413', async t => {
	conforms(t, 'overview.json', 'errors.envelope');
	const {main} = service().workspaces as {main: Workspace};
	for (const route of withBody) {
		for (const type of [
			'text/plain',
			'application/x-www-form-urlencoded',
			'multipart/form-data; boundary=x',
			'application/xml',
		]) {
			const answer = await main.live.call(route.method, pathOf(route), '{}', {'content-type': type});
			t.deepEqual([answer.status, codeOf(answer)], [415, 'unsupported_media_type'], `${route.path} ${type}`);
		}
		const withCharset = await main.live.call(route.method, pathOf(route), '{', {
			'content-type': 'application/json; charset=utf-8',
		});
		t.is(withCharset.status, 400);
	}
	const ofSize = (bytes: number) => `{"padding":"${'x'.repeat(bytes - 14)}"}`;
	const limits: ReadonlyArray<readonly [path: string, limit: number]> = [
		['/v1/messages', 6 * 2 ** 20],
		['/v1/messages/batch', 32 * 2 ** 20],
		['/v1/suppressions', 256 * 2 ** 10],
		['/v1/unsubscribe-groups', 256 * 2 ** 10],
		['/v1/webhooks', 256 * 2 ** 10],
	];
	for (const [path, limit] of limits) {
		const {status, body} = await main.live.post(path, ofSize(limit + 1));
		t.deepEqual([status, body.error.code], [413, 'payload_too_large'], path);
		t.is((await main.live.post(path, ofSize(limit))).status, 422, path);
	}
});

test('an unknown path is not_found, another method method_not_allowed with what is allowed', async t => {
	conforms(t, 'errors.404.not_found', 'errors.405.method_not_allowed', 'versioning.1');
	const {main} = service().workspaces as {main: Workspace};
	const nobody = service().api('');
	const byPath = new Map<string, string[]>();
	for (const route of routes) {
		byPath.set(pathOf(route), [...(byPath.get(pathOf(route)) ?? []), route.method]);
	}
	for (const [path, methods] of byPath) {
		// The interface defines no change of a message, an endpoint, a sender or a template; ours are additions.
		const more = /^\/v1\/(messages\/msg|webhooks\/whe|senders\/snd|templates\/tpl)_\w+$/.test(path) ? ['PATCH'] : [];
		const allowed = new Set([...methods, ...more, ...(methods.includes('GET') ? ['HEAD'] : [])]);
		for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].filter(each => !allowed.has(each))) {
			for (const api of [main.live, nobody]) {
				const answer = await api.call(method, path);
				t.deepEqual([answer.status, codeOf(answer)], [405, 'method_not_allowed'], `${method} ${path}`);
				const named = (answer.headers.get('allow') ?? '').split(', ');
				t.deepEqual(
					[...allowed].filter(each => !named.includes(each)),
					[],
					`${method} ${path}`,
				);
			}
		}
		const options = await nobody.call('OPTIONS', path);
		t.is(options.status, 204, path);
		t.true((options.headers.get('allow') ?? '').includes(methods[0] as string));
		t.is(options.headers.get('access-control-allow-origin'), null);
		for (const wrong of [
			`${path}/`,
			path.replace('/v1', ''),
			path.replace('/v1', '/v2'),
			path.replace('/v1/', '/V1/'),
			path.replace('/v1/', '//v1/'),
		]) {
			const answer = await main.live.get(wrong);
			// A path that ends in an id says which kind of thing is not there.
			t.is(answer.status, 404, wrong);
			t.regex(codeOf(answer), /^(message_)?not_found$/);
		}
	}
});

test('HEAD answers where GET does, without a body', async t => {
	conforms(t, 'errors.envelope');
	const {main} = service().workspaces as {main: Workspace};
	for (const route of routes.filter(({method}) => method === 'GET')) {
		const [head, get] = [await main.live.call('HEAD', pathOf(route)), await main.live.get(pathOf(route))];
		t.is(head.status, get.status, route.path);
		t.is(head.headers.get('content-type'), get.headers.get('content-type'));
	}
});

test('a request that is no HTTP, or has too many headers, gets the envelope too', async t => {
	conforms(t, 'errors.envelope', 'errors.400.bad_request');
	const requests: ReadonlyArray<readonly [request: string, status: number]> = [
		['GARBAGE\r\n\r\n', 400],
		[`GET /v1/messages HTTP/1.1\r\nHost: x\r\nX-Large: ${'x'.repeat(40_000)}\r\n\r\n`, 431],
		['POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 400],
		['POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde', 400],
		['GET /v1/mes\x00sages HTTP/1.1\r\nHost: x\r\n\r\n', 400],
	];
	for (const [request, status] of requests) {
		const answer = await rawAnswer(request);
		t.is(answer.status, status, request.slice(0, 60));
		t.is(answer.body.error.code, 'bad_request');
		t.is(answer.headers.get('x-request-id'), answer.body.error.request_id);
	}
});

test('a request that does not come to its end is 408', async t => {
	conforms(t, 'errors.envelope');
	const socket = connect(Number(new URL(service().url).port), '127.0.0.1');
	t.teardown(() => socket.destroy());
	socket.write('GET /v1/messages HTTP/1.1\r\nHost: x\r\nX-Slow: ');
	let answer = '';
	socket.on('data', chunk => {
		answer += chunk;
	});
	await new Promise(resolve => socket.once('close', resolve));
	t.regex(answer, /^HTTP\/1\.1 408 /);
	t.regex(answer, /"code":"bad_request"/);
	t.regex(answer, /x-request-id: req_/i);
});

test('an id in the query or the path is never more than an id', async t => {
	conforms(t, 'errors.404.not_found', 'errors.422.validation_failed');
	const {main} = service().workspaces as {main: Workspace};
	for (const path of [
		'/v1/messages/%',
		'/v1/messages/%ff',
		'/v1/messages/..%2f..',
		"/v1/messages/'%20OR%201=1",
		'/v1/messages/%00',
	]) {
		const {status} = await fetch(service().url + path, {headers: {authorization: `Bearer ${main.live.key}`}});
		t.true([400, 404].includes(status), `${path}: ${status}`);
	}
	for (const query of ['recipient[]=a', 'recipient[$ne]=a', '__proto__=a', 'constructor=a', 'limit[a]=1']) {
		t.is((await main.live.get(`/v1/messages?${query}`)).status, 422, query);
	}
	t.deepEqual(fieldsOf(await main.live.get(`/v1/messages/${unknownId('msg')}?expand=all`)), ['expand']);
});

test('paused: 403 on sends, everything else works', async t => {
	conforms(t, 'errors.403.sending_paused');
	const {paused} = service().workspaces as {paused: Workspace};
	const {program} = service();
	await program.cli('workspace', 'pause', 'paused', '--reason', 'test');
	const answer = await waitFor('the pause holds', async () => {
		const each = await send(paused);
		return each.status === 403 && each;
	});
	t.deepEqual([answer.status, codeOf(answer)], [403, 'sending_paused']);
	t.regex(answer.headers.get('ratelimit-limit') ?? '', /^\d+$/);
	t.is(codeOf(await paused.test.post('/v1/messages', sendBody(paused))), 'sending_paused');
	t.is((await paused.live.get('/v1/messages')).status, 200);
	t.is((await paused.live.post('/v1/suppressions', {recipient: 'a@paused.example'})).status, 201);
});

test.serial('what was not foreseen is 500 with the status text and nothing of the inside', async t => {
	conforms(t, 'errors.message');
	const {main} = service().workspaces as {main: Workspace};
	const {store} = service();
	const database = createKnex(
		'url' in store
			? {client: 'pg', connection: store.url}
			: {client: 'sqlite3', connection: {filename: store.file}, useNullAsDefault: true},
	);
	if ('file' in store) {
		// The daemon may be writing, on a machine that leaves it little time.
		await database.raw('pragma busy_timeout = 60000');
	}
	await database.raw('alter table topics rename to away');
	const answer = await main.live.get('/v1/unsubscribe-groups');
	await database.raw('alter table away rename to topics');
	await database.destroy();
	t.deepEqual([answer.status, codeOf(answer)], [500, 'internal_error']);
	t.is(answer.body.error.message, 'Internal Server Error');
	t.is((await main.live.get('/v1/unsubscribe-groups')).status, 200);
});
