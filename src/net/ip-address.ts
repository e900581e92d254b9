import {BlockList, isIP} from 'node:net';
import ipaddr from 'ipaddr.js';

// IANA's special-purpose IPv4 registry, plus multicast and the reserved top range.
const refused4 = new BlockList();
for (const range of [
	'0.0.0.0/8',
	'10.0.0.0/8',
	'100.64.0.0/10',
	'127.0.0.0/8',
	'169.254.0.0/16',
	'172.16.0.0/12',
	'192.0.0.0/24',
	'192.0.2.0/24',
	'192.31.196.0/24',
	'192.52.193.0/24',
	'192.88.99.0/24',
	'192.168.0.0/16',
	'192.175.48.0/24',
	'198.18.0.0/15',
	'198.51.100.0/24',
	'203.0.113.0/24',
	'224.0.0.0/4',
	'240.0.0.0/4',
]) {
	addRange(refused4, range, 'ipv4');
}

// An allow list for IPv6: a block list would miss NAT64, 6to4, Teredo and mapped forms, which all reach IPv4.
const allowed6 = new BlockList();
addRange(allowed6, '2000::/3', 'ipv6');
const refused6 = new BlockList();
for (const range of ['2001::/23', '2001:db8::/32', '2002::/16', '2620:4f:8000::/48', '3fff::/20']) {
	addRange(refused6, range, 'ipv6');
}

const loopback = new BlockList();
addRange(loopback, '127.0.0.0/8', 'ipv4');
loopback.addAddress('::1', 'ipv6');

function addRange(list: BlockList, range: string, family: 'ipv4' | 'ipv6'): void {
	const [network = '', prefix] = range.split('/');
	list.addSubnet(network, Number(prefix), family);
}

/**
 * Whether a literal IP address is on the public Internet. False for mapped forms, addresses with a zone (`%eth0`) and
 * anything that is not an address.
 */
export function isPublicAddress(address: string): boolean {
	switch (isIP(address)) {
		case 4:
			return !refused4.check(address, 'ipv4');
		case 6:
			return !address.includes('%') && allowed6.check(address, 'ipv6') && !refused6.check(address, 'ipv6');
		default:
			return false;
	}
}

/** Whether traffic to a literal IP address never leaves the machine. */
export function isLoopbackAddress(address: string): boolean {
	const family = isIP(address);
	return family !== 0 && !address.includes('%') && loopback.check(address, family === 4 ? 'ipv4' : 'ipv6');
}

/**
 * Returns a client's key for limits: its IPv4 address, or its IPv6 /64, because a client usually has a whole one. A
 * mapped IPv4 address (`::ffff:192.0.2.1`) counts as the IPv4 address. All texts that are not addresses share one key,
 * so that no long text is stored.
 */
export function clientNetwork(ip: string): string {
	if (!ipaddr.isValid(ip)) {
		return '';
	}
	const address = ipaddr.process(ip);
	return address instanceof ipaddr.IPv6 ? address.parts.slice(0, 4).join(':') : address.toString();
}
