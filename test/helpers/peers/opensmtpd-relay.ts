import type {ExecutionContext} from 'ava';
import {giveUpAfter, type Relaying, type RelayOptions, warnAfter} from './relay.ts';
import {runOpenSmtpd} from './run-opensmtpd.ts';

/** A private OpenSMTPD that relays one domain. Null where it cannot run. */
export async function startOpenSmtpdRelay(t: ExecutionContext, options: RelayOptions): Promise<Relaying | null> {
	const {hostname} = options;
	return await runOpenSmtpd(t, {hostname, configuration: port => configuration(options, port)});
}

function configuration(options: RelayOptions, port: number): string {
	const {hostname, domain, lastPort, returnPathDomain, inboundPort, dsn} = options;
	return `queue ttl ${giveUpAfter}s
bounce warn-interval ${warnAfter}s
listen on 127.0.0.1 port ${port} ${dsn ? '' : 'no-dsn '}hostname "${hostname}"
action "last" relay host smtp://127.0.0.1:${lastPort}
action "home" relay host smtp://127.0.0.1:${inboundPort}
match from any for domain "${domain}" action "last"
match from any for domain "${returnPathDomain}" action "home"
`;
}
