import {once} from 'node:events';
import {type IncomingMessage, request} from 'node:http';
import {connect} from 'node:net';
import test, {type ExecutionContext} from 'ava';
import Type from 'typebox';
import type {Api} from '../../src/api/api-parts.ts';
import {localHostGuard} from '../../src/api/pages.ts';
import {type ApiOptions, createApi} from '../../src/api/server.ts';
import {apiError} from '../../src/mail/api-error.ts';
import {isId} from '../../src/mail/ids.ts';
import {conforms} from '../helpers/conforms.ts';
import {rawHttp} from '../helpers/raw-http.ts';
import {waitFor} from '../helpers/wait.ts';
import {newId} from '../helpers/workspace.ts';

const unavailableError = new Error('disk full');
const strict = {additionalProperties: false};

function routes(api: Api): void {
	const echo = {schema: {body: Type.Object({a: Type.Optional(Type.Unknown())}, strict)}};
	api.post('/v1/things', echo, async request => request.body ?? null);
	api.get('/v1/things', async () => ({data: []}));
	api.post('/v1/things/batch', async () => ({}));
	api.get('/v1/things/:id', async request => request.params);
	api.delete('/v1/things/:id', async (_request, reply) => reply.code(204).send());
	api.get(
		'/v1/query',
		{schema: {querystring: Type.Object({limit: Type.Optional(Type.String({format: 'page-limit'}))}, strict)}},
		async request => request.query,
	);
	api.get('/v1/broken', async () => {
		throw new Error('secret detail');
	});
	api.get('/v1/unavailable', async () => {
		throw unavailableError;
	});
	api.get('/v1/refused', async () => {
		throw apiError('conflict', {message: 'No.'});
	});
	api.get('/v1/ip', async request => ({ip: request.ip}));
	const locked = {
		onRequest: (_request: unknown, reply: {code: (status: number) => {send: (body: object) => void}}) =>
			reply.code(401).send({error: 'Unauthorized'}),
	};
	api.post('/v1/locked', {...locked}, async () => ({}));
}

const quickTimeouts = {headers: 200, request: 400, check: 50, drain: 50, response: 60_000};
const patientTimeouts = {headers: 60_000, request: 60_000, check: 1000, drain: 60_000, response: 60_000, stop: 600_000};

async function start(t: ExecutionContext, options: Partial<ApiOptions> = {}) {
	const reported: unknown[] = [];
	const api = createApi({
		newId,
		version: '0.0.0',
		pages: {guard: localHostGuard('')},
		routes: [routes],
		trustProxy: [],
		isUnavailable: error => error === unavailableError,
		report: (_request, error) => reported.push(error),
		...options,
	});
	t.teardown(() => api.close());
	await api.listen({host: '127.0.0.1', port: 0});
	const {port} = api.server.address() as {port: number};
	return {api, port, reported, base: `http://127.0.0.1:${port}`};
}

/** Counts the requests whose headers have arrived. */
function countRequests({server}: Api): () => number {
	let count = 0;
	server.on('request', () => {
		count++;
	});
	return () => count;
}

const json = (body: unknown): RequestInit => ({
	method: 'POST',
	headers: {'content-type': 'application/json'},
	body: typeof body === 'string' ? body : JSON.stringify(body),
});

async function expectError(t: ExecutionContext, response: Response, status: number, code: string) {
	const id = response.headers.get('x-request-id') ?? '';
	t.is(response.status, status);
	t.true(isId('req', id), id);
	t.is(response.headers.get('content-type'), 'application/json; charset=utf-8');
	const {error} = (await response.json()) as {
		error: {code: string; message: string; request_id: string; violations?: unknown};
	};
	t.is(error.code, code);
	t.is(error.request_id, id);
	t.is(typeof error.message, 'string');
	return error;
}

