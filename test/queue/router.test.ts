import test from 'ava';
import {loadDestinations, parseDestinations} from '../../src/config/destinations-file.ts';
import {loadSettings, type Settings} from '../../src/config/settings.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {createResolver} from '../../src/net/resolver.ts';
import {Router} from '../../src/queue/router.ts';
import {changeWorkspace} from '../../src/resources/workspaces/rules.ts';
import {sealingIds} from '../../src/store/sealed.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {startFakeDns, type Zone} from '../helpers/fake-dns.ts';
import type {Teardown} from '../helpers/fake-mx.ts';
import {insertWorkspace} from '../helpers/messages.ts';
import {testTools, testVault} from '../helpers/tools.ts';

const google = ['aspmx.l.google.com', 'alt1.aspmx.l.google.com'] as const;
const zone: Zone = {
	'one.test': {
		mx: [
			[1, google[0]],
			[5, google[1]],
		],
	},
	'two.test': {
		mx: [
			[10, google[1]],
			[10, `${google[0]}.`.toUpperCase()],
		],
	},
	'own.test': {mx: [[10, 'mx.own.test']]},
	'bare.test': {},
	'broken.test': 'servfail',
	'null.test': {mx: [[0, '.']]},
};

function settingsOf(env: Record<string, string>): Settings {
	const loaded = loadSettings({env, cwd: '/nonexistent', hostname: 'mail.shop.example', cpus: 1});
	if (!loaded.ok) {
		throw new Error(loaded.problems.join('\n'));
	}

	return loaded.settings;
}

async function start(t: Teardown, store: Store, env: Record<string, string> = {}) {
	const dns = await startFakeDns(t, structuredClone(zone));
	const settings = settingsOf({MAILCTL_DELIVERY: 'mx', ...env});
	const resolver = createResolver({servers: [dns.server], timeoutMs: 60_000, tries: 1, clock: systemClock});
	let destinations = loadDestinations(settings);
	const routes = new Router({
		settings,
		destinations: () => destinations,
		store,
		vault: testVault,
		resolver,
		policies: null,
		clock: systemClock,
	});
	const tools = testTools();
	const {workspaceId} = await insertWorkspace(store);
	return {
		dns,
		routes,
		workspaceId,
		route: async (destination: string) => await routes.findRoute({destination, workspaceId}),
		reload(own: object) {
			const base = {default: {connections: 5, startConnections: 2}};
			const next = parseDestinations(base, own, {pools: [], hasRelay: true});
			if (!next.ok) {
				throw new Error(next.problems.join());
			}

			destinations = next.destinations;
			routes.reload();
		},
		change: (input: Parameters<typeof changeWorkspace>[3]) =>
			store.writer.transaction(trx => changeWorkspace(trx, tools, workspaceId, input)),
	};
}

const pools = {
	MAILCTL_SOURCE_ADDRESSES: '192.0.2.1=otp.shop.example,192.0.2.2',
	MAILCTL_SOURCE_POOLS: 'otp=192.0.2.1,bulk=192.0.2.2',
};

storeTest(
	test,
	'groups domains with the same mail servers, and uses the domain if DNS lists none',
	async (t, store) => {
		const {route, dns} = await start(t, store);
		const one = await route('one.test');
		t.like(one, {site: '(alt1)?.aspmx.l.google.com', provider: 'google'});
		t.is((await route('two.test')).site, one.site);
		t.is((await route('own.test')).site, 'mx.own.test');
		for (const domain of ['bare.test', 'broken.test', 'null.test', 'nowhere.test']) {
			t.like(await route(domain), {site: domain, provider: 'default', terms: {nextHop: {kind: 'mx'}}});
		}

		const asked = dns.queries.length;
		await Promise.all([route('one.test'), route('one.test'), route('own.test')]);
		t.is(dns.queries.length, asked);
	},
);

storeTest(test, 'looks up nothing in capture mode', async (t, store) => {
	const capture = await start(t, store, {MAILCTL_DELIVERY: 'capture', MAILCTL_RELAY_URL: 'smtp://relay.example'});
	await capture.change({route: {text: 'mx', vault: testVault}});
	t.is((await capture.route('one.test')).site, 'capture');
	t.deepEqual(capture.dns.queries, []);
	t.is((await capture.routes.findRoute({destination: 'one.test', workspaceId: 'ws_gone'})).site, 'capture');
});

storeTest(test, 'applies the pool and the route of a workspace from the next reload', async (t, store) => {
	const {route, routes, change, dns} = await start(t, store, pools);
	await change({source_pool: 'otp'});
	t.like((await route('own.test')).terms.sources, {
		length: 1,
		0: {address: '192.0.2.1', hostname: 'otp.shop.example'},
	});
	await change({
		source_pool: 'bulk',
		route: {text: 'smtp://a.example, smtp://app:p%40ss%25@b.example', vault: testVault},
	});
	t.is((await route('own.test')).site, 'mx.own.test from 192.0.2.1', 'until it is told');
	t.true(await routes.renew());
	t.false(await routes.renew(), 'nothing changed');
	const {site, terms} = await route('own.test');
	t.is(site, 'smarthost a.example:25+app@b.example:587 from 192.0.2.2');
	t.like(terms.nextHop, {kind: 'relay', relays: {1: {user: 'app', password: 'p@ss%', tls: 'required'}}});
	await change({source_pool: null, route: null});
	t.true(await routes.renew());
	t.is((await route('own.test')).terms.nextHop.kind, 'mx');
	t.deepEqual(dns.queries, ['MX own.test']);
});

