import {isIPv4} from 'node:net';
import {domainToASCII} from 'node:url';
import ipaddr from 'ipaddr.js';

const label = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

// The URL standard's mapping would drop line ends and decode percent-encoding, so anything but letters and digits is
// rejected first. The mapping turns each ideographic full stop into a dot.
const letters = /^[\p{L}\p{M}\p{N}.。．｡_-]+$/u;

/**
 * Returns the name as lower-case A-labels, or `undefined` if it is an address or not a host name. One label is enough
 * and `_` is allowed, because names of containers and from /etc/hosts are resolved too.
 */
export function hostName(text: string): string | undefined {
	const name = letters.test(text) ? domainToASCII(text) : '';
	const labels = name.split('.');
	const isName = labels.every(part => label.test(part)) && !/^\d+$/.test(labels.at(-1) ?? '');
	return isName && name.length <= 253 && !isIPv4(name) ? name : undefined;
}

/** Whether a name equals another or is below it. Both must be A-labels. */
export function isUnder(name: string, parent: string): boolean {
	return name === parent || name.endsWith(`.${parent}`);
}

/** Returns the name for the reverse lookup of an IP address (RFC 1035 §3.5, RFC 3596 §2.5). */
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