const failures: ReadonlyArray<[title: string, path: string, init: RequestInit, status: number, code: string]> = [
	['an unknown path', '/v1/nothing', {}, 404, 'not_found'],
	[
		'an unknown path with an unsupported body',
		'/v1/nothing',
		{method: 'POST', body: 'x', headers: {'content-type': 'text/plain'}},
		404,
		'not_found',
	],
	['OPTIONS of an unknown path', '/v1/nothing', {method: 'OPTIONS'}, 404, 'not_found'],
	['a trailing slash', '/v1/things/', {}, 404, 'not_found'],
	['an empty segment', '/v1//things', {}, 404, 'not_found'],
	['another case', '/V1/things', {}, 404, 'not_found'],
	['a broken escape', '/v1/things/%zz', {}, 400, 'bad_request'],
	['another method', '/v1/things', {method: 'PUT'}, 405, 'method_not_allowed'],
	[
		'another method with an unsupported body',
		'/v1/things',
		{method: 'PUT', body: 'x', headers: {'content-type': 'text/plain'}},
		405,
		'method_not_allowed',
	],
	['a rare method', '/v1/things', {method: 'PROPFIND'}, 405, 'method_not_allowed'],
	['GET of a path below an id', '/v1/things/batch', {}, 405, 'method_not_allowed'],
	['HEAD on a route without GET', '/v1/things/batch', {method: 'HEAD'}, 405, 'method_not_allowed'],
	['no body', '/v1/things', {method: 'POST'}, 400, 'bad_request'],
	[
		'an empty body',
		'/v1/things',
		{method: 'POST', headers: {'content-type': 'application/json'}},
		400,
		'bad_request',
	],
	['null', '/v1/things', json('null'), 400, 'bad_request'],
	[
		'text',
		'/v1/things',
		{method: 'POST', body: '{}', headers: {'content-type': 'text/plain'}},
		415,
		'unsupported_media_type',
	],
	['a form', '/v1/things', {method: 'POST', body: new URLSearchParams('a=1')}, 415, 'unsupported_media_type'],
	['bytes without a type', '/v1/things', {method: 'POST', body: new Uint8Array(3)}, 415, 'unsupported_media_type'],
	[
		'a missing media type',
		'/v1/things',
		{method: 'POST', body: '{}', headers: {'content-type': ' '}},
		415,
		'unsupported_media_type',
	],
	[
		'a media type that resembles JSON',
		'/v1/things',
		{method: 'POST', body: '{}', headers: {'content-type': 'application/jsonx'}},
		415,
		'unsupported_media_type',
	],
	[
		'a content encoding',
		'/v1/things',
		{method: 'POST', body: '{}', headers: {'content-type': 'application/json', 'content-encoding': 'gzip'}},
		415,
		'unsupported_media_type',
	],
	['a body over the limit', '/v1/things', json({a: 'x'.repeat(256 * 1024)}), 413, 'payload_too_large'],
	['bad JSON', '/v1/things', json('{"a":'), 400, 'bad_request'],
	[
		'invalid UTF-8',
		'/v1/things',
		{method: 'POST', body: Uint8Array.of(0x7b, 0xff, 0x7d), headers: {'content-type': 'application/json'}},
		400,
		'bad_request',
	],
	['an unknown field', '/v1/things', json({b: 1}), 422, 'validation_failed'],
	['an array for an object', '/v1/things', json([]), 422, 'validation_failed'],
	['an unknown parameter', '/v1/query?limt=5', {}, 422, 'validation_failed'],
	['a repeated parameter', '/v1/query?limit=5&limit=5', {}, 422, 'validation_failed'],
	['a refusal by a route', '/v1/refused', {}, 409, 'conflict'],
	['an internal error', '/v1/broken', {}, 500, 'internal_error'],
	['an unreachable store', '/v1/unavailable', {}, 503, 'unavailable'],
];
for (const [title, path, init, status, code] of failures) {
	test(`${status} ${code}: ${title}`, async t => {
		const {base} = await start(t);
		const response = await fetch(base + path, init);
		if (init.method === 'HEAD') {
			t.is(response.status, status);
			t.true(isId('req', response.headers.get('x-request-id') ?? ''));
			return;
		}
		const {violations} = await expectError(t, response, status, code);
		t.is(violations !== undefined, code === 'validation_failed');
	});
}

test('an internal error is reported and shows only its status text; a refusal is not reported', async t => {
	conforms(t, 'errors.envelope', 'errors.code', 'errors.message', 'errors.request_id');
	const {base, reported} = await start(t);
	const error = await expectError(t, await fetch(`${base}/v1/broken`), 500, 'internal_error');
	t.is(error.message, 'Internal Server Error');
	await fetch(`${base}/v1/refused`);
	const response = await fetch(`${base}/v1/unavailable`);
	t.is(response.headers.get('retry-after'), '5');
	t.deepEqual(
		reported.map(one => (one as Error).message),
		['secret detail', 'disk full'],
	);
});

