import ipaddr from 'ipaddr.js';

/** The name under which DNS tells what a literal IP address is called (RFC 1035 §3.5, RFC 3596 §2.5). */
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
