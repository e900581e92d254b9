import ipaddr from 'ipaddr.js';

/**
 * The key of a client for limits: its IPv4 address, or its IPv6 /64, of which it has every address. A mapped IPv4
 * address (`::ffff:192.0.2.1`) is the IPv4 address. Any text that is not an address is one client, so that a long text
 * is not kept.
 */
export function clientNetwork(ip: string): string {
	if (!ipaddr.isValid(ip)) {
		return '';
	}
	const address = ipaddr.process(ip);
	return address instanceof ipaddr.IPv6 ? address.parts.slice(0, 4).join(':') : address.toString();
}
