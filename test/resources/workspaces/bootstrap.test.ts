import test from 'ava';
import {apiKeyHash} from '../../../src/mail/api-key.ts';
import {tokenHash} from '../../../src/resources/users/rules.ts';
import {type Bootstrapped, bootstrap, commandName, welcome} from '../../../src/resources/workspaces/bootstrap.ts';
import {migrate} from '../../../src/store/engine/migrate.ts';
import {endFirstStart} from '../../../src/store/first-starts.ts';
import {openStore, type Store} from '../../../src/store/store.ts';
import {engines, newLocation, sqliteTest, storeTest} from '../../helpers/databases.ts';
import {testTools, testVault} from '../../helpers/tools.ts';

const first = {isCapturing: true, hasDashboard: true, isAlone: true, hasKeysFile: false};

storeTest(test, 'fills an empty store with everything the first message needs, once', async (t, store) => {
	const made = await bootstrap(store, testTools(), testVault, first);
	if (!made) {
		t.fail();
		return;
	}
	t.like(await store.reader('workspaces').first(), {id: made.workspaceId, name: 'default'});
	t.like(await store.reader('senders').first(), {address: 'hello@example.com', disabled_at: null});
	t.truthy((await store.reader('senders').first()).verified_at);
	t.deepEqual(await store.reader('dkim_keys').orderBy('selector').pluck('selector'), ['mc1', 'mc2']);
	t.like(await store.reader('templates').first(), {id: made.templateId, latest_version: 1});
	const hashes = await store.reader('api_keys').orderBy('mode').select('mode', 'hash');
	t.deepEqual(hashes, [
		{mode: 'live', hash: apiKeyHash(made.liveKey)},
		{mode: 'test', hash: apiKeyHash(made.testKey)},
	]);
	t.like(await store.reader('users').first(), {
		email: 'admin@localhost',
		role: 'admin',
		workspace_id: null,
		link_hash: tokenHash(made.signInToken ?? ''),
	});
	await store.writer.transaction(endFirstStart);
	t.is(await bootstrap(store, testTools(), testVault, first), null);
});

/** Returns a store whose first start was interrupted before its keys were shown. */
async function breakOff(store: Store) {
	const tools = testTools();
	const broken = (await bootstrap(store, tools, testVault, first)) as Bootstrapped;
	return {tools, broken, again: (more = {}) => bootstrap(store, tools, testVault, {...first, ...more})};
}

storeTest(
	test,
	'continues an interrupted first start with new keys and a new link, and keeps the rest',
	async (t, store) => {
		const {broken, again} = await breakOff(store);
		for (const _ of [1, 2]) {
			const made = await again();
			t.like(made, {workspaceId: broken.workspaceId, sender: broken.sender, templateId: broken.templateId});
			t.not(made?.liveKey, broken.liveKey);
			const hashes = await store.reader('api_keys').orderBy('mode').pluck('hash');
			t.deepEqual(hashes, [apiKeyHash(made?.liveKey ?? ''), apiKeyHash(made?.testKey ?? '')]);
			t.deepEqual(await store.reader('users').pluck('link_hash'), [tokenHash(made?.signInToken ?? '')]);
		}
		await store.writer.transaction(endFirstStart);
		t.is(await again(), null);
	},
);

for (const [what, use] of Object.entries({
	'its key was used': (store: Store) =>
		store.database('api_keys').where({mode: 'live'}).update({last_used_at: '2026-06-09T10:00:00.000Z'}),
	'a user signed in': (store: Store) => store.database('users').update({last_login_at: '2026-06-09T10:00:00.000Z'}),
	'its template was deleted': (store: Store) => store.database('templates').delete(),
})) {
	storeTest(test, `does not continue an interrupted first start once ${what}`, async (t, store) => {
		const {again} = await breakOff(store);
		await use(store);
		t.is(await again(), null);
		t.is((await store.reader('api_keys')).length, 2);
		t.deepEqual(await store.reader('first_starts'), []);
	});
}

storeTest(test, 'does not continue an interrupted first start that wrote its keys to a file', async (t, store) => {
	const {again, broken} = await breakOff(store);
	t.is(await again({hasKeysFile: true}), null);
	t.is(await again(), null);
	t.true((await store.reader('api_keys').pluck('hash')).includes(apiKeyHash(broken.liveKey)));
});

storeTest(test, 'leaves the first start of another node alone until it must have died', async (t, store) => {
	const {again, tools} = await breakOff(store);
	t.is(await again({isAlone: false}), null);
	tools.advance(60_000);
	t.truthy(await again({isAlone: false}));
	t.is(await again({isAlone: false}), null, 'this one is under way now');
});

sqliteTest(test, 'creates no sender if messages leave the machine', async (t, store) => {
	const made = await bootstrap(store, testTools(), testVault, {...first, isCapturing: false, hasDashboard: false});
	t.is(made?.sender, null);
	t.deepEqual(await store.reader('senders'), []);
	t.deepEqual(await store.reader('dkim_keys'), []);
	t.is((await store.reader('templates')).length, 1);
	t.is((await store.reader('api_keys')).length, 2);
	t.is(made?.signInToken, null, 'there is no dashboard');
	t.deepEqual(await store.reader('users'), []);
});

for (const engine of engines) {
	test(`only one of two processes started together fills the store (${engine})`, async t => {
		const location = await newLocation(t, engine);
		const stores = [await openStore(location), await openStore(location)];
		t.teardown(() => Promise.all(stores.map(store => store.close())));
		await migrate((stores[0] as (typeof stores)[number]).database);
		const made = await Promise.all(
			stores.map((store, index) => bootstrap(store, testTools(index), testVault, {...first, isAlone: false})),
		);
		t.is(made.filter(each => each !== null).length, 1);
		const names = await Promise.all(stores.map(store => store.reader('api_keys').pluck('name')));
		t.deepEqual(names, [
			['first', 'first'],
			['first', 'first'],
		]);
	});
}

test('the welcome is at most 80 columns wide', t => {
	const input = {
		workspaceId: `ws_${'0'.repeat(26)}`,
		sender: 'hello@example.com',
		templateId: `tpl_${'0'.repeat(26)}`,
		liveKey: `key_live_${'x'.repeat(38)}`,
		testKey: `key_test_${'x'.repeat(38)}`,
		url: 'http://127.0.0.1:65535',
		command: 'node bin/mailctl.js',
		inFile: false,
		link: `http://127.0.0.1:65535/login/${'x'.repeat(43)}`,
	};
	for (const sender of [input.sender, null]) {
		for (const inFile of [true, false]) {
			const lines = welcome({...input, sender, isFile: inFile});
			t.deepEqual(
				lines.filter(line => line.length > 80),
				[],
			);
			t.is(/first\.eml/.test(lines.join()), sender !== null);
			t.is(/domain add|curl/.exec(lines.join())?.[0], sender === null ? 'domain add' : 'curl');
		}
	}
});

test('shows the command as it can be run from the current folder', t => {
	t.is(commandName('/srv/mailctl/bin/mailctl.js', '/srv/mailctl'), 'node bin/mailctl.js');
	t.is(commandName('/srv/shop/node_modules/.bin/mailctl', '/srv/shop'), 'npx mailctl');
	t.is(commandName('/usr/local/bin/mailctl', '/srv/shop'), 'mailctl');
});
