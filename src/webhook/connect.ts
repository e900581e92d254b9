import {isIP, type TcpNetConnectOpts} from 'node:net';
import {type ConnectionOptions, connect as connectTls, type SecureContext, type TLSSocket} from 'node:tls';
import {pinnedLookup} from '../net/pinned-lookup.ts';
import {PostFault} from './fault.ts';

/** A host that is spoken to, and the addresses of it that were checked just now. */
export type Target = {
	/** `https://host[:port]` */
	readonly origin: string;
	/** As it is verified: a name, or an address without brackets. */
	readonly host: string;
	readonly port: number;
	readonly addresses: readonly string[];
};

/** One of several addresses that does not answer is passed over after this. */
const addressPatienceMs = 1000;

/**
 * Connects to an address of the target and nowhere else: the name is not looked up again. Resolves when the certificate is
 * verified for the host, rejects with what kept it from that, or after the limit (milliseconds).
 */
export function connect(target: Target, secureContext: SecureContext, limitMs: number): Promise<TLSSocket> {
	const {host, port, addresses} = target;
	const options: ConnectionOptions & TcpNetConnectOpts = {
		host,
		port,
		servername: isIP(host) === 0 ? host : '', // RFC 6066 §3: no addresses in SNI.
		// Not asked where the host is an address: then that one was checked.
		lookup: pinnedLookup(addresses),
		autoSelectFamily: addresses.length > 1,
		autoSelectFamilyAttemptTimeout: addressPatienceMs,
		secureContext,
		ALPNProtocols: ['http/1.1'],
	};
	return new Promise((resolve, reject) => {
		const socket = connectTls(options);
		const timer = setTimeout(() => socket.destroy(new PostFault('no connection in time')), limitMs);
		socket.setNoDelay(true);
		socket.once('secureConnect', () => {
			clearTimeout(timer);
			resolve(socket);
		});
		socket.once('error', reject);
		socket.once('close', () => {
			clearTimeout(timer);
			reject(new PostFault('it closed the connection during the TLS handshake'));
		});
	});
}
