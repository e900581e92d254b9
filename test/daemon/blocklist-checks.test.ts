import {writeFileSync} from 'node:fs';
import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {generateSigningKeys} from '../../src/compose/dkim.ts';
import type {Settings} from '../../src/config/settings.ts';
import {watchBlocklists} from '../../src/daemon/blocklist-checks.ts';
import {storeTime} from '../../src/kit/time.ts';
import {nameOnList} from '../../src/net/blocklist.ts';
import {addDomain} from '../../src/resources/domains/rules.ts';
import {performIn} from '../../src/resources/operation.ts';
import {createWorkspace} from '../../src/resources/workspaces/rules.ts';
import {listBlocklistings, listedNow} from '../../src/store/blocklists.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest, temporaryFolder} from '../helpers/databases.ts';
import {startFakeDns, type Zone} from '../helpers/fake-dns.ts';
import {testTools, testVault} from '../helpers/tools.ts';

const hour = 3_600_000;
const address = '93.184.215.14';
const other = '93.184.215.15';
const one = {listed: ['127.0.0.2-11'], refused: ['127.255.255.252-255'], delist: 'https://list.test/{source}'};
const lists = {
	...Object.fromEntries(
		['zen.spamhaus.org', 'b.barracudacentral.org', 'bl.spamcop.net', 'psbl.surriel.com'].map(zone => [zone, null]),
	),
	...{'dbl.spamhaus.org': null, 'multi.surbl.org': null},
	'list.test': {...one, name: 'The List', kind: 'ip'},
	'names.test': {...one, name: 'The Names', kind: 'domain'},
};
const works: Zone = {'2.0.0.127.list.test': {a: ['127.0.0.2']}, 'test.names.test': {a: ['127.0.0.2']}};

/** Lists, a domain of two workspaces, and daemons' checks with a clock that the test controls. */
async function prepare(t: ExecutionContext, store: Store) {
	const tools = testTools();
	const dns = await startFakeDns(t, {...works});
	const blocklistsFile = path.join(await temporaryFolder(t), 'lists.json');
	writeFileSync(blocklistsFile, JSON.stringify(lists));
	const keys = await generateSigningKeys();
	for (const name of ['acme', 'shop']) {
		await store.writer.transaction(async trx => {
			const workspace = await createWorkspace(trx, tools, {name});
			const workspaceId = workspace?.id as string;
			const context = {face: 'cli', workspaceId, mode: 'live', tools, vault: async () => testVault, trx} as const;
			await performIn(addDomain, context, {name: 'shop.example', keys, ownHosts: []});
		});
	}
	const daemon = (addresses: readonly string[], delivery: Settings['delivery'] = 'mx') => {
		const sourceAddresses = addresses.map(ip => ({ip, ehlo: null}));
		const checks = watchBlocklists({
			...{store, clock: tools.clock},
			settings: {delivery, sourceAddresses, dnsServers: [dns.server], blocklistsFile} as unknown as Settings,
			observer: {
				storeFailed(error) {
					throw error;
				},
			},
		});
		t.teardown(() => checks.stop());
		return checks;
	};
	return {
		...{tools, dns, daemon},
		verify: (state = 'verified') => store.writer.transaction(trx => trx('domains').update({state})),
		/** `source zone: state`, of all rows that are not stale. */
		states: async () =>
			(await listBlocklistings(store.reader, tools.clock.now())).map(
				({source, zone, state}) => `${source} ${zone}: ${state}`,
			),
		listed: () => listedNow(store.reader, tools.clock.now()),
		/** How often a name was looked up. */
		asked: (name: string) => dns.queries.filter(query => query === `A ${name}`).length,
	};
}

