import type {Resolver} from '../net/dns.ts';
import type {SendingNames} from '../resources/domains/domain-records.ts';
import {listInboundDomains} from '../resources/received/store.ts';
import type {Store} from '../store/store.ts';
import {type Check, type CheckResult, fail, ok, warn} from './finding.ts';

/** Checks whether mail for a domain arrives here: its first MX must be this host or one that receives bounces. */
export async function inboundMx(
	resolver: Pick<Resolver, 'mx'>,
	domain: string,
	{host, bounceHost, returnPathDomain}: SendingNames,
): Promise<CheckResult> {
	const [answer, bounceAnswer] = await Promise.all([resolver.mx(domain, true), resolver.mx(returnPathDomain, true)]);
	const record = `publish ${domain} MX "10 ${bounceHost}."`;
	if (answer.kind === 'failed') {
		return warn(`unknown: DNS did not respond for the MX of ${domain} (${answer.code})`, 'check that DNS responds');
	}
	if (answer.kind !== 'found') {
		return fail(`${domain} has no MX: mail to it does not arrive here`, record);
	}
	const best = Math.min(...answer.records.map(({priority}) => priority));
	const hosts = answer.records.filter(({priority}) => priority === best).map(mx => mx.exchange.toLowerCase());
	const bounceHosts =
		bounceAnswer.kind === 'found' ? bounceAnswer.records.map(({exchange}) => exchange.toLowerCase()) : [];
	return hosts.every(exchange => [host, bounceHost, ...bounceHosts].includes(exchange))
		? ok(`mail to ${domain} arrives here (MX ${hosts.join(', ')})`)
		: fail(`mail to ${domain} goes to ${hosts.join(', ')}, not here`, record);
}

/** Checks the domains at which workspaces receive mail. */
export function inboundMxCheck(
	{reader}: Pick<Store, 'reader'>,
	resolver: Resolver,
	names: SendingNames,
	isListening: boolean,
): Check {
	return {
		name: 'inbound-mx',
		why: 'Mail to the addresses of mailctl inbound arrives only if an MX record points to the listener.',
		async run() {
			const domains = await listInboundDomains(reader);
			return domains.length > 0 && !isListening
				? [fail('no listener receives the mail of mailctl inbound', 'set MAILCTL_INBOUND_LISTEN')]
				: await Promise.all(domains.map(domain => inboundMx(resolver, domain, names)));
		},
	};
}
