import test from 'ava';
import {Families} from '../../src/deliver/find-hosts.ts';
import {systemClock} from '../../src/kit/clock.ts';
import type {DnsAnswer} from '../../src/net/dns.ts';
import {reverseName} from '../../src/net/host-name.ts';

const six = {address: '2a00:1450:4001::1', hostname: null};
const four = {address: '8.8.4.4', hostname: null};

function start(answer: DnsAnswer<string>, more: Partial<ConstructorParameters<typeof Families>[0]> = {}) {
	const asked: string[] = [];
	const families = new Families({
		ipv6: true,
		resolver: {
			ptr(name) {
				asked.push(name);
				return Promise.resolve(answer);
			},
		},
		allowPrivate: false,
		clock: systemClock,
		ownAddresses: () => ['127.0.0.1', '::1', '8.8.4.4', 'fe80::1', six.address],
		...more,
	});
	return {families, asked};
}

const named: DnsAnswer<string> = {kind: 'found', records: ['mail.test']};

test('sends over IPv6 only if the source address has a PTR record', async t => {
	for (const [answer, v6] of [
		[named, true],
		[{kind: 'nxdomain'}, false],
		[{kind: 'nodata'}, false],
		[{kind: 'failed', code: 'ETIMEOUT'}, true],
	] as const) {
		const {families, asked} = start(answer);
		t.deepEqual(await families.of([]), {v4: true, v6});
		t.deepEqual(asked, ['1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.4.0.5.4.1.0.0.a.2.ip6.arpa']);
		t.deepEqual(await families.of([four, six]), {v4: true, v6});
		t.deepEqual(await families.of([six]), {v4: false, v6});
		t.deepEqual(await families.of([four]), {v4: true, v6: false});
	}
});

test('does not use IPv6 if it is disabled or the machine has no public IPv6 address', async t => {
	t.deepEqual(await start(named, {ipv6: false}).families.of([four, six]), {v4: true, v6: false});
	const bare = start(named, {ownAddresses: () => ['127.0.0.1', '::1', 'fe80::1', 'fd00::1']});
	t.deepEqual(await bare.families.of([]), {v4: true, v6: false});
	t.deepEqual(bare.asked, []);
});

test('accepts any address if private addresses are allowed', async t => {
	const {families} = start({kind: 'nxdomain'}, {allowPrivate: true, ownAddresses: () => ['127.0.0.1', '::1']});
	t.deepEqual(await families.of([]), {v4: true, v6: true});
});

test('builds the reverse DNS name of an address', t => {
	t.is(reverseName('192.0.2.17'), '17.2.0.192.in-addr.arpa');
	t.is(reverseName('::1'), `1${'.0'.repeat(31)}.ip6.arpa`);
});
