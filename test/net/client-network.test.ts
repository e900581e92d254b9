import test from 'ava';
import {clientNetwork} from '../../src/net/ip-address.ts';

test('an IPv6 /64 is one client, and a mapped address is its IPv4 address', t => {
	t.is(clientNetwork('2001:db8:0:1::1'), clientNetwork('2001:db8:0:1:ffff::2'));
	t.not(clientNetwork('2001:db8:0:1::1'), clientNetwork('2001:db8:0:2::1'));
	t.is(clientNetwork('::ffff:192.0.2.1'), '192.0.2.1');
	t.not(clientNetwork('::ffff:192.0.2.1'), clientNetwork('::ffff:192.0.2.2'));
	t.is(clientNetwork('fe80::1%eth0'), 'fe80:0:0:0'.replaceAll('fe80', String(0xfe80)));
});

test('what is not an address is one client', t => {
	t.is(clientNetwork('unknown'), clientNetwork('x'.repeat(10_000)));
	t.is(clientNetwork(''), '');
});
