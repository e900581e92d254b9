import test from 'ava';
import {bootstrap, commandName, welcome} from '../../src/admin/bootstrap.ts';
import {apiKeyHash} from '../../src/mail/api-key.ts';
import {migrate} from '../../src/store/engine/migrate.ts';
import {openStore} from '../../src/store/store.ts';
import {tokenHash} from '../../src/users/users.ts';
import {engines, newLocation, storeTest} from '../helpers/databases.ts';
import {testTools, testVault} from '../helpers/tools.ts';

storeTest(test, 'an empty store gets what a first mail needs, once', async (t, store) => {
	const made = await bootstrap(store, testTools(), testVault, {captures: true, dashboard: true});
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
		link_hash: tokenHash(made.logInToken ?? ''),
	});
	t.is(await bootstrap(store, testTools(), testVault, {captures: true, dashboard: true}), null);
});

storeTest(test, 'where mail leaves the machine no sender is made', async (t, store) => {
	const made = await bootstrap(store, testTools(), testVault, {captures: false, dashboard: false});
	t.is(made?.sender, null);
	t.deepEqual(await store.reader('senders'), []);
	t.deepEqual(await store.reader('dkim_keys'), []);
	t.is((await store.reader('templates')).length, 1);
	t.is((await store.reader('api_keys')).length, 2);
	t.is(made?.logInToken, null, 'there is no dashboard');
	t.deepEqual(await store.reader('users'), []);
});

for (const engine of engines) {
	test(`of two processes that start at once one fills the store (${engine})`, async t => {
		const location = await newLocation(t, engine);
		const stores = [await openStore(location), await openStore(location)];
		t.teardown(() => Promise.all(stores.map(store => store.close())));
		await migrate((stores[0] as (typeof stores)[number]).database);
		const made = await Promise.all(
			stores.map((store, index) => bootstrap(store, testTools(index), testVault, {captures: true, dashboard: true})),
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
			const lines = welcome({...input, sender, inFile});
			t.deepEqual(
				lines.filter(line => line.length > 80),
				[],
			);
			t.is(/first\.eml/.test(lines.join()), sender !== null);
			t.is(/domain add|curl/.exec(lines.join())?.[0], sender === null ? 'domain add' : 'curl');
		}
	}
});

test('the command is named as it can be called from here', t => {
	t.is(commandName('/srv/mailctl/bin/mailctl.js', '/srv/mailctl'), 'node bin/mailctl.js');
	t.is(commandName('/srv/shop/node_modules/.bin/mailctl', '/srv/shop'), 'npx mailctl');
	t.is(commandName('/usr/local/bin/mailctl', '/srv/shop'), 'mailctl');
});
