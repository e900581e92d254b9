import {createSecureContext, rootCertificates} from 'node:tls';
import {createResolver} from '../dns/resolver.ts';
import type {Clock} from '../kit/clock.ts';
import {createGuard, createLookUp, type GuardOptions} from '../webhook/address-guard.ts';
import {Connections} from '../webhook/connections.ts';
import {createPoster, type Poster} from '../webhook/post.ts';

/** How endpoints are posted to, in a form that can be copied to another thread. */
export type Posting = GuardOptions & {
	/** Authorities that are trusted in addition to the public ones (PEM). */
	readonly ca: readonly string[];
	/** `ip` or `ip:port`; empty: the system's. */
	readonly dnsServers: readonly string[];
	/** One attempt in all, milliseconds. */
	readonly timeoutMs: number;
	readonly mostIdle: number;
	readonly userAgent: string;
};

const idleMs = 15_000;
const dnsTimeoutMs = 5000;

/** Makes attempts; `close` ends its idle connections. */
export function createPosting(
	{ca, allowCidrs, takesLocal, dnsServers, timeoutMs, mostIdle, userAgent}: Posting,
	clock: Clock,
): {readonly post: Poster; readonly close: () => void} {
	const connections = new Connections({
		// Made once: reading all public certificates again for each connection would cost milliseconds.
		secureContext: createSecureContext({
			minVersion: 'TLSv1.2',
			...(ca.length > 0 && {ca: [...rootCertificates, ...ca]}),
		}),
		idleMs,
		mostIdle,
	});
	const resolver = createResolver({servers: dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock});
	const lookUp = createLookUp(resolver);
	const post = createPoster({
		guard: createGuard({allowCidrs, takesLocal}),
		lookUp,
		connections,
		timeoutMs,
		userAgent,
		clock,
	});
	return {post, close: () => connections.close()};
}
