import {createSecureContext, rootCertificates} from 'node:tls';
import type {Clock} from '../../kit/clock.ts';
import {createResolver} from '../../net/resolver.ts';
import {AddressGuard, type GuardOptions} from '../../resources/webhooks/address-guard.ts';
import {Connections} from '../../resources/webhooks/connections.ts';
import {Poster} from '../../resources/webhooks/post.ts';

/** The options for posting to endpoints, in a form that can be copied to another thread. */
export type PostingOptions = GuardOptions & {
	/** Additional trusted certificate authorities, as PEM. */
	readonly ca: readonly string[];
	/** `ip` or `ip:port`; empty for the system's servers. */
	readonly dnsServers: readonly string[];
	/** The time limit of a whole attempt, in milliseconds. */
	readonly timeoutMs: number;
	readonly maxIdle: number;
	readonly userAgent: string;
};

const idleMs = 15_000;
const dnsTimeoutMs = 5000;

/** Creates a poster. Close it after use. */
export function createPosting(posting: PostingOptions, clock: Clock): Poster {
	const {ca, dnsServers, timeoutMs, maxIdle, userAgent} = posting;
	const connections = new Connections({
		// Created once: reading all public certificates for each connection would cost milliseconds.
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
