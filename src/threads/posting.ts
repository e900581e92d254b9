import {createSecureContext, rootCertificates} from 'node:tls';
import {createResolver} from '../dns/resolver.ts';
import type {Clock} from '../kit/clock.ts';
import {AddressGuard, type GuardOptions} from '../webhook/address-guard.ts';
import {Connections} from '../webhook/connections.ts';
import {Poster} from '../webhook/post.ts';

/** How endpoints are posted to, in a form that can be copied to another thread. */
export type Posting = GuardOptions & {
	/** Authorities that are trusted in addition to the public ones (PEM). */
	readonly ca: readonly string[];
	/** `ip` or `ip:port`; empty: the system's. */
	readonly dnsServers: readonly string[];
	/** One attempt in all, milliseconds. */
	readonly timeoutMs: number;
	readonly maxIdle: number;
	readonly userAgent: string;
};

const idleMs = 15_000;
const dnsTimeoutMs = 5000;

/** A poster, to be closed after use. */
export function createPosting(posting: Posting, clock: Clock): Poster {
	const {ca, dnsServers, timeoutMs, maxIdle, userAgent} = posting;
	const connections = new Connections({
		// Made once: reading all public certificates again for each connection would cost milliseconds.
		secureContext: createSecureContext({
			minVersion: 'TLSv1.2',
			...(ca.length > 0 && {ca: [...rootCertificates, ...ca]}),
		}),
		idleMs,
		maxIdle,
	});
	const resolver = createResolver({servers: dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock});
	return new Poster({guard: new AddressGuard(posting), resolver, connections, timeoutMs, userAgent, clock});
}
