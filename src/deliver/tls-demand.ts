import {LRUCache} from 'lru-cache';
import {atMost} from '../kit/at-most.ts';
import type {Clock} from '../kit/clock.ts';
import type {Terms} from '../mail/route.ts';
import type {SecureResolver} from '../net/dns.ts';
import type {Conversation, Plan} from './conversation.ts';
import type {Hello} from './hello.ts';
import type {Host, TlsMode, TlsPolicy} from './host.ts';
import {asksForTls} from './tls-failure.ts';
import {findTlsa} from './tlsa.ts';

/** What is demanded of one host, or why it may not get the mail: a sentence, and whether DNS is to blame. */
export type HostDemand =
	| {readonly kind: 'tls'; readonly tls: TlsMode; readonly policy?: TlsPolicy}
	| {readonly kind: 'refused'; readonly reason: string; readonly by: 'sts' | 'dnssec'};

/** Asked for each host of a domain. */
export type DemandOf = (host: string) => Promise<HostDemand>;

type DemandOptions = {
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

/** Addresses with broken TLS, and what works instead. */
export type BrokenTls = {
	/** How to begin TLS with a host now. */
	readonly helloFor: (host: Host) => Hello;
	/** Records what a conversation has shown of the host's TLS. */
	readonly learn: (plan: Plan, conversation: Conversation) => void;
};

const keptMs = 3 * 86_400_000;
const mostAddresses = 10_000;

/**
 * Remembers for 3 days which addresses took mail only with a smaller hello or in plain text, so that the next mail does
 * not fail first. Only where TLS is not demanded; one that now insists on TLS is forgotten.
 */
export function createBrokenTls(clock: Pick<Clock, 'monotonic'>): BrokenTls {
	const known = new LRUCache<string, {readonly hello: Hello; readonly until: number}>(atMost(mostAddresses));
	/** Where a handshake has failed, and what works instead is not known yet. */
	const failed = new LRUCache<string, true>(atMost(mostAddresses));
	const keyOf = ({address, port}: Host) => `${address} ${port}`;
	const concerns = ({tls, implicitTls}: Host) => tls === 'opportunistic' && !implicitTls;

	return {
		helloFor(host) {
			const key = keyOf(host);
			const found = concerns(host) ? known.get(key) : undefined;
			if (found === undefined || found.until > clock.monotonic()) {
				return found?.hello ?? 'usual';
			}

			known.delete(key);
			return 'usual';
		},
		learn({host, hello, session}, {end, used}) {
			if (session !== null || !concerns(host)) {
				return;
			}

			const key = keyOf(host);
			if (end.by === 'tls') {
				known.delete(key);
				// A server that does not want to now may want to next time.
				if (end.failure === 'validation-failure') {
					failed.set(key, true);
				}
			} else if (end.by === 'reply' && asksForTls(end.reply)) {
				known.delete(key); // It insists on TLS, which may work now.
			} else if (used !== null && failed.delete(key) && hello !== 'usual') {
				known.set(key, {hello, until: clock.monotonic() + keptMs});
			}
		},
	};
}
