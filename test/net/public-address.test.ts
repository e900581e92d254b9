import test from 'ava';
import {isLoopbackAddress, isPublicAddress} from '../../src/net/ip-address.ts';

const publicOnes = [
	'8.8.8.8',
	'1.1.1.1',
	'172.32.0.1',
	'100.128.0.1',
	'192.0.3.1',
	'223.255.255.255',
	'2a00:1450::1',
	'2606:4700::1111',
	'2400::1',
];
const others = [
	...['0.0.0.0', '0.1.2.3', '10.0.0.1', '100.64.0.1', '127.0.0.1', '127.255.0.1', '169.254.169.254', '172.16.0.1'],
	...['172.31.255.255', '192.0.0.1', '192.0.2.1', '192.31.196.1', '192.52.193.1', '192.88.99.1', '192.168.1.1'],
	...['192.175.48.1', '198.18.0.1', '198.19.255.255', '198.51.100.1', '203.0.113.1', '224.0.0.1', '239.1.1.1'],
	...['240.0.0.1', '255.255.255.255'],
	...['::', '::1', '::ffff:8.8.8.8', '::ffff:7f00:1', '::127.0.0.1', '64:ff9b::7f00:1', '64:ff9b::808:808', '100::1'],
	...['2001::1', '2001:0:1::1', '2001:db8::1', '2002:7f00:1::', '2620:4f:8000::1', '3fff::1', 'fc00::1', 'fd12::1'],
	...['fe80::1', 'fe80::1%eth0', '2a00::1%eth0', 'fec0::1', 'ff02::1', '4000::1', '100:0:0:1::1'],
	...['', 'localhost', '2130706433', '0x7f.1', '127.1', '8.8.8.8.', '[::1]', '8.8.8.8 '],
];

for (const address of publicOnes) {
	test(`public: ${address}`, t => {
		t.true(isPublicAddress(address));
		t.false(isLoopbackAddress(address));
	});
}

for (const address of others) {
	test(`not public: ${JSON.stringify(address)}`, t => {
		t.false(isPublicAddress(address));
	});
}

test('recognizes loopback addresses', t => {
	t.true(['127.0.0.1', '127.9.9.9', '::1'].every(isLoopbackAddress));
	t.false(['10.0.0.1', '::2', 'localhost', '::1%lo', ''].some(isLoopbackAddress));
});
