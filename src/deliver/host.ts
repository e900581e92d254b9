import {isIPv6} from 'node:net';
import {isDeepStrictEqual} from 'node:util';
import type {Source} from '../mail/route.ts';
import type {TlsaRecord} from '../net/dns.ts';

/**
 * `none`: plain text. `opportunistic`: TLS where offered, with any certificate, plain text where it fails (RFC 7435).
 * `unverified`: TLS or nothing, with any certificate. `required`: TLS with a certificate that verifies.
 */
export type TlsMode = 'none' | 'opportunistic' | 'unverified' | 'required';

/** What a domain demands of a host's TLS in addition to `TlsMode`. */
export type TlsPolicy =
	/**
	 * MTA-STS (RFC 8461). In mode enforce the mode of the route is `required`; in mode testing it is not touched, and
	 * what would have failed is noted. `names`: the policy names the host.
	 */
	| {readonly kind: 'sts'; readonly enforce: boolean; readonly names: boolean}
	/**
	 * DANE (RFC 7672): one TLSA record must match the certificate, which may carry any of these names; SNI sends the
	 * first one. No records: records exist, but none is usable. The route's mode is at least `unverified`.
	 */
	| {readonly kind: 'tlsa'; readonly names: readonly string[]; readonly records: readonly TlsaRecord[]};

/** One address of one host that may take the mail. */
export type Host = {
	readonly name: string;
	/** A literal IP address. */
	readonly address: string;
	readonly port: number;
	readonly tls: TlsMode;
	/** Absent: none. */
	readonly tlsPolicy?: TlsPolicy | undefined;
	/** TLS from the first byte (smtps). */
	readonly implicitTls: boolean;
	/** What a smarthost wants to see. */
	readonly login: {readonly user: string; readonly password: string} | null;
};

/** Whether a connection made for one route serves the other. */
export function sameHost(a: Host, b: Host): boolean {
	return (
		a.address === b.address &&
		a.port === b.port &&
		a.name === b.name &&
		a.tls === b.tls &&
		// What was not measured against a policy does not meet it.
		isDeepStrictEqual(a.tlsPolicy, b.tlsPolicy) &&
		a.implicitTls === b.implicitTls &&
		a.login?.user === b.login?.user &&
		a.login?.password === b.login?.password
	);
}

/** The source for a target address: null if none is of its family, undefined if the system chooses. */
export function sourceFor(sources: readonly Source[], targetAddress: string): Source | null | undefined {
	return sources.length === 0
		? undefined
		: (sources.find(({address}) => isIPv6(address) === isIPv6(targetAddress)) ?? null);
}
