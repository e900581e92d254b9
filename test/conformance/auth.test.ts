import test from 'ava';
import type {Answer, Failure} from '../helpers/api-client.ts';
import {conforms} from '../helpers/conforms.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {accepted, codeOf, send, unknownId} from './resources.ts';
import {pathWith, type Route, routes, scopes} from './routes.ts';

const service = serviceOf(test, {workspaces: {main: []}});

async function answerTo(key: string, route: Route): Promise<Answer<Failure>> {
	const body = route.body === undefined ? null : JSON.stringify(route.body);
	return await service().api(key).call(route.method, pathWith(route, unknownId), body);
}

test('each route wants its scope, and that alone; without it 403, whatever else is wrong', async t => {
	conforms(t, 'auth.scopes', 'auth.scope-missing', 'auth.required', 'errors.403.insufficient_scope');
	conforms(t, 'scope.messages.send', 'scope.messages.read', 'scope.suppressions.manage', 'scope.suppressions.read');
	conforms(t, 'scope.unsubscribe_groups.manage', 'scope.unsubscribe_groups.read');
	conforms(t, 'scope.webhooks.manage', 'scope.webhooks.read');
	const {main} = service().workspaces as {main: Workspace};
	const keys = await Promise.all(
		scopes.map(async scope => [scope, (await service().keyed(main, '--scope', scope)).key] as const),
	);
	for (const [scope, key] of keys) {
		for (const route of routes) {
			const {status, body} = await answerTo(key, route);
			const refused = status === 403 && body.error.code === 'insufficient_scope';
			t.is(refused, scope !== route.scope, `${scope} on ${route.method} ${route.path}: ${status}`);
			t.false(
				[401, 405, 500].includes(status) || (!refused && status === 403),
				`${route.method} ${route.path}: ${status}`,
			);
		}
	}
});

test('a key may have several scopes', async t => {
	conforms(t, 'auth.scopes');
	const {main} = service().workspaces as {main: Workspace};
	const both = await service().keyed(main, '--scope', 'messages:send', '--scope', 'messages:read');
	const id = await accepted(main, {}, both);
	t.is((await both.get(`/v1/messages/${id}`)).status, 200);
	t.is((await both.get('/v1/suppressions')).status, 403);
});

test('no key, a wrong key and a key in another place are the same 401 on every route', async t => {
	conforms(t, 'auth.unauthorized', 'auth.required', 'auth.bearer', 'errors.401');
	const {main} = service().workspaces as {main: Workspace};
	const {key} = main.live;
	for (const route of routes) {
		t.is((await answerTo('', route)).status, 401, `${route.method} ${route.path}`);
	}

	const {program} = service();
	const revoked = await program.cli<{id: string; key: string}>('key', 'create', '--name', 'r', '--workspace', main.id);
	const expired = await program.cli<{key: string}>(
		...['key', 'create', '--name', 'e', '--expires', '1s', '--workspace', main.id],
	);
	t.is((await service().api(revoked.key).get('/v1/messages')).status, 200);
	await program.cli('key', 'revoke', revoked.id, '--workspace', main.id);
	const headers = [
		{},
		{authorization: ''},
		{authorization: 'Bearer'},
		{authorization: 'Bearer '},
		{authorization: key},
		{authorization: `Basic ${key}`},
		{authorization: `Bearer ${key}x`},
		{authorization: `Bearer ${key.slice(0, -1)}`},
		{authorization: `Bearer ${key.replace('live', 'test')}`},
		{authorization: `Bearer ${key} ${key}`},
		{authorization: `Bearer ${'x'.repeat(4000)}`},
		{authorization: `Bearer key_live_${'0'.repeat(38)}`},
		{authorization: `Bearer ${revoked.key}`},
		{authorization: `Bearer ${expired.key}`},
		{'x-api-key': key},
	];
	const nobody = service().api('');
	for (const each of headers) {
		const answer = await waitFor(`401 for ${JSON.stringify(each)}`, async () => {
			const got = await nobody.call('GET', '/v1/messages', null, each as Record<string, string>);
			return got.status === 401 && got;
		});
		t.is(answer.text, '{"error":"Unauthorized"}');
		t.is(answer.headers.get('www-authenticate'), 'Bearer');
	}
	t.is((await nobody.get(`/v1/messages?key=${key}`)).status, 401);
	t.is((await service().api(key).get('/v1/messages')).status, 200);
});

test('keys begin with their type; what a test key sends is marked so', async t => {
	conforms(t, 'auth.prefixes');
	const {main} = service().workspaces as {main: Workspace};
	t.regex(main.live.key, /^key_live_[0-9A-Za-z]{38}$/);
	t.regex(main.test.key, /^key_test_[0-9A-Za-z]{38}$/);
	const live = await main.live.get<{mode: string}>(`/v1/messages/${await accepted(main)}`);
	const simulated = await main.live.get<{mode: string}>(`/v1/messages/${await accepted(main, {}, main.test)}`);
	t.deepEqual([live.body.mode, simulated.body.mode], ['live', 'test']);
});

test('401 comes before the body is looked at, 404 and 405 before 401', async t => {
	conforms(t, 'auth.required', 'errors.405.method_not_allowed', 'errors.404.not_found');
	const nobody = service().api('');
	t.is((await nobody.post('/v1/messages', '{')).status, 401);
	t.deepEqual(codeOf(await nobody.get('/v1/nothing')), 'not_found');
	t.deepEqual(codeOf(await nobody.remove('/v1/messages')), 'method_not_allowed');
});

test('403 comes before the body is looked at', async t => {
	conforms(t, 'auth.scope-missing');
	const {main} = service().workspaces as {main: Workspace};
	const reader = await service().keyed(main, '--scope', 'messages:read');
	t.is(codeOf(await reader.post('/v1/messages', '{')), 'insufficient_scope');
	const refused = await send({...main, live: reader});
	t.is(codeOf(refused), 'insufficient_scope');
	t.regex(refused.headers.get('ratelimit-limit') ?? '', /^\d+$/);
});
