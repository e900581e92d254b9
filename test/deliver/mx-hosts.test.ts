import test from 'ava';
import {findMxHosts, type NoHost, type RecipientSearch} from '../../src/deliver/find-hosts.ts';
import type {Clock} from '../../src/kit/clock.ts';
import {createResolver} from '../../src/net/resolver.ts';
import {startLab} from '../helpers/delivery-lab.ts';
import {startFakeDns, type Zone} from '../helpers/fake-dns.ts';

type MxHostsOptions = Parameters<typeof findMxHosts>[2];

const minute = 60_000;
const anyRecipient: RecipientSearch = {recipientId: 'rcp_1', terms: {sources: []}};

async function start(
	t: Parameters<typeof startFakeDns>[0],
	zone: Zone,
	overrides: Partial<MxHostsOptions> = {},
	timeoutMs = 60_000,
) {
	let now = 0;
	const clock: Clock = {now: () => now, monotonic: () => now};
	const dns = await startFakeDns(t, zone);
	const options: MxHostsOptions = {
		resolver: createResolver({servers: [dns.server], timeoutMs, tries: 1, clock}),
		families: {of: () => Promise.resolve({v4: true, v6: true})},
		port: 25,
		allowPrivateMx: false,
		ownAddresses: new Set(),
		...overrides,
	};
	return {
		dns,
		hosts: (domain: string, recipient: Partial<RecipientSearch> = {}) =>
			findMxHosts(domain, {...anyRecipient, ...recipient}, options),
		async addresses(domain: string, recipientId = 'rcp_1'): Promise<string[]> {
			const found = await findMxHosts(domain, {...anyRecipient, recipientId}, options);
			return Array.isArray(found) ? found.map(({name: host, address}) => `${host} ${address}`) : [found.enhanced];
		},
		pass(ms: number) {
			now += ms;
		},
	};
}

test('orders by preference, alternates IPv6 and IPv4, and returns at most five addresses', async t => {
	const {addresses} = await start(t, {
		'example.test': {
			mx: [
				[20, 'B.example.test'],
				[10, 'a.example.test'],
			],
		},
		'a.example.test': {a: ['8.8.8.1', '8.8.8.2'], aaaa: ['2a00::1']},
		'b.example.test': {a: ['9.9.9.1', '9.9.9.2', '9.9.9.3']},
	});
	const found = await addresses('example.test');
	t.is(found[0], 'a.example.test 2a00::1');
	t.deepEqual(found.slice(1, 3).sort(), ['a.example.test 8.8.8.1', 'a.example.test 8.8.8.2']);
	t.true(found.slice(3).every(one => one.startsWith('b.example.test 9.9.9.')));
	t.is(new Set(found).size, 5);
});

test('orders equal preferences differently for each recipient', async t => {
	const hosts = ['a.test', 'b.test', 'c.test', 'd.test'];
	const zone: Zone = {
		'example.test': {mx: [...hosts.map(host => [10, host] as const), [5, 'first.test']]},
		...Object.fromEntries(hosts.map((host, n) => [host, {a: [`8.8.8.${n}`]}])),
		'first.test': {a: ['8.8.8.8']},
	};
	const {addresses} = await start(t, zone);
	const begun = new Map(hosts.map(host => [host, 0]));
	for (let n = 0; n < 400; n++) {
		const found = await addresses('example.test', `rcp_${n}`);
		t.is(found[0], 'first.test 8.8.8.8');
		const [second = ''] = (found[1] ?? '').split(' ');
		begun.set(second, (begun.get(second) ?? 0) + 1);
		if (n % 40 === 0) {
			t.deepEqual(await addresses('example.test', `rcp_${n}`), found, 'as `queue why` shows it');
		}
	}

	// A hundred each on average; fixed ids, so the figures are always the same.
	t.true(
		[...begun.values()].every(count => count > 70 && count < 130),
		JSON.stringify([...begun]),
	);
});

