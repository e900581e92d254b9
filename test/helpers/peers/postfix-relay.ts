import type {ExecutionContext} from 'ava';
import {startPostfix} from './postfix.ts';
import {giveUpAfter, type Relaying, type RelayOptions, warnAfter} from './relay.ts';

/** A private Postfix that relays one domain. Null where it cannot run. */
export async function startPostfixRelay(t: ExecutionContext, options: RelayOptions): Promise<Relaying | null> {
	const {hostname, domain, lastPort, returnPathDomain, inboundPort, dsn} = options;
	const to = (name: string, port: number) => `{${name} = smtp:[127.0.0.1]:${port}}`;
	return await startPostfix(t, {
		hostname,
		withheld: dsn ? [] : ['dsn'],
		more: [
			`relay_domains = ${domain}`,
			`transport_maps = inline:{ ${to(domain, lastPort)}, ${to(returnPathDomain, inboundPort)} }`,
			'queue_run_delay = 1s',
			'minimal_backoff_time = 1s',
			'maximal_backoff_time = 1s',
			`delay_warning_time = ${warnAfter}s`,
			`maximal_queue_lifetime = ${giveUpAfter}s`,
		],
	});
}
