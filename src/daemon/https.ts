import {createServer, type Server, type Socket} from 'node:net';
import {createSecureContext, type SecureContext, TLSSocket, type TLSSocketOptions} from 'node:tls';
import type {Api} from '../api/api-parts.ts';
import {Connections} from '../net/connections.ts';

/** The certificates that a TLS listener needs. */
export type ServerCertificates = {
	/** Returns the certificate for a requested name, else for MAILCTL_HOSTNAME, if there is one. */
	readonly contextFor: (servername: string) => SecureContext | undefined;
	/** Whether a CA may connect to validate a name (TLS-ALPN-01). */
	readonly isProving: () => Promise<boolean>;
	/** Returns the certificate that proves control of a name (RFC 8737 §3), if an order requires it. */
	readonly proofFor: (servername: string) => Promise<SecureContext | undefined>;
};

type HttpsOptions = {
	readonly api: Api;
	readonly certificates: ServerCertificates;
	/** Called for the first connection that has to be served without a certificate. */
	readonly onBare: () => void;
	/** The maximum number of connections; lower in tests. */
	readonly max?: number;
	readonly handshakeMs?: number;
};

const handshakeLimitMs = 10_000;
const emptyContext = createSecureContext();
const protocols = ['http/1.1'];
/** The only protocol that a validating CA offers (RFC 8737 §4), and below its encoding in a ClientHello. */
const proofProtocol = 'acme-tls/1';
const proofOffer = Buffer.from(`\u000A${proofProtocol}`, 'latin1');
/** One year (RFC 6797), for this host only: its subdomains may belong to others. */
const hsts = 'max-age=31536000';
const headerLength = 5;
const maxRecordLength = 16 * 1024;

/**
 * Creates a TLS listener in front of the API's HTTP server. Decrypted connections are passed to that server and its
 * time limits. The limits end clients that are slow with the handshake or a request; a new connection may replace an
 * idle one.
 */
export function createHttps({api, certificates, onBare, max, handshakeMs = handshakeLimitMs}: HttpsOptions): {
	readonly server: Server;
	readonly close: () => Promise<void>;
} {
	const connections = new Connections(max);
	const rawOf = new WeakMap<Socket, Socket>();
	let hasReportedBare = false;

	// Runs before the API responds. Requests from a proxy arrive on other connections: we cannot promise for the proxy
	// that it will keep serving HTTPS.
	api.server.prependListener('request', (request, response) => {
		const raw = rawOf.get(request.socket);
		if (raw !== undefined) {
			response.setHeader('strict-transport-security', hsts);
			connections.use(raw, request, response);
		}
	});

	function shakeHands(raw: Socket, options: TLSSocketOptions, onSecure: (secure: TLSSocket) => void): void {
		// Node crashes if a handshake begins on a destroyed socket.
		if (raw.destroyed) {
			return;
		}
		const secure = new TLSSocket(raw, {isServer: true, ...options});
		const limit = setTimeout(() => raw.destroy(), handshakeMs);
		secure.once('close', () => {
			clearTimeout(limit);
			raw.destroy();
		});
		// Errors of a connection concern only its client.
		secure.on('error', () => secure.destroy());
		secure.once('secure', () => {
			clearTimeout(limit);
			onSecure(secure);
		});
	}

	function serve(raw: Socket): void {
		const defaultContext = certificates.contextFor('');
		if (defaultContext === undefined && !hasReportedBare) {
			hasReportedBare = true;
			onBare();
		}
		const options: TLSSocketOptions = {
			secureContext: defaultContext ?? emptyContext,
			SNICallback: (name, done) => done(null, certificates.contextFor(name)),
			ALPNProtocols: protocols,
		};
		shakeHands(raw, options, secure => {
			rawOf.set(secure, raw);
			api.server.emit('connection', secure);
		});
	}

	/** The CA needs only the handshake (RFC 8737 §3). */
	function prove(raw: Socket): void {
		const options: TLSSocketOptions = {
			secureContext: emptyContext,
			SNICallback(name, done) {
				certificates
					.proofFor(name)
					.then(context => done(context ? null : new Error('nothing to prove'), context), done);
			},
			ALPNProtocols: [proofProtocol],
		};
		shakeHands(raw, options, secure => secure.end());
	}

	const server = createServer(raw => {
		if (!connections.add(raw)) {
			return;
		}
		certificates.isProving().then(
			isProving =>
				isProving
					? peek(raw, handshakeMs, isProofOffered => (isProofOffered ? prove(raw) : serve(raw)))
					: serve(raw),
			() => serve(raw),
		);
	});

	return {
		server,
		/** Lets open requests finish. Call this before the API is closed, and await it afterwards. */
		close: () => connections.close(server),
	};
}

/** Reads the first record of a connection, puts it back, and reports whether it offers the validation protocol. */
function peek(raw: Socket, limitMs: number, onRead: (isProofOffered: boolean) => void): void {
	const limit = setTimeout(() => raw.destroy(), limitMs);
	raw.once('close', () => clearTimeout(limit));
	let received = Buffer.alloc(0);
	function onReadable(): void {
		for (let chunk: Buffer | null = raw.read(); chunk !== null; chunk = raw.read()) {
			received = Buffer.concat([received, chunk]);
		}
		const isProofOffered = offersProof(received);
		if (isProofOffered === null) {
			return;
		}
		raw.off('readable', onReadable);
		clearTimeout(limit);
		raw.unshift(received);
		onRead(isProofOffered);
	}
	raw.on('readable', onReadable);
}

/**
 * Returns whether a ClientHello offers the validation protocol, or `null` if it is incomplete. Only searches for the
 * octets: a client that has them elsewhere gets a certificate that proves nothing.
 */
export function offersProof(bytes: Buffer): boolean | null {
	const handshake = 22;
	if (bytes.length < headerLength) {
		return bytes.length > 0 && bytes[0] !== handshake ? false : null;
	}
	const length = bytes.readUInt16BE(headerLength - 2);
	if (bytes[0] !== handshake || length > maxRecordLength) {
		return false;
	}
	return bytes.length < headerLength + length ? null : bytes.subarray(0, headerLength + length).includes(proofOffer);
}