test('405 and OPTIONS list the methods of a path', async t => {
	const {base} = await start(t);
	const wrong = await fetch(`${base}/v1/things`, {method: 'DELETE'});
	t.is(wrong.headers.get('allow'), 'GET, HEAD, OPTIONS, POST');
	const options = await fetch(`${base}/v1/things/some-id`, {method: 'OPTIONS'});
	t.is(options.status, 204);
	t.is(options.headers.get('allow'), 'DELETE, GET, HEAD, OPTIONS');
	t.is(await options.text(), '');
	t.true(isId('req', options.headers.get('x-request-id') ?? ''));
	t.is(options.headers.get('access-control-allow-origin'), null);
	t.is((await fetch(`${base}/v1/locked`, {method: 'OPTIONS'})).status, 204);
});

test('HEAD responds like GET, without a body', async t => {
	const {base} = await start(t);
	const response = await fetch(`${base}/v1/things`, {method: 'HEAD'});
	t.is(response.status, 200);
	t.is(response.headers.get('content-length'), '11');
	t.is(await response.text(), '');
});

test('checks the key before it reads or validates the body', async t => {
	const {base} = await start(t);
	for (const init of [json('{"a":'), json({a: 'x'.repeat(300_000)}), {method: 'POST', body: 'x'}]) {
		t.is((await fetch(`${base}/v1/locked`, init)).status, 401);
	}
	t.is((await fetch(`${base}/v1/locked`)).status, 405);
});

test('passes on a body unchanged, with or without media type parameters', async t => {
	const {base} = await start(t);
	for (const type of ['application/json', 'application/json; charset=utf-8', 'Application/JSON']) {
		const response = await fetch(`${base}/v1/things`, {
			method: 'POST',
			body: '{"a":"5"}',
			headers: {'content-type': type},
		});
		t.deepEqual(await response.json(), {a: '5'});
	}
	t.is(
		(await fetch(`${base}/v1/things/x`, {method: 'DELETE', headers: {'content-type': 'application/json'}})).status,
		204,
	);
});

test('each response has its own request ID', async t => {
	const {base} = await start(t);
	const ids = await Promise.all(
		[1, 2].map(async () => (await fetch(`${base}/v1/things`)).headers.get('x-request-id')),
	);
	t.not(ids[0], ids[1]);
});

test('trusts X-Forwarded-For only from the configured ranges', async t => {
	const headers = {'x-forwarded-for': '203.0.113.7'};
	const ipOf = async (trustProxy: string[]) =>
		(await (await fetch(`${(await start(t, {trustProxy})).base}/v1/ip`, {headers})).json()) as {ip: string};
	t.is((await ipOf([])).ip, '127.0.0.1');
	t.is((await ipOf(['10.0.0.0/8'])).ip, '127.0.0.1');
	t.is((await ipOf(['127.0.0.0/8'])).ip, '203.0.113.7');
});

