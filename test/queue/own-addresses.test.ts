import type {NetworkInterfaceInfo} from 'node:os';
import test from 'ava';
import {ownAddresses} from '../../src/queue/router.ts';

const address = (text: string) => ({address: text}) as NetworkInterfaceInfo;
const interfaces = {
	lo: [address('127.0.0.1'), address('::1')],
	eth0: [address('192.0.2.1'), address('2001:db8::1'), address('fe80::1%eth0')],
	gone: undefined,
};
const own = (host: string | null, port = 25, mxPort = 25) =>
	ownAddresses({inboundListen: host === null ? null : {host, port}, mxPort}, interfaces);

test('returns the listening address as a resolver spells it', t => {
	t.deepEqual(own('192.0.2.7'), ['192.0.2.7']);
	t.deepEqual(own('2001:DB8:0::7'), ['2001:db8::7']);
});

test('returns all addresses of the machine for a wildcard address, for :: also IPv4', t => {
	t.deepEqual(own('0.0.0.0'), ['127.0.0.1', '192.0.2.1']);
	t.deepEqual(own('::'), ['127.0.0.1', '::1', '192.0.2.1', '2001:db8::1', 'fe80::1']);
});

test('returns no address without a listener, on another port than that of mail servers, or by name', t => {
	t.deepEqual(own(null), []);
	t.deepEqual(own('0.0.0.0', 2525), []);
	t.deepEqual(own('0.0.0.0', 25, 2525), []);
	t.deepEqual(own('mail.example'), []);
	t.true(ownAddresses({inboundListen: {host: '0.0.0.0', port: 25}, mxPort: 25}).includes('127.0.0.1'));
});
