import type {Socket} from 'node:net';
import {type SecureContext, TLSSocket} from 'node:tls';
import {Client} from 'undici';
import {unprintable} from '../kit/text.ts';
import {type CheckedHost, connectPinned} from '../net/pinned-connection.ts';

/** An open connection, for one request at a time. */
export type Connection = {
	readonly client: Client;
	readonly origin: string;
	/** The other end of the socket. */
	readonly address: string;
	/** Protocol and cipher; null: not encrypted. */
	readonly tls: string | null;
};

type Waiter = {readonly addresses: readonly string[]; readonly go: (connection: Connection | null) => void};

type ConnectionsOptions = {
	/** Trusts public authorities and those of the settings; TLS 1.2 at least. */
	readonly secureContext: SecureContext;
	/** How long a connection without a request stays open, milliseconds. */
	readonly idleMs: number;
	/** How many connections without a request stay open; the one that is idle longest goes first. */
	readonly maxIdle: number;
};

const maxHeaderSize = 16 * 1024;
/** How long an attempt waits for a connection that another one opens or uses, before it opens its own, milliseconds. */
const waitLimitMs = 250;

/**
 * Connections to checked addresses. A new one goes to an address of the target and nowhere else: the name is not looked
 * up again. An idle one is used again only for the same origin and while its address is among those just checked.
 */
export class Connections {
	readonly #options: ConnectionsOptions;
	/** In the order in which they became idle. */
	readonly #idle = new Set<Connection>();
	/** By origin, in the same order. */
	readonly #idleOf = new Map<string, Set<Connection>>();
	/** How many are being opened, by origin. */
	readonly #opening = new Map<string, number>();
	/** Attempts that wait for one of them, by origin, in order. */
	readonly #waiters = new Map<string, Set<Waiter>>();

	constructor(options: ConnectionsOptions) {
		this.#options = options;
	}

