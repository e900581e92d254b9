import {isIPv6} from 'node:net';
import {type NetworkInterfaceInfo, networkInterfaces} from 'node:os';
import {isPublicAddress} from '../mail/public-address.ts';

/** An address that mail leaves from, and the name said in EHLO there. */
export type OwnAddress = {readonly address: string; readonly hostname: string};

type Interfaces = NodeJS.Dict<NetworkInterfaceInfo[]>;

/** The public addresses of this machine's interfaces; empty behind NAT. */
export function publicInterfaceAddresses(interfaces: Interfaces = networkInterfaces()): string[] {
	return Object.values(interfaces)
		.flatMap(list => list ?? [])
		.filter(({internal, address}) => !internal && isPublicAddress(address))
		.map(({address}) => address);
}

/** The name under which DNS tells what an address is called (RFC 1035 §3.5, RFC 3596 §2.5). */
export function reverseName(address: string): string {
	if (!isIPv6(address)) {
		return `${address.split('.').toReversed().join('.')}.in-addr.arpa`;
	}
	return `${hexDigits(address).toReversed().join('.')}.ip6.arpa`;
}

/** The 32 hexadecimal digits of an IPv6 address. */
export function hexDigits(address: string): string[] {
	const [head = '', tail] = address.split('%')[0]?.split('::') ?? [];
	const groups = (part: string) => (part === '' ? [] : part.split(':').flatMap(group => quadOf(group)));
	const [before, after] = [groups(head), groups(tail ?? '')];
	const zeros = Array.from({length: 8 - before.length - after.length}, () => '0');
	return [...before, ...zeros, ...after].flatMap(group => [...group.padStart(4, '0')]);
}

/** A group as it is, or the two groups of a dotted quad at the end. */
function quadOf(group: string): string[] {
	if (!group.includes('.')) {
		return [group];
	}
	const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number);
	return [(a * 256 + b).toString(16), (c * 256 + d).toString(16)];
}
