import type {Socket} from 'node:net';
import {type SecureContext, TLSSocket} from 'node:tls';
import {Client} from 'undici';
import {unprintable} from '../../kit/text.ts';
import {type CheckedHost, connectPinned} from '../../net/pinned-connection.ts';

/** An open connection, which serves one request at a time. */
export type Connection = {
	readonly client: Client;
	readonly origin: string;
	/** The remote address of the socket. */
	readonly address: string;
	/** Protocol and cipher, or `null` without TLS. */
	readonly tls: string | null;
};

type Waiter = {readonly addresses: readonly string[]; readonly resume: (connection: Connection | null) => void};

type ConnectionsOptions = {
	/** Trusts public certificate authorities and those in the settings. Requires TLS 1.2 or newer. */
	readonly secureContext: SecureContext;
	/** How long an idle connection stays open, in milliseconds. */
	readonly idleMs: number;
	/** The maximum number of idle connections. Above it, the one that has been idle longest is closed. */
	readonly maxIdle: number;
};

const maxHeaderSize = 16 * 1024;
/** How long an attempt waits for a connection of another attempt before opening its own, in milliseconds. */
const waitLimitMs = 250;

/**
 * Connections to checked addresses. A new connection uses an address that was just checked and never resolves the name
 * again: DNS could return an internal address the second time. An idle connection is reused only for the same origin,
 * and only while its address is among those just checked.
 */
export class Connections {
	readonly #options: ConnectionsOptions;
	/** In the order in which they became idle. */
	readonly #idle = new Set<Connection>();
	/** The same connections by origin, in the same order. */
	readonly #idleByOrigin = new Map<string, Set<Connection>>();
	/** The number of connections that are being opened, by origin. */
	readonly #opening = new Map<string, number>();
	/** Attempts that wait for a connection, by origin and in order. */
	readonly #waiters = new Map<string, Set<Waiter>>();

	constructor(options: ConnectionsOptions) {
		this.#options = options;
	}

	/** Resumes the first attempt that can use this connection. With `null`, the first one opens its own. */
	#wake(origin: string, connection: Connection | null): boolean {
		for (const waiter of this.#waiters.get(origin) ?? []) {
			if (connection === null || waiter.addresses.includes(connection.address)) {
				waiter.resume(connection);
				return true;
			}
		}
		return false;
	}

	#wait({origin, addresses}: Target): Promise<Connection | null> {
		return new Promise(resolve => {
			const waiters = this.#waiters.get(origin) ?? new Set();
			const waiter: Waiter = {
				addresses,
				resume: connection => {
					clearTimeout(timer);
					waiters.delete(waiter);
					if (waiters.size === 0) {
						this.#waiters.delete(origin);
					}
					resolve(connection);
				},
			};
			const timer = setTimeout(() => waiter.resume(null), waitLimitMs);
			this.#waiters.set(origin, waiters.add(waiter));
		});
	}

	#countOpening(origin: string, change: 1 | -1): void {
		const n = (this.#opening.get(origin) ?? 0) + change;
		if (n > 0) {
			this.#opening.set(origin, n);
		} else {
			this.#opening.delete(origin);
		}
	}

	#forget(connection: Connection): void {
		if (this.#idle.delete(connection)) {
			const idle = this.#idleByOrigin.get(connection.origin);
			idle?.delete(connection);
			if (idle?.size === 0) {
				this.#idleByOrigin.delete(connection.origin);
			}
		}
	}

	drop(connection: Connection): void {
		this.#forget(connection);
		void connection.client.destroy();
	}

	/**
	 * Returns an existing connection, or `null` if a new one must be opened. If others are being opened, the
	 * attempt waits briefly for one to become free: a handshake would cost a hundred times as much.
	 */
	async take(target: Target): Promise<Connection | null> {
		for (const connection of this.#idleByOrigin.get(target.origin) ?? []) {
			if (target.addresses.includes(connection.address)) {
				this.#forget(connection);
				return connection;
			}
		}
		const granted = this.#opening.has(target.origin) ? await this.#wait(target) : null;
		// The remote end may have announced that it closes the connection.
		return granted?.client.destroyed ? null : granted;
	}

	/** Opens and verifies a connection within the limit (milliseconds). Rejects with the reason if it cannot. */
	async open(target: Target, limitMs: number): Promise<Connection> {
		this.#countOpening(target.origin, 1);
		const socket = await connect(target, this.#options.secureContext, limitMs).finally(() => {
			this.#countOpening(target.origin, -1);
			this.#wake(target.origin, null);
		});
		let isUsed = false;
		const client = new Client(target.origin, {
			// The socket is already open, and the client never gets another one. The callback is deferred, because
			// Undici does not expect it to be called synchronously.
			connect(_options, callback) {
				const isReconnect = isUsed;
				isUsed = true;
				queueMicrotask(() =>
					isReconnect ? callback(new PostProblem('the server disconnected'), null) : callback(null, socket),
				);
			},
			pipelining: 1,
			// Disabled, because they limit single pauses: `exchange` in post.ts limits the whole attempt.
			headersTimeout: 0,
			bodyTimeout: 0,
			keepAliveTimeout: this.#options.idleMs,
			keepAliveMaxTimeout: this.#options.idleMs,
			maxHeaderSize,
		});
		const connection = {
			client,
			origin: target.origin,
			address: socket.remoteAddress ?? '',
			tls: socket instanceof TLSSocket ? `${socket.getProtocol()} ${socket.getCipher()?.name}` : null,
		};
		client.on('disconnect', () => this.drop(connection));
		return connection;
	}

	/** Returns a connection after a successful request, so that another one may use it. */
	giveBack(connection: Connection): void {
		if (connection.client.destroyed || this.#wake(connection.origin, connection)) {
			return;
		}
		this.#idle.add(connection);
		this.#idleByOrigin.set(
			connection.origin,
			(this.#idleByOrigin.get(connection.origin) ?? new Set()).add(connection),
		);
		const [oldest] = this.#idle;
		if (this.#idle.size > this.#options.maxIdle && oldest) {
			this.drop(oldest);
		}
	}

	/** Closes idle connections. */
	close(): void {
		for (const connection of this.#idle) {
			this.drop(connection);
		}
	}

	get idleCount(): number {
		return this.#idle.size;
	}
}