	/** Lets the first attempt that waits go on: with this connection, or to open its own. */
	#wake(origin: string, connection: Connection | null): boolean {
		for (const waiter of this.#waiters.get(origin) ?? []) {
			if (connection === null || waiter.addresses.includes(connection.address)) {
				waiter.go(connection);
				return true;
			}
		}
		return false;
	}

	#wait({origin, addresses}: Target): Promise<Connection | null> {
		return new Promise(resolve => {
			const here = this.#waiters.get(origin) ?? new Set();
			const waiter: Waiter = {
				addresses,
				go: connection => {
					clearTimeout(timer);
					here.delete(waiter);
					if (here.size === 0) {
						this.#waiters.delete(origin);
					}
					resolve(connection);
				},
			};
			const timer = setTimeout(() => waiter.go(null), waitLimitMs);
			this.#waiters.set(origin, here.add(waiter));
		});
	}

	#noteOpening(origin: string, change: 1 | -1): void {
		const n = (this.#opening.get(origin) ?? 0) + change;
		if (n > 0) {
			this.#opening.set(origin, n);
		} else {
			this.#opening.delete(origin);
		}
	}

	#forget(connection: Connection): void {
		if (this.#idle.delete(connection)) {
			const others = this.#idleOf.get(connection.origin);
			others?.delete(connection);
			if (others?.size === 0) {
				this.#idleOf.delete(connection.origin);
			}
		}
	}

	drop(connection: Connection): void {
		this.#forget(connection);
		void connection.client.destroy();
	}

	/**
	 * A connection that served before; null: a new one must be made. While one is being opened others wait a moment: it
	 * may serve them too, where a handshake each would cost a hundred times as much.
	 */
	async take(target: Target): Promise<Connection | null> {
		for (const connection of this.#idleOf.get(target.origin) ?? []) {
			if (target.addresses.includes(connection.address)) {
				this.#forget(connection);
				return connection;
			}
		}
		const given = this.#opening.has(target.origin) ? await this.#wait(target) : null;
		// Its other end may have said that it closes it.
		return given?.client.destroyed ? null : given;
	}

	/**
	 * A new connection, made and verified within the limit (milliseconds); rejects with what kept it from being made.
	 */
	async open(target: Target, limitMs: number): Promise<Connection> {
		this.#noteOpening(target.origin, 1);
		const socket = await connect(target, this.#options.secureContext, limitMs).finally(() => {
			this.#noteOpening(target.origin, -1);
			this.#wake(target.origin, null);
		});
		let given = false;
		const client = new Client(target.origin, {
			// The socket is there already, and a client never gets another one. Undici must not be answered at once.
			connect(_options, callback) {
				const again = given;
				given = true;
				queueMicrotask(() =>
					again ? callback(new PostFault('it closed the connection'), null) : callback(null, socket),
				);
			},
			pipelining: 1,
			// The time limit of an attempt is kept by `post`: these are per gap.
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

	/** After a request that ended well: the connection may serve another one. */
	giveBack(connection: Connection): void {
		if (connection.client.destroyed || this.#wake(connection.origin, connection)) {
			return;
		}
		this.#idle.add(connection);
		this.#idleOf.set(connection.origin, (this.#idleOf.get(connection.origin) ?? new Set()).add(connection));
		const [oldest] = this.#idle;
		if (this.#idle.size > this.#options.maxIdle && oldest) {
			this.drop(oldest);
		}
	}

	/** Closes what is idle. */
	close(): void {
		for (const connection of this.#idle) {
			this.drop(connection);
		}
	}

	get idle(): number {
		return this.#idle.size;
	}
}

/** A host, and its addresses that were just checked. */
export type Target = CheckedHost & {
	/** `https://host[:port]`, or `http:` where it is local. */
	readonly origin: string;
	/** A local endpoint, reached without TLS. */
	readonly isLocal: boolean;
};

/**
 * Resolves when the certificate is verified, or a local program answers; rejects with what kept it from that, or after
 * the limit (milliseconds).
 */
function connect(target: Target, secureContext: SecureContext, limitMs: number): Promise<Socket> {
	return new Promise((resolve, reject) => {
		const socket = connectPinned(target, target.isLocal ? null : secureContext);
		const timer = setTimeout(() => socket.destroy(new PostFault('no connection in time')), limitMs);
		socket.setNoDelay(true);
		socket.once(target.isLocal ? 'connect' : 'secureConnect', () => {
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

const longest = 200;
// A host's own words reach terminals and logs.
const unsafe = new RegExp(`[${unprintable}]+`, 'gu');

const words: Readonly<Record<string, string>> = {
	ECONNREFUSED: 'the connection was refused: nothing listens there',
	ECONNRESET: 'the connection was reset',
	EPIPE: 'the connection was reset',
	ETIMEDOUT: 'the host did not answer the connection',
	EHOSTUNREACH: 'the host cannot be reached',
	ENETUNREACH: 'the network cannot be reached',
	EADDRNOTAVAIL: 'the host cannot be reached',
	CERT_HAS_EXPIRED: 'its certificate has expired',
	CERT_NOT_YET_VALID: 'its certificate is not valid yet',
	DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed',
	SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is of an unknown authority',
	UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		'its certificate is of an unknown authority, or it sends no intermediate certificate',
	UNABLE_TO_GET_ISSUER_CERT: 'its certificate is of an unknown authority',
	UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate is of an unknown authority',
	ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host name',
	ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS',
	ERR_SSL_PACKET_LENGTH_TOO_LONG: 'it does not speak TLS',
	ERR_SSL_UNSUPPORTED_PROTOCOL: 'it speaks no TLS version that is safe (1.2 or newer)',
	ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: 'it speaks no TLS version that is safe (1.2 or newer)',
	UND_ERR_SOCKET: 'it closed the connection without an answer',
	UND_ERR_HEADERS_OVERFLOW: 'its answer has headers over 16 KiB',
};

/** A fault that our own text describes. The text names nothing but what the endpoint's owner knows. */
export class PostFault extends Error {
	/** More for the operator's log; null: the text says all. */
	readonly detail: string | null;

	constructor(text: string, detail: string | null = null) {
		super(text);
		this.detail = detail;
	}
}

/**
 * Why an attempt failed: `error` for the endpoint's owner, `detail` for the operator's log (null: there is no more to
 * say).
 */
export type Fault = {readonly error: string; readonly detail: string | null};

/** Texts of the system and of libraries may name addresses of this network, so only the operator sees them. */
export function faultOf(error: unknown): Fault {
	if (error instanceof PostFault) {
		return {error: error.message, detail: error.detail};
	}
	const detail = (error instanceof Error ? error.message : String(error)).replace(unsafe, ' ').slice(0, longest);
	if (error instanceof Error && error.name === 'HTTPParserError') {
		return {error: 'it does not speak HTTP', detail};
	}
	const code = codeOf(error);
	const known = Object.hasOwn(words, code) ? words[code] : undefined;
	const text = known ?? 'the attempt failed';
	return {error: code === '' ? text : `${text} (${code})`, detail};
}

// Where several addresses were tried, the last one counts.
function codeOf(error: unknown): string {
	const last = error instanceof AggregateError ? error.errors.at(-1) : error;
	const code = last instanceof Error && 'code' in last ? last.code : '';
	return typeof code === 'string' && /^\w{1,60}$/.test(code) ? code : '';
}
