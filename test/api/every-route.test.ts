import test, {type ExecutionContext} from 'ava';
import {isId} from '../../src/mail/ids.ts';
import {openStore} from '../../src/store/store.ts';
import {unknownId} from '../conformance/resources.ts';
import {routes as interfaceRoutes, pathWith} from '../conformance/routes.ts';
import {startApi, type TestApi} from '../helpers/api.ts';
import {conforms} from '../helpers/conforms.ts';
import {engines, migratedLocation, newStore} from '../helpers/databases.ts';
import {type ApiDocument, type Described, operationsOf} from '../helpers/described.ts';
import {rawHttp} from '../helpers/raw-http.ts';
import {startTcpProxy} from '../helpers/tcp-proxy.ts';
import {addKey} from '../helpers/workspace.ts';

// Rules that hold for every route, checked on each route of the program.

const largestBody = 32 * 1024 * 1024;
const largestHeader = 16 * 1024;

async function start(t: ExecutionContext): Promise<{api: TestApi; routes: Described[]}> {
	const api = await startApi(t, await newStore(t, 'sqlite'));
	const document = (await (await fetch(`${api.base}/openapi.json`)).json()) as ApiDocument;
	const routes = operationsOf(document).filter(({path}) => path.startsWith('/v1/'));
	t.true(routes.length >= 3);
	return {api, routes};
}

type Called = {readonly status: number; readonly code: string | undefined; readonly headers: Headers};

/** Calls a route with these fields instead of valid ones, and checks the shape of an error. */
async function call(
	t: ExecutionContext,
	{base, key}: TestApi,
	{method, path}: Described,
	{
		body,
		type = 'application/json',
		bearer = key,
		query = '',
	}: {body?: string; type?: string; bearer?: string; query?: string} = {},
): Promise<Called> {
	const response = await fetch(base + path.replaceAll(/\{[^}]+\}/g, 'x') + query, {
		method,
		headers: {
			...(bearer === '' ? {} : {authorization: `Bearer ${bearer}`}),
			...(body === undefined ? {} : {'content-type': type}),
		},
		body: body ?? null,
	});
	const id = response.headers.get('x-request-id') ?? '';
	const where = `${method} ${path}`;
	t.true(isId('req', id), where);
	const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
	const text = isStream ? '' : await response.text();
	await (isStream && response.body?.cancel()); // It would not end by itself.
	if (response.status === 401) {
		t.is(text, '{"error":"Unauthorized"}', where);
		return {status: 401, code: undefined, headers: response.headers};
	}
	if (!response.headers.get('content-type')?.startsWith('application/json') || text === '') {
		return {status: response.status, code: undefined, headers: response.headers};
	}
	const {error} = JSON.parse(text) as {error?: {code: string; request_id: string; message: string}};
	if (error) {
		t.is(error.request_id, id, where);
		t.not(error.message, '', where);
	}
	return {status: response.status, code: error?.code, headers: response.headers};
}

const hasBody = ({operation}: Described) => operation.requestBody?.content['application/json'] !== undefined;
// The body is optional on these routes.
const needsBody = (route: Described) =>
	hasBody(route) &&
	!/\/(cancel|preferences-link|replay|resend|rotate|rotate-key|rotate-secret|test|verify)$/.test(route.path);

test('responds with 401 to a missing, unknown or malformed key', async t => {
	conforms(t, 'auth.required', 'auth.unauthorized', 'errors.401');
	const {api, routes} = await start(t);
	for (const route of routes) {
		for (const bearer of ['', 'key_live_x', 'key_live_00000000000000000000000000000000000000']) {
			const {status, headers} = await call(t, api, route, {bearer});
			t.is(status, 401, `${route.method} ${route.path}`);
			t.is(headers.get('www-authenticate'), 'Bearer');
		}
	}
});

test('responds with 403 insufficient_scope to a key without scopes, whatever the body', async t => {
	const {api, routes} = await start(t);
	const bearer = await addKey(api.store, api.workspace.id, {scopes: '[]'});
	for (const route of routes) {
		const called = await call(t, api, route, {bearer, ...(hasBody(route) && {body: '{'})});
		t.like(called, {status: 403, code: 'insufficient_scope'}, `${route.method} ${route.path}`);
	}
});

