import {isIP, connect as netConnect, type Socket, type TcpNetConnectOpts} from 'node:net';
import {type ConnectionOptions, connect, type SecureContext, type TLSSocket} from 'node:tls';
import type {DnsAnswer} from './dns.ts';

/** Looks up one type of address. `shouldBypassCache` bypasses the cache. */
export type LookUpAddresses = (host: string, shouldBypassCache: boolean) => Promise<DnsAnswer<string>>;

/** A host's addresses in DNS, IPv4 first, or why it has none. */
type HostAddresses =
	| {readonly kind: 'found'; readonly addresses: readonly string[]}
	| {readonly kind: 'none' | 'unknown-host'}
	| {readonly kind: 'failed'; readonly code: string};

/** Resolves a host. The caller checks every address before it connects to one. */
export async function findAddresses(
	host: string,
	ask: {readonly a: LookUpAddresses; readonly aaaa: LookUpAddresses},
	shouldBypassCache: boolean,
): Promise<HostAddresses> {
	const answers = await Promise.all([ask.a(host, shouldBypassCache), ask.aaaa(host, shouldBypassCache)]);
	const addresses = answers.flatMap(answer => (answer.kind === 'found' ? answer.records : []));
	if (addresses.length > 0) {
		return {kind: 'found', addresses};
	}
	const failed = answers.find(answer => answer.kind === 'failed');
	return failed ?? {kind: answers.every(({kind}) => kind === 'nxdomain') ? 'unknown-host' : 'none'};
}

/** A host, and its addresses that were just checked. */
export type CheckedHost = {
	/** The name in its certificate: a host name, or an address without brackets. */
	readonly host: string;
	readonly port: number;
	readonly addresses: readonly string[];
};

/** After this time without a response, the next address is tried, in milliseconds. */
const addressWaitMs = 1000;

/**
 * Opens an HTTPS connection to one of the checked addresses. The name is not resolved again, so a second DNS answer
 * cannot redirect the connection into this network (SSRF). The socket emits `secureConnect` once the certificate is
 * verified. Without a context, it is plain TCP.
 */
export function connectPinned(host: CheckedHost, secureContext: SecureContext): TLSSocket;
export function connectPinned(host: CheckedHost, secureContext: SecureContext | null): Socket;
export function connectPinned({host, port, addresses}: CheckedHost, secureContext: SecureContext | null): Socket {
	const all = addresses.map(address => ({address, family: isIP(address)}));
	const options: TcpNetConnectOpts = {
		host,
		port,
		// Not called if the host is an address, which has been checked itself.
		lookup(_host, {all: wantsAll}, callback) {
			if (wantsAll) {
				callback(null, all);
			} else {
				callback(null, all[0]?.address ?? '', all[0]?.family);
			}
		},
		autoSelectFamily: addresses.length > 1,
		autoSelectFamilyAttemptTimeout: addressWaitMs,
	};
	if (secureContext === null) {
		return netConnect(options);
	}
	const secured: ConnectionOptions = {
		servername: isIP(host) === 0 ? host : '', // RFC 6066 §3: no addresses in SNI.
		secureContext,
		ALPNProtocols: ['http/1.1'],
	};
	return connect({...options, ...secured});
}
