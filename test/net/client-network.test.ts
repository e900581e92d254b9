import test from 'ava';
import {clientNetwork} from '../../src/net/ip-address.ts';

test('treats an IPv6 /64 as one client, and a mapped address as IPv4', t => {
	t.is(clientNetwork('2001:db8:0:1::1'), clientNetwork('2001:db8:0:1:ffff::2'));
	t.not(clientNetwork('2001:db8:0:1::1'), clientNetwork('2001:db8:0:2::1'));
	t.is(clientNetwork('::ffff:192.0.2.1'), '192.0.2.1');
	t.not(clientNetwork('::ffff:192.0.2.1'), clientNetwork('::ffff:192.0.2.2'));
	t.is(clientNetwork('fe80::1%eth0'), 'fe80:0:0:0'.replaceAll('fe80', String(0xfe80)));
});

test('treats everything that is not an address as one client', t => {
	t.is(clientNetwork('unknown'), clientNetwork('x'.repeat(10_000)));
	t.is(clientNetwork(''), '');
});
