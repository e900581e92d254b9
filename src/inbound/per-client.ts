import {isIPv6} from 'node:net';
import ipaddr from 'ipaddr.js';

/** How many sessions each client has. */
export function createPerClient(most: number) {
	const counts = new Map<string, number>();
	return {
		/** False: it has as many as it may. */
		enter(client: string): boolean {
			const count = counts.get(client) ?? 0;
			if (count >= most) {
				return false;
			}
			counts.set(client, count + 1);
			return true;
		},
		leave(client: string): void {
			const count = counts.get(client) ?? 0;
			if (count > 1) {
				counts.set(client, count - 1);
			} else {
				counts.delete(client);
			}
		},
	};
}

/** Who a client is to a limit: its IPv4 address, or its IPv6 network, of which it has 2^64 addresses. */
export function networkOf(address: string): string {
	return isIPv6(address) ? `${ipaddr.IPv6.networkAddressFromCIDR(`${address}/64`)}/64` : address;
}