test('falls back to TCP if the MX response does not fit into UDP', async t => {
	const hosts = Array.from({length: 19}, (_, n) => `host-with-a-rather-long-name-${n}.example.test`);
	const {addresses} = await start(t, {
		'example.test': {mx: hosts.map((host, n) => [n, host] as const)},
		...Object.fromEntries(hosts.map((host, n) => [host, {a: [`8.8.8.${n}`]}])),
	});
	t.is((await addresses('example.test'))[0], `${hosts[0]} 8.8.8.0`);
});

test('follows a CNAME, but keeps the MX name', async t => {
	const {addresses} = await start(t, {
		'example.test': {cname: 'real.test'},
		'real.test': {mx: [[10, 'mx.test']]},
		'mx.test': {cname: 'host.test'},
		'host.test': {a: ['8.8.8.8']},
	});
	t.deepEqual(await addresses('example.test'), ['mx.test 8.8.8.8']);
});

test('uses the domain itself if it has no MX, even with only IPv6 addresses', async t => {
	const {addresses} = await start(t, {'four.test': {a: ['8.8.8.8']}, 'six.test': {aaaa: ['2a00::1']}});
	t.deepEqual(await addresses('four.test'), ['four.test 8.8.8.8']);
	t.deepEqual(await addresses('six.test'), ['six.test 2a00::1']);
});

test('bounces on a null MX, but ignores it next to other MX records', async t => {
	const {hosts, addresses} = await start(t, {
		'none.test': {mx: [[0, '.']], a: ['8.8.8.8']},
		'odd.test': {
			mx: [
				[0, '.'],
				[10, 'mx.test'],
			],
		},
		'mx.test': {a: ['8.8.8.8']},
	});
	t.like((await hosts('none.test')) as NoHost, {
		outcome: {kind: 'bounced', type: 'permanent', category: 'unknown_domain', suppresses: true},
		enhanced: '5.1.10',
		code: 556,
	});
	t.deepEqual(await addresses('odd.test'), ['mx.test 8.8.8.8']);
});

test('picks the five best of a hundred mail servers', async t => {
	const names = Array.from({length: 100}, (_, n) => `mx-${n}.example.test`);
	const {addresses} = await start(t, {
		'example.test': {mx: names.map((name, n) => [1000 - n, name] as const)},
		...Object.fromEntries(names.map((name, n) => [name, {a: [`8.8.4.${n}`]}])),
	});
	t.deepEqual(
		await addresses('example.test'),
		[99, 98, 97, 96, 95].map(n => `mx-${n}.example.test 8.8.4.${n}`),
	);
});

test('looks up at most eleven mail servers if DNS fails for all of them', async t => {
	const names = Array.from({length: 20}, (_, n) => `mx-${n}.example.test`);
	const {hosts, dns} = await start(t, {
		'example.test': {mx: names.map((name, n) => [n, name] as const)},
		...Object.fromEntries(names.map(name => [name, 'servfail' as const])),
	});
	t.like(await hosts('example.test'), {outcome: {kind: 'deferred', category: 'dns_temp'}, enhanced: '4.4.3'});
	t.is(new Set(dns.queries.filter(query => query.startsWith('A '))).size, 11);
});

