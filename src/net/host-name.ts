import {isIPv4} from 'node:net';
import {domainToASCII} from 'node:url';
import ipaddr from 'ipaddr.js';

const label = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

// The URL standard's mapping would drop line ends and undo percent-encoding; what is no letter or digit is refused
// first. The mapping makes a dot of each ideographic one.
const letters = /^[\p{L}\p{M}\p{N}.。．｡_-]+$/u;

/**
 * The name as lower-case A-labels; undefined if it is not a host name or is an address. One label is enough, and `_` is
 * allowed: names of containers and of /etc/hosts are looked up too.
 */
export function hostName(text: string): string | undefined {
	const name = letters.test(text) ? domainToASCII(text) : '';
	const labels = name.split('.');
	const isName = labels.every(part => label.test(part)) && !/^\d+$/.test(labels.at(-1) ?? '');
	return isName && name.length <= 253 && !isIPv4(name) ? name : undefined;
}

/** Whether a name is another one or under it; both in A-labels. */
export function isUnder(name: string, parent: string): boolean {
	return name === parent || name.endsWith(`.${parent}`);
}

/** The name under which DNS has the name of a literal IP address (RFC 1035 §3.5, RFC 3596 §2.5). */
export function reverseName(address: string): string {
	const parsed = ipaddr.parse(address);
	if (parsed.kind() === 'ipv4') {
		return `${address.split('.').reverse().join('.')}.in-addr.arpa`;
	}

	const digits = parsed.toByteArray().flatMap(byte => [byte >> 4, byte & 15]);
	return `${digits
		.reverse()
		.map(digit => digit.toString(16))
		.join('.')}.ip6.arpa`;
}