test('each route requires its own scope and no other', async t => {
	conforms(t, 'auth.scopes', 'auth.scope-missing', 'scope.messages.send', 'scope.messages.read');
	conforms(t, 'scope.suppressions.manage', 'scope.suppressions.read', 'scope.webhooks.manage', 'scope.webhooks.read');
	conforms(t, 'scope.unsubscribe_groups.manage', 'scope.unsubscribe_groups.read');
	const {api} = await start(t);
	const scopes = [...new Set(interfaceRoutes.map(({scope}) => scope))];
	const add = (some: readonly string[]) => addKey(api.store, api.workspace.id, {scopes: JSON.stringify(some)});
	for (const scope of scopes) {
		const [alone, others] = [await add([scope]), await add(scopes.filter(one => one !== scope))];
		for (const route of interfaceRoutes.filter(one => one.scope === scope)) {
			const init = {method: route.method, ...(route.body && {body: JSON.stringify(route.body)})};
			const ask = (key: string) => {
				const headers = {
					authorization: `Bearer ${key}`,
					...(route.body && {'content-type': 'application/json'}),
				};
				return fetch(api.base + pathWith(route, unknownId), {...init, headers});
			};
			t.is((await ask(others)).status, 403, `${route.method} ${route.path}`);
			t.false([401, 403, 405, 500].includes((await ask(alone)).status), `${route.method} ${route.path}`);
		}
	}
});

test('responds with 405 and Allow to other methods, with or without a key, and with 204 to OPTIONS', async t => {
	conforms(t, 'errors.405.method_not_allowed', 'webhook-status.no-lifecycle');
	const {api, routes} = await start(t);
	const methodsOf = new Map<string, string[]>();
	for (const {path, method} of routes) {
		methodsOf.set(path, [...(methodsOf.get(path) ?? []), method, ...(method === 'GET' ? ['HEAD'] : [])]);
	}
	// The API has no way to edit an entry or a topic.
	t.deepEqual(methodsOf.get('/v1/suppressions/{id}'), ['DELETE']);
	t.deepEqual(methodsOf.get('/v1/unsubscribe-groups/{id}'), ['DELETE']);
	for (const [path, methods] of methodsOf) {
		const allow = [...methods, 'OPTIONS'].toSorted().join(', ');
		for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'].filter(one => !methods.includes(one))) {
			const response = await fetch(api.base + path.replaceAll(/\{[^}]+\}/g, 'x'), {method});
			t.is(response.status, 405, `${method} ${path}`);
			t.is(response.headers.get('allow'), allow, path);
			t.true(isId('req', response.headers.get('x-request-id') ?? ''));
		}
		const options = await fetch(api.base + path.replaceAll(/\{[^}]+\}/g, 'x'), {method: 'OPTIONS'});
		t.is(options.status, 204, path);
		t.is(options.headers.get('allow'), allow, path);
	}
});

test('HEAD responds like GET on every route, without a body', async t => {
	const {api, routes} = await start(t);
	for (const route of routes.filter(({method}) => method === 'GET')) {
		const get = await call(t, api, route);
		const head = await call(t, api, {...route, method: 'HEAD'});
		t.is(head.status, get.status, route.path);
		t.is(head.headers.get('content-type'), get.headers.get('content-type'), route.path);
	}
});

test('responds with 404 to a trailing slash, a missing version or another version', async t => {
	conforms(t, 'versioning.1');
	const {api, routes} = await start(t);
	for (const route of routes) {
		for (const path of [`${route.path}/`, route.path.replace('/v1', ''), route.path.replace('/v1', '/v2')]) {
			t.like(await call(t, api, {...route, path}), {status: 404, code: 'not_found'}, path);
		}
	}
});

test('rejects an unknown query parameter', async t => {
	const {api, routes} = await start(t);
	for (const route of routes.filter(route => !hasBody(route))) {
		const called = await call(t, api, route, {query: '?surprise=1'});
		t.like(called, {status: 422, code: 'validation_failed'}, `${route.method} ${route.path}`);
	}
});

