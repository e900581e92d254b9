import type {Terms} from '../mail/way.ts';
import type {SecureResolver} from '../net/dns.ts';
import type {TlsMode, TlsPolicy} from './route.ts';
import {findTlsa} from './tlsa.ts';

/** What is demanded of one host, or why it may not get the mail: a sentence, and whether DNS is to blame. */
export type HostDemand =
	| {readonly kind: 'tls'; readonly tls: TlsMode; readonly policy?: TlsPolicy}
	| {readonly kind: 'refused'; readonly reason: string; readonly by: 'sts' | 'dnssec'};

/** Asked for each host of a domain. */
export type DemandOf = (host: string) => Promise<HostDemand>;

export type DemandOptions = {
	/** Where DANE is on. */
	readonly secureResolver?: SecureResolver | undefined;
	readonly port: number;
};

/**
 * What MTA-STS, DANE and the operator demand of the hosts of a domain. DANE goes before MTA-STS where both hold (RFC 8461
 * §2), and records that we cannot use ask for TLS without more (RFC 7672 §2.2).
 */
export function demandsOf(domain: string, terms: Pick<Terms, 'tls' | 'mtaSts'>, options: DemandOptions): DemandOf {
	const {tls, mtaSts} = terms;
	return async host => {
		const names = mtaSts?.mx.some(pattern => namesHost(pattern, host)) ?? false;
		if (mtaSts?.mode === 'enforce' && !names) {
			return {kind: 'refused', reason: `the MTA-STS policy of ${domain} does not name the host ${host}`, by: 'sts'};
		}

		const {secureResolver, port} = options;
		const found = secureResolver === undefined ? 'none' : await findTlsa(domain, host, port, secureResolver);
		if (found !== 'none' && 'failure' in found) {
			return {kind: 'refused', reason: found.failure, by: 'dnssec'};
		}

		if (found !== 'none' && found.records.length > 0) {
			return {kind: 'tls', tls: 'unverified', policy: {kind: 'tlsa', ...found}};
		}

		if (mtaSts?.mode === 'enforce') {
			return {kind: 'tls', tls: 'required', policy: {kind: 'sts', enforce: true, names}};
		}

		if (found !== 'none') {
			return {kind: 'tls', tls: tls === 'opportunistic' ? 'unverified' : tls, policy: {kind: 'tlsa', ...found}};
		}

		return mtaSts === null ? {kind: 'tls', tls} : {kind: 'tls', tls, policy: {kind: 'sts', enforce: false, names}};
	};
}

/**
 * Whether a pattern of an MTA-STS policy names a host (RFC 8461 §4.1): `*` stands for exactly one label, the left-most.
 * Both in lower-case A-labels without the last dot.
 */
export function namesHost(pattern: string, host: string): boolean {
	return pattern.startsWith('*.')
		? host.includes('.') && host.slice(host.indexOf('.')) === pattern.slice(1)
		: pattern === host;
}