/** A host with its addresses, which were just checked. */
export type Target = CheckedHost & {
	/** `https://host[:port]`, or `http:` if it is local. */
	readonly origin: string;
	/** A local endpoint, reached without TLS. */
	readonly isLocal: boolean;
};

/** Resolves once the certificate is verified, or for a local target, once connected. Rejects after `limitMs`. */
function connect(target: Target, secureContext: SecureContext, limitMs: number): Promise<Socket> {
	return new Promise((resolve, reject) => {
		const socket = connectPinned(target, target.isLocal ? null : secureContext);
		const timer = setTimeout(() => socket.destroy(new PostProblem('the connection attempt timed out')), limitMs);
		socket.setNoDelay(true);
		socket.once(target.isLocal ? 'connect' : 'secureConnect', () => {
			clearTimeout(timer);
			resolve(socket);
		});
		socket.once('error', reject);
		socket.once('close', () => {
			clearTimeout(timer);
			reject(new PostProblem('the server closed the connection during the TLS handshake'));
		});
	});
}

const maxDetailLength = 200;
// Text from the server may reach terminals and logs.
const unsafe = new RegExp(`[${unprintable}]+`, 'gu');

const errorMessages: Readonly<Record<string, string>> = {
	ECONNREFUSED: 'the connection was refused: nothing is listening there',
	ECONNRESET: 'the connection was reset',
	EPIPE: 'the connection was reset',
	ETIMEDOUT: 'the connection timed out',
	EHOSTUNREACH: 'the host cannot be reached',
	ENETUNREACH: 'the network cannot be reached',
	EADDRNOTAVAIL: 'the host cannot be reached',
	CERT_HAS_EXPIRED: 'the certificate has expired',
	CERT_NOT_YET_VALID: 'the certificate is not valid yet',
	DEPTH_ZERO_SELF_SIGNED_CERT: 'the certificate is self-signed',
	SELF_SIGNED_CERT_IN_CHAIN: 'the certificate is from an unknown authority',
	UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		'the certificate is from an unknown authority, or an intermediate certificate is missing',
	UNABLE_TO_GET_ISSUER_CERT: 'the certificate is from an unknown authority',
	UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'the certificate is from an unknown authority',
	ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another host name',
	ERR_SSL_WRONG_VERSION_NUMBER: 'the server does not support TLS',
	ERR_SSL_PACKET_LENGTH_TOO_LONG: 'the server does not support TLS',
	ERR_SSL_UNSUPPORTED_PROTOCOL: 'the server does not support a secure TLS version (1.2 or newer)',
	ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: 'the server does not support a secure TLS version (1.2 or newer)',
	UND_ERR_SOCKET: 'the server closed the connection without a response',
	UND_ERR_HEADERS_OVERFLOW: 'the response headers exceed 16 KiB',
};

/** A failure whose message was written for the endpoint's owner and reveals nothing about the internal network. */
export class PostProblem extends Error {
	/** More for the operator's log, or `null`. */
	readonly detail: string | null;

	constructor(text: string, detail: string | null = null) {
		super(text);
		this.detail = detail;
	}
}

/**
 * Why an attempt failed: `error` for the endpoint's owner, `detail` for the operator's log (`null` if there is none).
 */
export type Problem = {readonly error: string; readonly detail: string | null};

/** Hides messages of the system and of libraries from the owner: they may contain internal addresses. */
export function toProblem(error: unknown): Problem {
	if (error instanceof PostProblem) {
		return {error: error.message, detail: error.detail};
	}
	const detail = (error instanceof Error ? error.message : String(error))
		.replace(unsafe, ' ')
		.slice(0, maxDetailLength);
	if (error instanceof Error && error.name === 'HTTPParserError') {
		return {error: 'the server does not support HTTP', detail};
	}
	const code = codeOf(error);
	const known = Object.hasOwn(errorMessages, code) ? errorMessages[code] : undefined;
	const text = known ?? 'the attempt failed';
	return {error: code === '' ? text : `${text} (${code})`, detail};
}

// If several addresses were tried, the last error counts.
function codeOf(error: unknown): string {
	const last = error instanceof AggregateError ? error.errors.at(-1) : error;
	const code = last instanceof Error && 'code' in last ? last.code : '';
	return typeof code === 'string' && /^\w{1,60}$/.test(code) ? code : '';
}
