import test from 'ava';
import type {Route} from '../../src/dashboard/route.ts';
import {type Role, roles} from '../../src/mail/operator.ts';
import {findUserByEmail} from '../../src/resources/users/store.ts';
import {openStore} from '../../src/store/store.ts';
import {strangerTo, type Visitor, visitorOf} from '../helpers/dashboard.ts';
import {named, pathOf, routes, servedAt, thingsOf} from '../helpers/dashboard-routes.ts';
import {service} from './service.ts';

// Every route of the dashboard, from its table: a new one is tried here without being named.

const ask = (visitor: Visitor, route: Route, path: string) =>
	route.method === 'GET' ? visitor.get(path) : visitor.submit(path);

test('without a session every page redirects to the login, and a partial update gets 401', async t => {
	const stranger = strangerTo(service().url);
	for (const route of routes) {
		const body = route.method === 'POST' ? {body: new URLSearchParams()} : {};
		const path = servedAt(route).replaceAll(/:\w+/g, 'x');
		const seen = await stranger.exact(path, {method: route.method, ...body});
		t.is(seen.status, 303, named(route));
		t.regex(seen.location ?? '', /^\/login/, named(route));
		const part = await stranger.exact(path, {method: route.method, headers: {'hx-request': 'true'}, ...body});
		t.is(part.status, 401, named(route));
		// What was typed is not thrown away.
		t.is(part.headers.get('hx-refresh'), route.method === 'GET' ? 'true' : null, named(route));
	}
});

test('every page responds with 403 to a role that is too low', async t => {
	for (const [index, role] of roles.entries()) {
		const visitor = await visitorOf(service(), role);
		t.is((await visitor.get('/messages')).status, 200, role);
		for (const route of routes.filter(one => roles.indexOf(one.role) > index)) {
			const seen = await ask(visitor, route, route.path.replaceAll(/:\w+/g, 'x'));
			t.is(seen.status, 403, `${role}: ${named(route)}`);
		}
	}
});

test('users of one workspace cannot open pages of the installation', async t => {
	const visitor = await visitorOf(service(), 'admin', 'shop');
	t.is((await visitor.get('/messages')).status, 200);
	for (const route of routes.filter(one => one.everywhere)) {
		const seen = await ask(visitor, route, route.path.replaceAll(/:\w+/g, 'x'));
		t.is(seen.status, 403, named(route));
	}
});

test('lists exactly the actions and pages of the installation', t => {
	t.deepEqual(
		routes
			.filter(one => one.everywhere)
			.map(named)
			.toSorted(),
		[
			'GET /health',
			'GET /health/checks',
			'GET /returned/:id',
			'GET /returned/:id/raw',
			'POST /domains/:id/senders/:sender/verify',
			'POST /queue/:destination/resume',
			'POST /queue/suspend',
			'POST /workspaces',
		],
	);
});

test('requires a fresh login to show or create secrets and for irreversible actions', async t => {
	const fresh = routes.filter(one => one.fresh);
	t.deepEqual(fresh.map(named).toSorted(), [
		'GET /webhooks/:id/secret',
		'POST /account/codes',
		'POST /account/codes/remove',
		'POST /account/passkeys',
		'POST /account/passkeys/:id/remove',
		'POST /account/password',
		'POST /alerts',
		'POST /alerts/:id/remove',
		'POST /contacts/:id/erase',
		'POST /domains/:id/keys/cancel',
		'POST /domains/:id/keys/rotate',
		'POST /domains/:id/remove',
		'POST /domains/:id/senders/:sender/remove',
		'POST /keys',
		'POST /keys/:id/revoke',
		'POST /keys/:id/rotate',
		'POST /queue/:destination/drop',
		'POST /queue/:destination/fail',
		'POST /smarthosts',
		'POST /smarthosts/:id/remove',
		'POST /smarthosts/:id/rotate',
		'POST /templates/:id/delete',
		'POST /topics/:code/purge',
		'POST /users',
		'POST /users/:id',
		'POST /users/:id/link',
		'POST /users/:id/remove',
		'POST /webhooks',
		'POST /webhooks/:id/remove',
		'POST /webhooks/:id/rotate',
	]);
	const {program, url, store: stored} = service();
	const {link} = await program.cli<{link: string}>('user', 'add', 'stale@staff.example', '--role', 'admin');
	const visitor = strangerTo(url);
	await visitor.get(new URL(link).pathname);
	const store = await openStore(stored);
	t.teardown(() => store.close());
	const user = await findUserByEmail(store.reader, 'stale@staff.example');
	await store.database('user_sessions').where({user_id: user?.id}).update({confirmed_at: '2026-01-01T00:00:00.000Z'});
	for (const route of fresh) {
		const {location} = await ask(visitor, route, route.path.replaceAll(/:\w+/g, 'x'));
		t.regex(location ?? '', /^\/confirm\?to=/, named(route));
	}
});