storeTest(test, 'seals the password of a stored route and keeps the rest readable', async (t, store) => {
	const {change} = await start(t, store);
	t.deepEqual(await sealingIds(store.reader), []);
	await change({route: {text: 'smtp://open.example', vault: testVault}});
	t.deepEqual(await sealingIds(store.reader), []);
	const changed = await change({
		route: {text: 'smtp://app:hunter2@b.example:587,smtp://c.example', vault: testVault},
	});
	t.regex(changed?.route ?? '', /^smtp:\/\/app:v1\.1\.[\w-]{40,}@b\.example:587,smtp:\/\/c\.example$/);
	t.deepEqual(await sealingIds(store.reader), [1]);
	t.is((await change({route: null}))?.route, null);
});

storeTest(test, 'applies a changed destinations file at once', async (t, store) => {
	const {route, reload} = await start(t, store, {MAILCTL_RELAY_URL: 'smtp://relay.example'});
	t.is((await route('own.test')).provider, 'default');
	reload({own: {mx: ['own.test'], connections: 1}, one: {domains: ['one.test'], route: 'relay'}});
	t.like(await route('own.test'), {provider: 'own', pace: {connections: 1}});
	t.is((await route('one.test')).site, 'smarthost relay.example:25');
});

storeTest(test, 'finds the same retry rules with a route and without one', async (t, store) => {
	const {route, routes, reload, dns} = await start(t, store, {MAILCTL_RELAY_URL: 'smtp://relay.example'});
	const none = {schedule: null, lifetime: null};
	const own = {schedule: {waits: [1000, 60_000], repeatLast: true}, lifetime: 1_800_000};
	t.deepEqual(await routes.findOwnRetry('own.test'), none);
	reload({one: {domains: ['one.test'], route: 'relay', retry: '1s,1m*', lifetime: '30m'}});
	t.deepEqual(await routes.findOwnRetry('one.test'), own);
	t.deepEqual(await routes.findOwnRetry('own.test'), none);
	t.deepEqual(dns.queries, [], 'only where mail hosts decide');
	t.deepEqual((await route('one.test')).retry, own, 'also by a smarthost');
	t.deepEqual((await route('own.test')).retry, none);
	reload({own: {mx: ['own.test'], retry: '1s,1m*', lifetime: '30m'}});
	for (const domain of ['own.test', 'one.test', 'simulator.test', 'broken.test']) {
		t.deepEqual(await routes.findOwnRetry(domain), (await route(domain)).retry);
	}

	t.deepEqual(await routes.findOwnRetry('own.test'), own);
});

storeTest(test, 'returns no retry rules and looks up nothing in capture mode', async (t, store) => {
	const capture = await start(t, store, {MAILCTL_DELIVERY: 'capture'});
	capture.reload({own: {mx: ['own.test'], retry: '1s'}});
	t.deepEqual(await capture.routes.findOwnRetry('own.test'), {schedule: null, lifetime: null});
	t.deepEqual(capture.dns.queries, []);
});

storeTest(test, 'limits a new source for the day and sends the rest through the relay', async (t, store) => {
	const {route} = await start(t, store, {
		MAILCTL_SOURCE_ADDRESSES: '192.0.2.1',
		MAILCTL_WARM_UP: `192.0.2.1=${new Date().toISOString().slice(0, 10)}`,
		MAILCTL_RELAY_URL: 'smtp://relay.example',
	});
	const {warmUp} = await route('one.test');
	t.like(warmUp, {
		source: '192.0.2.1',
		group: 'google',
		overflow: {site: 'smarthost relay.example:25 from 192.0.2.1'},
	});
	t.true(warmUp?.perDay === 50 || warmUp?.perDay === 100, 'midnight may have passed');
});

storeTest(test, 'fails on a route that cannot be unsealed, and retries it', async (t, store) => {
	const {route: routeOf, change} = await start(t, store);
	await change({route: {text: 'smtp://app:hunter2@b.example', vault: testVault}});
	const {id, route} = (await store.reader('workspaces').first('id', 'route')) as {id: string; route: string};
	await store
		.database('workspaces')
		.where({id})
		.update({route: route.replace('app:v1.1.', 'app:v1.9.')});
	await t.throwsAsync(routeOf('own.test'), {message: /key 9/});
	await store.database('workspaces').where({id}).update({route});
	t.is((await routeOf('own.test')).terms.nextHop.kind, 'relay');
});
