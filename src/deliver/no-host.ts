import {suppresses} from '../mail/bounce.ts';
import type {BounceCategory, Outcome} from '../mail/outcome.ts';
import type {TlsResult} from '../mail/tls-result.ts';
import type {HostDemand} from './tls-demand.ts';

/** No host to talk to: the outcome, and what the attempt record says. */
export type NoHost = {
	readonly outcome: Outcome;
	readonly code: number | null;
	readonly enhanced: string;
	readonly reply: string;
	readonly tlsResult?: TlsResult;
};

const minute = 60_000;

/** How far apart two such answers must be before the second one is final. */
export const confirmAfterMs = {unknown_domain: 15 * minute, no_address: 60 * minute};

/** It may go later. `waitMs`: not sooner than that. */
export function deferral(category: BounceCategory, enhanced: string, reply: string, waitMs?: number): NoHost {
	const wait = waitMs === undefined ? {} : {waitMs};
	return {outcome: {kind: 'deferred', category, reason: `${enhanced} ${reply}`, ...wait}, code: null, enhanced, reply};
}

/** It never goes. `code`: the reply that a host would have given, where there is one. */
export function refusal(category: BounceCategory, enhanced: string, reply: string, code: number | null = null): NoHost {
	const reason = `${enhanced} ${reply}`;
	const outcome: Outcome = {kind: 'bounced', type: 'permanent', category, reason, suppresses: suppresses(category)};
	return {outcome, code, enhanced, reply};
}

/** An answer that DNS could not give. */
export function dnsFailure(reply: string): NoHost {
	return deferral('dns_temp', '4.4.3', reply);
}

/** The domain's policy allows none of its hosts. The policy may be renewed and the records fixed, so the mail waits. */
export function policyFailure({by, reason}: Extract<HostDemand, {kind: 'refused'}>): NoHost {
	return by === 'sts'
		? {...deferral('policy', '4.7.5', reason), tlsResult: {policy: 'sts', result: 'validation-failure'}}
		: {...deferral('dns_temp', '4.7.5', reason), tlsResult: {policy: 'tlsa', result: 'dnssec-invalid'}};
}

/** One such answer may be a resolver's glitch; it is final when given again 15 minutes later. */
export function unknownDomain(domain: string, nxdomainBefore: boolean): NoHost {
	const reply = `${domain} does not exist`;
	return nxdomainBefore
		? refusal('unknown_domain', '5.1.2', reply)
		: deferral('unknown_domain', '4.1.2', reply, confirmAfterMs.unknown_domain);
}

/** None of its hosts has an address; final when given again an hour later. */
export function noAddress(domain: string, noAddressBefore: boolean): NoHost {
	const reply = `no mail host of ${domain} has an address`;
	return noAddressBefore
		? refusal('no_address', '5.4.4', reply)
		: deferral('no_address', '4.4.4', reply, confirmAfterMs.no_address);
}
