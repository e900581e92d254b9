import {createServer, type Server, type Socket} from 'node:net';
import {createSecureContext, type SecureContext, TLSSocket, type TLSSocketOptions} from 'node:tls';
import type {Api} from '../api/api-parts.ts';
import {Connections} from '../net/connections.ts';

/** What of the certificates a TLS listener asks for. */
export type ServerCertificates = {
	/** Of the name that a client asked for, else of MAILCTL_HOSTNAME; undefined: there is none yet. */
	readonly contextFor: (servername: string) => SecureContext | undefined;
	/** Whether a CA may come for a proof (TLS-ALPN-01). */
	readonly isProving: () => Promise<boolean>;
	/** The certificate that proves a name (RFC 8737 §3); undefined: nothing is to be proved. */
	readonly proofFor: (servername: string) => Promise<SecureContext | undefined>;
};

type HttpsOptions = {
	readonly api: Api;
	readonly certificates: ServerCertificates;
	/** The first connection without a certificate to show. */
	readonly onBare: () => void;
	/** Of connections; fewer in tests. */
	readonly most?: number;
	readonly handshakeMs?: number;
};

const handshakeLimitMs = 10_000;
const bare = createSecureContext();
const protocols = ['http/1.1'];
/** The only protocol that a CA offers when it wants a proof (RFC 8737 §4), as a ClientHello has it. */
const proofProtocol = 'acme-tls/1';
const proofOffer = Buffer.from(`\u000A${proofProtocol}`, 'latin1');
/** A year (RFC 6797), of this host alone: hosts below it may be others'. */
const hsts = 'max-age=31536000';
const recordHead = 5;
const maxRecordLength = 16 * 1024;

/**
 * A TLS listener before the HTTP server of the API, which listens too: what it decrypts is handed to that server, with
 * its limits of time. A client that is slow with the handshake, or with a request, is ended by those limits; one that
 * is idle by the next that comes.
 */
export function createHttps({api, certificates, onBare, most, handshakeMs = handshakeLimitMs}: HttpsOptions): {
	readonly server: Server;
	readonly close: () => Promise<void>;
} {
	const connections = new Connections(most);
	const rawOf = new WeakMap<Socket, Socket>();
	let hasSaid = false;

	// Before the API answers. What a proxy passes on comes by other connections: whether its certificate stays is not
	// ours to say.
	api.server.prependListener('request', (request, response) => {
		const raw = rawOf.get(request.socket);
		if (raw !== undefined) {
			response.setHeader('strict-transport-security', hsts);
			connections.use(raw, request, response);
		}
	});

	function shakeHands(raw: Socket, options: TLSSocketOptions, then: (secure: TLSSocket) => void): void {
		// Node crashes where a handshake begins on a socket that is destroyed.
		if (raw.destroyed) {
			return;
		}
		const secure = new TLSSocket(raw, {isServer: true, ...options});
		const limit = setTimeout(() => raw.destroy(), handshakeMs);
		secure.once('close', () => {
			clearTimeout(limit);
			raw.destroy();
		});
		// Errors of a connection concern its client only.
		secure.on('error', () => secure.destroy());
		secure.once('secure', () => {
			clearTimeout(limit);
			then(secure);
		});
	}

	function serve(raw: Socket): void {
		const usual = certificates.contextFor('');
		if (usual === undefined && !hasSaid) {
			hasSaid = true;
			onBare();
		}
		const options: TLSSocketOptions = {
			secureContext: usual ?? bare,
			SNICallback: (name, done) => done(null, certificates.contextFor(name)),
			ALPNProtocols: protocols,
		};
		shakeHands(raw, options, secure => {
			rawOf.set(secure, raw);
			api.server.emit('connection', secure);
		});
	}

	/** The handshake is all that a CA wants (RFC 8737 §3). */
	function prove(raw: Socket): void {
		const options: TLSSocketOptions = {
			secureContext: bare,
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
			proving => (proving ? peek(raw, handshakeMs, offer => (offer ? prove(raw) : serve(raw))) : serve(raw)),
			() => serve(raw),
		);
	});

	return {
		server,
		/** Answers what is being asked. To be called before the API is closed, and awaited after. */
		close: () => connections.close(server),
	};
}

/** Looks at the first record of a connection, and puts it back: whether it offers the protocol of a proof. */
function peek(raw: Socket, limitMs: number, then: (offersProof: boolean) => void): void {
	const limit = setTimeout(() => raw.destroy(), limitMs);
	raw.once('close', () => clearTimeout(limit));
	let seen = Buffer.alloc(0);
	function look(): void {
		for (let chunk: Buffer | null = raw.read(); chunk !== null; chunk = raw.read()) {
			seen = Buffer.concat([seen, chunk]);
		}
		const verdict = offersProof(seen);
		if (verdict === null) {
			return;
		}
		raw.off('readable', look);
		clearTimeout(limit);
		raw.unshift(seen);
		then(verdict);
	}
	raw.on('readable', look);
}

/**
 * Whether a ClientHello offers the protocol of a proof; null: it is not here whole. The octets are looked for without
 * reading the rest: who has them elsewhere gets a certificate that proves nothing to them.
 */
export function offersProof(bytes: Buffer): boolean | null {
	const handshake = 22;
	if (bytes.length < recordHead) {
		return bytes.length > 0 && bytes[0] !== handshake ? false : null;
	}
	const length = bytes.readUInt16BE(recordHead - 2);
	if (bytes[0] !== handshake || length > maxRecordLength) {
		return false;
	}
	return bytes.length < recordHead + length ? null : bytes.subarray(0, recordHead + length).includes(proofOffer);
}