const notHttp: ReadonlyArray<[title: string, text: string]> = [
	['garbage', 'nonsense\r\n\r\n'],
	['a missing Host header', 'GET /v1/things HTTP/1.1\r\nConnection: close\r\n\r\n'],
	[
		'both Content-Length and Transfer-Encoding',
		'POST /v1/things HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
	],
	[
		'two Content-Length headers',
		'POST /v1/things HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello',
	],
	['a bare line feed', 'GET /v1/things HTTP/1.1\nHost: x\n\n'],
	['a folded header', 'GET /v1/things HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n'],
	[
		'an invalid chunk',
		'POST /v1/things HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
	],
];
for (const [title, text] of notHttp) {
	test(`responds with a 400 JSON error to ${title}`, async t => {
		const {port} = await start(t);
		const answer = await rawHttp(port, text);
		t.regex(answer, /^HTTP\/1\.1 400 Bad Request\r\n/);
		t.regex(answer, /\r\nX-Request-Id: req_[0-9a-z]{26}\r\n/i);
		t.regex(answer, /\{"error":\{"code":"bad_request","message":"[^"]+","request_id":"req_[0-9a-z]{26}"\}\}$/);
	});
}

test('responds with a 431 JSON error to 16 KiB of headers', async t => {
	const {port} = await start(t);
	const answer = await rawHttp(port, `GET / HTTP/1.1\r\nHost: x\r\nA: ${'b'.repeat(17_000)}\r\n\r\n`);
	t.regex(answer, /^HTTP\/1\.1 431 /);
	t.regex(answer, /"code":"bad_request","message":"The request line and headers are longer than 16 KiB\."/);
});

for (const [title, text] of [
	['a header section', 'GET /v1/things HTTP/1.1\r\nHost: x\r\nA:'],
	[
		'a body',
		'POST /v1/things HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"a"',
	],
] as const) {
	test(`responds with a 408 JSON error to ${title} that never arrives in full`, async t => {
		const {port} = await start(t, {timeouts: quickTimeouts});
		const answer = await rawHttp(port, text);
		t.regex(answer, /^HTTP\/1\.1 408 Request Timeout\r\n/);
		t.regex(answer, /"code":"bad_request","message":"The request did not arrive within the time limit\."/);
	});
}

test('garbage after a pending request gets no response that could be taken for its own', async t => {
	let answerNow = (): void => undefined;
	const arrived = new Promise<void>(resolve => {
		answerNow = resolve;
	});
	let finish = (): void => undefined;
	const slow = new Promise<void>(resolve => {
		finish = resolve;
	});
	const {port} = await start(t, {
		routes: [
			api => {
				api.post('/v1/slow', async () => {
					answerNow();
					await slow;
					return {};
				});
			},
		],
	});
	const socket = connect(port, '127.0.0.1');
	let answer = '';
	socket.on('data', chunk => {
		answer += chunk;
	});
	const closed = new Promise<void>(resolve => socket.once('close', () => resolve()));
	socket.write('POST /v1/slow HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}');
	await arrived;
	socket.write('nonsense\r\n\r\n');
	await closed;
	finish();
	t.is(answer, '');
});

test('a client that sends Connection: close can send its whole body and read the error', async t => {
	const {port} = await start(t, {timeouts: patientTimeouts});
	const body = Buffer.alloc(8 * 1024 * 1024, 'a');
	const post = async (path: string) => {
		const headers = {'content-type': 'application/json', 'content-length': body.length};
		const sent = request({host: '127.0.0.1', port, path, method: 'POST', headers, agent: false}).end(body);
		const [answer] = (await once(sent, 'response')) as [IncomingMessage];
		return [answer.statusCode, answer.headers.connection, JSON.parse((await answer.toArray()).join('')).error];
	};
	for (let times = 0; times < 10; times++) {
		const [status, connection, error] = await post('/v1/things');
		t.like({status, connection, error}, {status: 413, connection: 'close', error: {code: 'payload_too_large'}});
		t.deepEqual(await post('/v1/locked'), [401, 'close', 'Unauthorized']);
		t.is((await post('/v1/nothing'))[0], 404);
	}
});

test('responds to a client that sends Connection: close but no body', async t => {
	const {port} = await start(t, {timeouts: {...patientTimeouts, drain: 50}});
	const head = 'POST /v1/things HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n';
	t.regex(await rawHttp(port, `${head}Content-Length: 9000000\r\n\r\n`), /^HTTP\/1\.1 413 /);
});

test('a client that disconnects during its body affects no other request', async t => {
	const {port, base} = await start(t, {timeouts: patientTimeouts});
	for (const path of ['/v1/things', '/v1/locked', '/v1/nothing']) {
		const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n`;
		const goes = connect(port, '127.0.0.1');
		goes.write(`${head}Content-Length: 9000000\r\n\r\nabc`);
		await once(goes, 'connect');
		t.is((await fetch(`${base}/v1/things`)).status, 200);
		goes.resetAndDestroy();
		await once(goes, 'close');
		t.is((await fetch(`${base}/v1/things`)).status, 200);
		// An invalid chunk gets a 400.
		t.regex(await rawHttp(port, `${head}Transfer-Encoding: chunked\r\n\r\nzz\r\n`), /^HTTP\/1\.1 400 /);
	}
});

test('ignores an unknown Expect header', async t => {
	const {port} = await start(t);
	const answer = await rawHttp(
		port,
		'GET /v1/things HTTP/1.1\r\nHost: x\r\nExpect: a-miracle\r\nConnection: close\r\n\r\n',
	);
	t.regex(answer, /^HTTP\/1\.1 200 OK\r\n/);
});

test('closing does not wait for a connection without a request', async t => {
	const {api, port} = await start(t);
	const socket = connect(port, '127.0.0.1');
	await once(api.server, 'connection');
	const ended = once(socket, 'close');
	await api.close();
	await ended;
	t.pass();
});

test('closing responds to pending requests, refused ones too, and then ends their connections', async t => {
	const {api, port} = await start(t);
	const begun = countRequests(api);
	const clients = ['}', '!'].map(rest => {
		const client = {rest, text: '', socket: connect(port, '127.0.0.1')};
		client.socket.on('data', chunk => {
			client.text += chunk;
		});
		client.socket.write(
			'POST /v1/things HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{',
		);
		return client;
	});
	await waitFor('the requests are under way', () => begun() === clients.length);
	const closed = api.close();
	await waitFor('no more is taken', () => !api.server.listening);
	for (const {socket, rest} of clients) {
		socket.write(rest);
	}
	await waitFor('both are answered', () => clients.every(({text}) => text.endsWith('}')));
	const [done = '', refused = ''] = clients.map(({text}) => text);
	t.regex(done, /^HTTP\/1\.1 200 .*\r\nconnection: close\r\n/is);
	t.regex(refused, /^HTTP\/1\.1 400 .*\r\nconnection: close\r\n/is);
	await closed;
});

test('closing responds to complete requests and does not wait for incomplete ones', async t => {
	const {api, port} = await start(t, {timeouts: {...patientTimeouts, stop: 100}});
	const begun = countRequests(api);
	const head = 'POST /v1/things HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n';
	const sockets = [`${head}{`, `${head}{}${head.slice(0, 30)}`].map(text => {
		const socket = connect(port, '127.0.0.1');
		socket.on('error', () => undefined);
		socket.resume();
		socket.write(text);
		return socket;
	});
	await waitFor('the requests are under way', () => begun() === sockets.length);
	const ended = sockets.map(socket => once(socket, 'close'));
	await api.close();
	await Promise.all(ended);
	t.pass();
});

test('closing reads the rest of a refused body before it ends the connection', async t => {
	const {api, port} = await start(t, {timeouts: patientTimeouts});
	const begun = countRequests(api);
	const socket = connect(port, '127.0.0.1');
	let text = '';
	socket.on('data', chunk => {
		text += chunk;
	});
	socket.write(
		'POST /v1/things HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n',
	);
	const chunk = `${(64 * 1024).toString(16)}\r\n${' '.repeat(64 * 1024)}\r\n`;
	socket.write(chunk);
	await waitFor('the request is under way', () => begun() === 1);
	const closed = api.close();
	await waitFor('no more is taken', () => !api.server.listening);
	let failed: unknown = null;
	socket.on('error', error => {
		failed = error;
	});
	for (let n = 0; n < 100 && !socket.destroyed; n++) {
		await new Promise(resolve => socket.write(chunk, resolve));
	}
	socket.write('0\r\n\r\n');
	await waitFor('an answer', () => text.endsWith('}') || failed !== null);
	t.is(failed, null);
	t.regex(text, /^HTTP\/1\.1 413 .*\r\nconnection: close\r\n/is);
	await closed;
});

test('reports each response with its route pattern instead of its path', async t => {
	const answered: string[] = [];
	const {base} = await start(t, {
		onAnswered(method, route, status, milliseconds) {
			t.true(milliseconds >= 0);
			answered.push(`${method} ${route} ${status}`);
		},
	});
	await fetch(`${base}/v1/things/one`);
	await fetch(`${base}/v1/things/two`);
	await fetch(`${base}/v1/broken`);
	await fetch(`${base}/v1/things`, {method: 'DELETE'});
	await fetch(`${base}/v1/nothing/here`);
	await waitFor('five answers are told', () => answered.length === 5);
	t.deepEqual(answered.toSorted(), [
		'DELETE /v1/things 405',
		'GET /v1/broken 500',
		'GET /v1/things/:id 200',
		'GET /v1/things/:id 200',
		'GET none 404',
	]);
});
