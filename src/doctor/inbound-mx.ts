import type {SendingNames} from '../domains/domain-records.ts';
import type {Resolver} from '../net/dns.ts';
import {listInboundDomains} from '../store/received.ts';
import type {Store} from '../store/store.ts';
import {type Check, type Found, fail, ok, warn} from './finding.ts';

/** Whether mail for a domain comes here: its first MX is this host, or one that bounces come to. */
export async function inboundMx(
	resolver: Pick<Resolver, 'mx'>,
	domain: string,
	{host, bounceHost, returnPathDomain}: SendingNames,
): Promise<Found> {
	const [answer, ours] = await Promise.all([resolver.mx(domain, true), resolver.mx(returnPathDomain, true)]);
	const record = `publish ${domain} MX "10 ${bounceHost}."`;
	if (answer.kind === 'failed') {
		return warn(
			`not known: DNS did not answer for the MX of ${domain} (${answer.code})`,
			'see whether DNS answers',
		);
	}
	if (answer.kind !== 'found') {
		return fail(`${domain} has no MX: mail to it does not come here`, record);
	}
	const best = Math.min(...answer.records.map(({priority}) => priority));
	const first = answer.records.filter(({priority}) => priority === best).map(one => one.exchange.toLowerCase());
	const hosts = ours.kind === 'found' ? ours.records.map(({exchange}) => exchange.toLowerCase()) : [];
	return first.every(exchange => [host, bounceHost, ...hosts].includes(exchange))
		? ok(`mail to ${domain} comes here (MX ${first.join(', ')})`)
		: fail(`mail to ${domain} goes to ${first.join(', ')}, not here`, record);
}

/** The domains at which workspaces receive mail. */
export function inboundMxCheck(
	{reader}: Pick<Store, 'reader'>,
	resolver: Resolver,
	names: SendingNames,
	isListening: boolean,
): Check {
	return {
		name: 'inbound-mx',
		why: 'Mail to the addresses of mailctl inbound comes here only by an MX record, and only to the listener.',
		async look() {
			const domains = await listInboundDomains(reader);
			const off = 'no listener takes the mail of mailctl inbound';
			return domains.length > 0 && !isListening
				? [fail(off, 'set MAILCTL_INBOUND_LISTEN')]
				: await Promise.all(domains.map(domain => inboundMx(resolver, domain, names)));
		},
	};
}