test('returns only addresses of a family that this machine sends over', async t => {
	const zone: Zone = {
		'example.test': {mx: [[0, 'mx.test']]},
		'mx.test': {a: ['8.8.8.1', '8.8.8.2', '8.8.8.3', '8.8.8.4'], aaaa: ['2a00::1', '2a00::2', '2a00::3']},
		'six.test': {aaaa: ['2a00::1']},
		'inside.test': {aaaa: ['::1', 'fc00::1', '64:ff9b::7f00:1']},
		'both-inside.test': {aaaa: ['::1'], a: ['10.0.0.1']},
		'none.test': {},
	};
	const only4 = await start(t, zone, {families: {of: () => Promise.resolve({v4: true, v6: false})}});
	t.deepEqual(
		(await only4.addresses('example.test')).sort(),
		[1, 2, 3, 4].map(n => `mx.test 8.8.8.${n}`),
	);
	t.false(only4.dns.queries.some(query => query.startsWith('AAAA')));
	const sixOnly = (await only4.hosts('six.test')) as NoHost;
	t.like(sixOnly, {outcome: {kind: 'deferred', category: 'config'}, enhanced: '4.4.4'});
	t.is(
		sixOnly.reply,
		'the mail servers of six.test have only IPv6 addresses, but this machine does not send over IPv6',
	);
	t.like(await only4.hosts('none.test'), {outcome: {category: 'no_address'}});
	for (const domain of ['inside.test', 'both-inside.test']) {
		t.like(await only4.hosts(domain), {outcome: {kind: 'bounced', suppresses: false}, enhanced: '5.4.4'}, domain);
	}
	const only6 = await start(t, zone, {families: {of: () => Promise.resolve({v4: false, v6: true})}});
	t.deepEqual(
		(await only6.addresses('example.test')).sort(),
		[1, 2, 3].map(n => `mx.test 2a00::${n}`),
	);
});

test('ignores MX records with invalid names', async t => {
	const {addresses} = await start(t, {
		'example.test': {
			mx: [
				[0, 'two words.test'],
				[1, 'ctrl\u0007.test'],
				[2, 'mx.test'],
			],
		},
		'mx.test': {a: ['8.8.8.8']},
	});
	t.deepEqual(await addresses('example.test'), ['mx.test 8.8.8.8']);
});

test('ignores an MX record that contains an IP address', async t => {
	const {addresses} = await start(t, {
		'example.test': {
			mx: [
				[0, '8.8.4.4'],
				[10, 'mx.test'],
			],
		},
		'mx.test': {a: ['8.8.8.8']},
	});
	t.deepEqual(await addresses('example.test'), ['mx.test 8.8.8.8']);
});

test('bounces on NXDOMAIN only if a second lookup confirms it', async t => {
	const {hosts, dns} = await start(t, {});
	const first = (await hosts('gone.test')) as NoHost;
	t.like(first, {outcome: {kind: 'deferred', category: 'unknown_domain', waitMs: 15 * minute}, enhanced: '4.1.2'});
	const second = (await hosts('gone.test', {wasNxdomain: true})) as NoHost;
	t.like(second, {outcome: {kind: 'bounced', category: 'unknown_domain', suppresses: true}, enhanced: '5.1.2'});
	t.is(dns.queries.length, 2, 'the second answer is a new one');
	dns.zone['gone.test'] = {a: ['8.8.8.8']};
	t.true(Array.isArray(await hosts('gone.test', {wasNxdomain: true})));
});

for (const [fault, timeoutMs] of [
	['servfail', 60_000],
	['refused', 60_000],
	['timeout', 8000],
	['garbage', 8000],
] as const) {
	test(`defers on ${fault} for the MX query, even if the domain has an address`, async t => {
		const {hosts} = await start(t, {'example.test': {a: ['8.8.8.8'], fail: {MX: fault}}}, {}, timeoutMs);
		t.like((await hosts('example.test')) as NoHost, {
			outcome: {kind: 'deferred', category: 'dns_temp'},
			enhanced: '4.4.3',
		});
	});

	test(`uses the next mail server on ${fault} for an address query, and defers if none is left`, async t => {
		const zone: Zone = {
			'example.test': {
				mx: [
					[0, 'a.test'],
					[10, 'b.test'],
				],
			},
			'a.test': fault,
			'b.test': {a: ['8.8.8.8']},
		};
		const {addresses} = await start(t, zone, {}, timeoutMs);
		t.deepEqual(await addresses('example.test'), ['b.test 8.8.8.8']);
		const {addresses: none} = await start(t, {...zone, 'b.test': {}}, {}, timeoutMs);
		t.deepEqual(await none('example.test'), ['4.4.3']);
	});
}