storeTest(test, 'looks up addresses and verified domains every hour', async (t, store) => {
	const {tools, dns, daemon, verify, states, listed, asked} = await prepare(t, store);
	dns.zone['14.215.184.93.list.test'] = {a: ['127.0.0.2'], txt: ['spam since May']};
	const checks = daemon([address, '127.0.0.1', '10.0.0.7', 'fd00::1']);
	await checks.check();
	t.deepEqual(
		await states(),
		[`${address} list.test: listed`],
		'private addresses and unverified domains are not asked',
	);
	const start = storeTime(tools.clock.now());
	t.deepEqual(await listed(), [
		{
			...{source: address, zone: 'list.test', name: 'The List', delist: `https://list.test/${address}`},
			...{state: 'listed', answer: '127.0.0.2', reason: 'spam since May'},
			...{since: start, checked_at: start, asked_at: start},
		},
	]);
	t.deepEqual(
		dns.queries.filter(query => !/^(A|TXT) [\d.]+\.list\.test$/.test(query)),
		[],
	);

	await verify();
	tools.advance(hour - 1);
	await checks.check();
	t.is(asked('14.215.184.93.list.test'), 1);
	t.deepEqual(await states(), [`${address} list.test: listed`, 'shop.example names.test: clear']);
	t.is(asked('shop.example.names.test'), 1, 'two workspaces have it');

	tools.advance(1);
	await checks.check();
	t.is(asked('14.215.184.93.list.test'), 2);
	t.is(asked('shop.example.names.test'), 1);
	t.like((await listed())[0], {since: start, checked_at: storeTime(tools.clock.now())});

	delete dns.zone['14.215.184.93.list.test'];
	dns.zone['shop.example.names.test'] = {a: ['127.0.0.2']};
	tools.advance(hour);
	await checks.check();
	t.deepEqual(await states(), [`${address} list.test: clear`, 'shop.example names.test: listed']);
	t.is((await listed())[0]?.since, storeTime(tools.clock.now()));

	await verify('failed');
	await checks.check();
	t.deepEqual(await states(), [`${address} list.test: clear`], 'the domain is no source any more');
});

storeTest(test, 'keeps a listing for a day if the list stops responding', async (t, store) => {
	const {tools, dns, daemon, states, listed} = await prepare(t, store);
	dns.zone['14.215.184.93.list.test'] = {a: ['127.0.0.2']};
	const checks = daemon([address]);
	await checks.check();
	const [before] = await listed();
	for (const failure of ['servfail', {a: ['127.255.255.254']}] as const) {
		dns.zone['14.215.184.93.list.test'] = failure;
		tools.advance(hour);
		await checks.check();
		const asked = storeTime(tools.clock.now());
		t.deepEqual(await listed(), [{...(before as NonNullable<typeof before>), asked_at: asked}]);
	}
	for (let hours = 3; hours <= 24; hours++) {
		tools.advance(hour);
		await checks.check();
	}
	t.deepEqual(await states(), [`${address} list.test: refused`]);
	dns.zone['14.215.184.93.list.test'] = 'servfail';
	tools.advance(hour);
	await checks.check();
	t.deepEqual(await states(), [`${address} list.test: unknown`]);
});

storeTest(test, 'each node looks up its own addresses, and one node each domain', async (t, store) => {
	const {tools, dns, daemon, verify, states, asked} = await prepare(t, store);
	await verify();
	dns.zone['15.215.184.93.list.test'] = {a: ['127.0.0.2']};
	const first = daemon([address]);
	await first.check();
	if (!store.dialect.isShared) {
		await daemon([other]).check();
		t.deepEqual(
			await states(),
			[`${other} list.test: listed`, 'shop.example names.test: clear'],
			'as after a restart',
		);
		return;
	}
	const second = daemon([other]);
	await second.check();
	const all = [`${address} list.test: clear`, `${other} list.test: listed`, 'shop.example names.test: clear'];
	t.deepEqual(await states(), all);
	t.is(asked('shop.example.names.test'), 1);
	tools.advance(hour);
	await Promise.all([second.check(), first.check()]);
	t.deepEqual(await states(), all);
	// The second node has stopped, so no node looks up its address.
	await second.stop();
	for (let hours = 0; hours < 3; hours++) {
		tools.advance(hour);
		await first.check();
	}
	t.deepEqual(await states(), [`${address} list.test: clear`, 'shop.example names.test: clear']);
	t.is((await listBlocklistings(store.reader, 0)).length, 2, 'its row is removed');
});

storeTest(
	test,
	'behind a relay only domains are looked up, and a stopping daemon does not wait for lists',
	async (t, store) => {
		const {dns, daemon, verify, states} = await prepare(t, store);
		await verify();
		dns.zone['shop.example.names.test'] = 'timeout';
		const checks = daemon([address], 'relay');
		const looking = checks.check();
		while (!dns.queries.includes('A shop.example.names.test')) {
			await new Promise(resolve => setImmediate(resolve));
		}
		await checks.stop();
		await looking;
		t.deepEqual(await states(), ['shop.example names.test: unknown']);
		t.is((await listBlocklistings(store.reader, 0))[0]?.reason, 'not checked yet');
		t.false(dns.queries.some(query => query.endsWith(nameOnList(address, 'list.test'))));
	},
);
