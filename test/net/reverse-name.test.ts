import test from 'ava';
import {reverseName} from '../../src/net/host-name.ts';

test('builds the reverse DNS name of an address', t => {
	t.is(reverseName('192.0.2.10'), '10.2.0.192.in-addr.arpa');
	// RFC 3596 §2.5.
	t.is(
		reverseName('4321:0:1:2:3:4:567:89ab'),
		'b.a.9.8.7.6.5.0.4.0.0.0.3.0.0.0.2.0.0.0.1.0.0.0.0.0.0.0.1.2.3.4.ip6.arpa',
	);
	t.is(reverseName('2001:db8::1'), `1.${'0.'.repeat(23)}8.b.d.0.1.0.0.2.ip6.arpa`);
});