test('rejects a form without its token or from another origin', async t => {
	const visitor = await visitorOf(service(), 'admin');
	for (const route of routes.filter(one => one.method === 'POST')) {
		const path = route.path.replaceAll(/:\w+/g, 'x');
		const bare = await visitor.raw(path, {method: 'POST', body: new URLSearchParams({a: 'b'})});
		t.is(bare.status, 403, named(route));
		const elsewhere = await visitor.raw(path, {
			method: 'POST',
			body: new URLSearchParams({_csrf: 'x'}),
			headers: {origin: 'http://elsewhere.example'},
		});
		t.is(elsewhere.status, 403, named(route));
	}
});

test('responds with 404 to objects of another workspace', async t => {
	const things = await thingsOf(service());
	const owner = await visitorOf(service(), 'admin', 'shop');
	const foreigner = await visitorOf(service(), 'admin', 'other');
	for (const route of routes.filter(one => !one.everywhere)) {
		const path = pathOf(route, things);
		if (path !== null && route.method === 'GET' && path.split('/').length === 3) {
			const own = await owner.get(path);
			t.is(own.status, 200, `own ${named(route)}`);
		}
		const seen = await ask(foreigner, route, path ?? route.path);
		// A destination is nobody's: whoever names one sees their own mail to it.
		if (path !== null && !path.startsWith('/queue/')) {
			t.true([303, 404].includes(seen.status), `${named(route)} answered ${seen.status}`);
			t.true(route.method === 'POST' || seen.status === 404, named(route));
		}
		t.notRegex(seen.text, /secret/i, named(route));
	}
	// What the foreigner asked for was not done either.
	const shown = routes.filter(one => one.method === 'GET' && !one.everywhere && one.path.split('/').length === 3);
	for (const route of shown) {
		const path = pathOf(route, things);
		if (path !== null) {
			t.is((await owner.get(path)).status, 200, `still there: ${named(route)}`);
		}
	}
});

test('every page rejects text that the store cannot hold', async t => {
	const visitor = await visitorOf(service(), 'admin');
	for (const route of routes) {
		const path = `${route.path.replace(':destination', 'dest.example').replaceAll(/:\w+/g, '1')}?after=%00&q=%00`;
		const seen = await (route.method === 'GET' ? visitor.get(path) : visitor.submit(path, {typed: '\0'}));
		t.true([303, 400].includes(seen.status), `${named(route)} answered ${seen.status}`);
	}
});

test('responds with 404 to a path without its id', async t => {
	const visitor = await visitorOf(service(), 'admin');
	for (const {path} of routes.filter(one => one.method === 'GET' && one.path.endsWith(':id'))) {
		t.is((await visitor.get(path.replace(':id', ''))).status, 404, path);
	}
});

test('no form lets viewers change anything but their account and view', t => {
	const least = (role: Role) => routes.filter(one => one.role === role).map(named);
	for (const route of routes.filter(one => one.method === 'POST')) {
		t.false(
			route.role === 'viewer' &&
				!['/logout', '/workspaces/use', '/returned/explain'].includes(route.path) &&
				!route.path.startsWith('/account'),
			`${named(route)} lets viewers change something`,
		);
	}
	t.true(least('viewer').length > 0);
});