test('bounces if no mail server has an address, but only after an hour’s wait', async t => {
	const {hosts} = await start(t, {
		'example.test': {
			mx: [
				[0, 'a.test'],
				[1, 'b.test'],
			],
		},
		'a.test': {},
		'only.test': {txt: ['x']},
	});
	for (const domain of ['example.test', 'only.test']) {
		const first = (await hosts(domain)) as NoHost;
		t.like(first, {outcome: {kind: 'deferred', category: 'no_address', waitMs: 60 * minute}, enhanced: '4.4.4'});
		t.like((await hosts(domain, {hadNoAddress: true})) as NoHost, {
			outcome: {kind: 'bounced', category: 'no_address', suppresses: false},
			enhanced: '5.4.4',
		});
	}
});

test('rejects private addresses unless they are allowed', async t => {
	const zone: Zone = {
		'inside.test': {mx: [[0, 'a.test']]},
		'a.test': {
			a: ['127.0.0.1', '10.1.2.3'],
			aaaa: ['::1', 'fe80::1', '::ffff:10.0.0.1', '2002:a00:1::1', '64:ff9b::a00:1'],
		},
		'mixed.test': {
			mx: [
				[0, 'a.test'],
				[5, 'b.test'],
			],
		},
		'b.test': {a: ['8.8.8.8']},
	};
	const {hosts, addresses} = await start(t, zone);
	t.like((await hosts('inside.test')) as NoHost, {
		outcome: {kind: 'bounced', category: 'network', suppresses: false},
		enhanced: '5.4.4',
	});
	t.deepEqual(await addresses('mixed.test'), ['b.test 8.8.8.8']);
	const lab = await start(t, zone, {allowPrivateMx: true});
	t.true((await lab.addresses('inside.test')).includes('a.test 127.0.0.1'));
});

test('drops the MX that is this machine and all after it', async t => {
	const zone: Zone = {
		'loop.test': {
			mx: [
				[10, 'us.test'],
				[20, 'b.test'],
			],
		},
		'backup.test': {
			mx: [
				[5, 'b.test'],
				[10, 'us.test'],
			],
		},
		'us.test': {a: ['8.8.4.4']},
		'b.test': {a: ['8.8.8.8']},
	};
	const {hosts, addresses} = await start(t, zone, {ownAddresses: new Set(['8.8.4.4'])});
	t.like((await hosts('loop.test')) as NoHost, {
		outcome: {kind: 'bounced', category: 'network', suppresses: false},
		enhanced: '5.4.6',
	});
	t.deepEqual(await addresses('backup.test'), ['b.test 8.8.8.8']);
});

test('caches MX records for a minute and addresses for their TTL', async t => {
	const {dns, addresses, pass} = await start(t, {
		'example.test': {mx: [[0, 'mx.test']]},
		'mx.test': {a: ['8.8.8.8'], ttl: 600},
	});
	const asked = (type: string) => dns.queries.filter(query => query.startsWith(`${type} `)).length;
	await Promise.all([addresses('example.test'), addresses('example.test')]);
	await addresses('example.test');
	t.deepEqual([asked('MX'), asked('A')], [1, 1]);
	pass(61_000);
	await addresses('example.test');
	t.deepEqual([asked('MX'), asked('A')], [2, 1]);
	pass(600_000);
	await addresses('example.test');
	t.deepEqual([asked('MX'), asked('A')], [3, 2]);
});

test('does not cache a failure', async t => {
	const {dns, addresses} = await start(t, {'example.test': 'servfail'});
	t.deepEqual(await addresses('example.test'), ['4.4.3']);
	dns.zone['example.test'] = {a: ['8.8.8.8']};
	t.deepEqual(await addresses('example.test'), ['example.test 8.8.8.8']);
});

test('records an attempt even if the domain has no mail server', async t => {
	const lab = await startLab(t, []);
	const {outcome, attempts, sentAt} = await lab.deliver({destination: 'gone.test'});
	t.is(outcome.kind, 'deferred');
	t.is(sentAt, null);
	t.like(attempts, {length: 1, 0: {host: null, ip: null, phase: 'route', code: null, enhanced: '4.1.2'}});
});
