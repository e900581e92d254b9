import type {Resolver} from '../net/dns.ts';
import {reverseName} from '../net/reverse-name.ts';
import type {OwnAddress} from './addresses.ts';
import {type Check, type Found, fail, ok, warn} from './finding.ts';

/** Whether blocklists that are asked by DNS (RFC 5782) name one of the addresses. */
export function blocklistCheck(addresses: readonly OwnAddress[], zones: readonly string[], resolver: Resolver): Check {
	return {
		name: 'blocklists',
		why: 'Receivers that ask a blocklist refuse all mail from an address that is on it.',
		look: async () =>
			await Promise.all(zones.flatMap(zone => addresses.map(({address}) => listed(address, zone, resolver)))),
	};
}

async function listed(address: string, zone: string, resolver: Resolver): Promise<Found> {
	// RFC 5782 §2.1, §2.4: as in reverse DNS, below the list's zone.
	const name = reverseName(address).replace(/(?:in-addr|ip6)\.arpa$/, zone);
	const answer = await resolver.a(name, true);
	switch (answer.kind) {
		case 'nxdomain':
		case 'nodata':
			return ok(`${address} is not on ${zone}`);
		case 'failed':
			return warn(`${zone} did not say whether ${address} is on it (${answer.code})`, 'try again');
		case 'found':
			// What a list answers to whom it does not serve, such as a public resolver.
			return answer.records.every(code => code.startsWith('127.255.255.'))
				? warn(
						`${zone} does not answer this resolver, so it is not known whether ${address} is on it`,
						'set MAILCTL_DNS_SERVERS to a resolver of your own',
					)
				: fail(
						`${address} is on ${zone} (${answer.records.join(', ')})`,
						`find out why on the pages of ${zone}, end it, and ask for removal there`,
					);
	}
}
