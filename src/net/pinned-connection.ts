import {isIP, connect as netConnect, type Socket, type TcpNetConnectOpts} from 'node:net';
import {type ConnectionOptions, connect, type SecureContext, type TLSSocket} from 'node:tls';
import type {DnsAnswer} from './dns.ts';

/** Asks DNS for one kind of address; `fresh`: even if the answer is known. */
export type AskAddresses = (host: string, fresh: boolean) => Promise<DnsAnswer<string>>;

/** The addresses of a host in DNS, IPv4 first, or why it has no address. */
type HostAddresses =
	| {readonly kind: 'found'; readonly addresses: readonly string[]}
	| {readonly kind: 'none' | 'unknown-host'}
	| {readonly kind: 'failed'; readonly code: string};

/** Looks a host up. The caller checks every address before it connects to one. */
export async function addressesOf(
	host: string,
	ask: {readonly a: AskAddresses; readonly aaaa: AskAddresses},
	fresh: boolean,
): Promise<HostAddresses> {
	const answers = await Promise.all([ask.a(host, fresh), ask.aaaa(host, fresh)]);
	const addresses = answers.flatMap(answer => (answer.kind === 'found' ? answer.records : []));
	if (addresses.length > 0) {
		return {kind: 'found', addresses};
	}
	const failed = answers.find(answer => answer.kind === 'failed');
	return failed ?? {kind: answers.every(({kind}) => kind === 'nxdomain') ? 'unknown-host' : 'none'};
}

/** A host and the addresses of it that were checked just now. */
export type CheckedHost = {
	/** As its certificate is verified: a name, or an address without brackets. */
	readonly host: string;
	readonly port: number;
	readonly addresses: readonly string[];
};

/** One of several addresses that does not answer is passed over after this. */
const addressWaitMs = 1000;

/**
 * Opens an HTTPS connection to one of the checked addresses and nowhere else. The name is not looked up again, so a
 * second answer of DNS cannot lead into this network (SSRF). The socket emits `secureConnect` when the certificate is
 * verified. Without a context it is plain TCP.
 */
export function connectPinned(host: CheckedHost, secureContext: SecureContext): TLSSocket;
export function connectPinned(host: CheckedHost, secureContext: SecureContext | null): Socket;
export function connectPinned({host, port, addresses}: CheckedHost, secureContext: SecureContext | null): Socket {
	const all = addresses.map(address => ({address, family: isIP(address)}));
	const options: TcpNetConnectOpts = {
		host,
		port,
		// Not asked where the host is an address: then that one was checked.
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