test('checks a body in this order: 415, 413, 400, 422', async t => {
	conforms(t, 'overview.json', 'errors.400.bad_request');
	const {api, routes} = await start(t);
	for (const route of routes.filter(hasBody)) {
		const where = `${route.method} ${route.path}`;
		const other = await call(t, api, route, {body: '{}', type: 'text/plain'});
		t.like(other, {status: 415, code: 'unsupported_media_type'}, where);
		for (const body of [
			'{',
			'[1',
			'{"a":1,"a":1}',
			'{"__proto__":1}',
			'"\\ud800',
			`${'['.repeat(40)}${']'.repeat(40)}`,
			'null',
		]) {
			t.like(
				await call(t, api, route, {body}),
				{status: 400, code: 'bad_request'},
				`${where} ${body.slice(0, 20)}`,
			);
		}
		t.like(await call(t, api, route, {body: '{"surprise":1}'}), {status: 422, code: 'validation_failed'}, where);
		t.like(await call(t, api, route, {body: '[]'}), {status: 422, code: 'validation_failed'}, where);
	}
	for (const route of routes.filter(needsBody)) {
		t.like(await call(t, api, route), {status: 400, code: 'bad_request'}, `${route.method} ${route.path}`);
	}
});

test('rejects a body over the limit with 413 before reading it', async t => {
	const {api, routes} = await start(t);
	const {port} = new URL(api.base);
	for (const {method, path} of routes.filter(hasBody)) {
		const answer = await rawHttp(
			Number(port),
			`${method} ${path.replaceAll(/\{[^}]+\}/g, 'x')} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${api.key}\r\nContent-Type: application/json\r\nContent-Length: ${largestBody + 1}\r\n\r\n`,
		);
		t.regex(answer, /^HTTP\/1\.1 413 /, path);
		t.regex(answer, /"code":"payload_too_large"/, path);
		t.regex(answer, /\r\nx-request-id: req_/i, path);
	}
});

test('responds to headers that are too long with 431 and a JSON error', async t => {
	const {api, routes} = await start(t);
	const {port} = new URL(api.base);
	for (const {method, path} of routes) {
		const answer = await rawHttp(
			Number(port),
			`${method} ${path} HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(largestHeader + 1)}\r\n\r\n`,
		);
		t.regex(answer, /^HTTP\/1\.1 431 /, path);
		t.regex(answer, /"code":"bad_request"/, path);
	}
});

if (engines.includes('postgres')) {
	// Serial: beside the other tests of this file, the connection to PostgreSQL may wait for the event loop for seconds.
	test.serial('responds with 503 and Retry-After on every route while the store is unreachable', async t => {
		const location = await migratedLocation(t, 'postgres');
		const url = new URL('url' in location ? location.url : '');
		const proxy = await startTcpProxy(t, {host: url.hostname, port: Number(url.port)});
		url.port = String(proxy.port);
		const store = await openStore({url: url.href});
		t.teardown(() => store.close());
		const api = await startApi(t, store);
		const document = (await (await fetch(`${api.base}/openapi.json`)).json()) as ApiDocument;
		// Caches the key before the store becomes unreachable.
		t.is((await api.get('/v1/messages/x')).status, 404);
		proxy.cut();
		const unknown = 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n';
		for (const path of [`/v1/messages/${unknown}`, `/v1/messages/${unknown}/events`]) {
			const answer = await api.get(path);
			t.is(answer.status, 503, path);
			t.is((answer.body as {error: {code: string}}).error.code, 'unavailable', path);
			t.truthy(answer.headers.get('retry-after'), path);
		}
		for (const route of operationsOf(document).filter(({path}) => /^\/v1\/[a-z-]+$/.test(path))) {
			if (route.method === 'GET') {
				t.like(await call(t, api, route), {status: 503, code: 'unavailable'}, route.path);
			}
		}
		t.is((await api.send()).status, 503);
	});
}
