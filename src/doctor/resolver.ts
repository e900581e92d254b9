import type {Resolver} from '../net/dns.ts';
import {type Check, fail, ok} from './finding.ts';

/** Whether DNS answers at all, for a domain that surely takes mail. */
export function resolverCheck(domain: string, resolver: Resolver): Check {
	return {
		name: 'dns',
		why: 'Without DNS no host for a recipient is found, and all mail waits.',
		async look() {
			const answer = await resolver.mx(domain, true);
			return [
				answer.kind === 'found'
					? ok(`${domain} has MX ${answer.records.map(({exchange}) => exchange).join(', ')}`)
					: fail(
							`DNS gave no MX of ${domain} (${answer.kind === 'failed' ? answer.code : answer.kind})`,
							'check the network, or set MAILCTL_DNS_SERVERS to resolvers that answer',
						),
			];
		},
	};
}
