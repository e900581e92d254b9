import {createHmac} from 'node:crypto';
import {isIP} from 'node:net';
import {LRUCache} from 'lru-cache';
import type {Client, Dispatcher} from 'undici';
import {type Clock, inTime} from '../../kit/clock.ts';
import {Thread, type ThreadOptions} from '../../kit/foreign-work.ts';
import {toBuffer} from '../../kit/text.ts';
import {type Calls, type Replies, ThreadCaller} from '../../kit/thread-calls.ts';
import {findAddresses, type LookUpAddresses} from '../../net/pinned-connection.ts';
import {type AddressGuard, hostOf, portOf} from './address-guard.ts';
import {type Connection, type Connections, PostProblem, type Problem, type Target, toProblem} from './connections.ts';
import type {EndpointSecrets} from './store.ts';

/** A delivery to post. The body is sent exactly as stored. */
export type Post = {
	/** `whd_…`, the same for every attempt. */
	readonly id: string;
	readonly url: string;
	readonly signing: Signing;
	readonly body: Uint8Array;
};

/** The result of an attempt. */
export type PostResult = {
	/** The status of the endpoint's response, or `null` if there was none. */
	readonly status: number | null;
	/** Why it failed, for the endpoint's owner, or `null` if it was acknowledged (2xx). */
	readonly error: string | null;
	/** More about the failure, only for the operator because it may name addresses. */
	readonly detail: string | null;
	/** The start of the body of a refusal, or `null` if there is none or the delivery was acknowledged. */
	readonly answer: string | null;
	/** The remote address of the connection, and its protocol and cipher; `null` if there was none. */
	readonly address: string | null;
	readonly tls: string | null;
	/** The delay requested by the endpoint (RFC 9110 §10.2.3), if any. */
	readonly retryAfterMs?: number | undefined;
	readonly ms: number;
};

type PosterOptions = {
	readonly guard: AddressGuard;
	readonly resolver: {readonly a: LookUpAddresses; readonly aaaa: LookUpAddresses};
	readonly connections: Connections;
	/** The limit of a whole attempt, in milliseconds. */
	readonly timeoutMs: number;
	readonly userAgent: string;
	readonly clock: Clock;
};

/** A parsed URL whose host has not been looked up yet. */
type ParsedUrl = Omit<Target, 'addresses'> & {readonly path: string};

const maxConnectMs = 5000;
const maxCachedUrls = 1000;

/** Makes attempts: lookup, check of every address, connection to a checked one, signed POST. Follows no redirects. */
export class Poster {
	readonly #options: PosterOptions;
	/** Parsed URLs that the guard has accepted. */
	readonly #urls = new LRUCache<string, ParsedUrl>({max: maxCachedUrls});
	readonly #connectMs: number;

	constructor(options: PosterOptions) {
		this.#options = options;
		this.#connectMs = Math.min(options.timeoutMs / 3, maxConnectMs);
	}

	/** Makes one attempt. Never rejects. */
	async post(post: Post): Promise<PostResult> {
		const {clock, timeoutMs} = this.#options;
		const began = clock.monotonic();
		const end = await this.#attempt(post, began + timeoutMs).catch(error => ({
			status: null,
			...toProblem(error),
			answer: null,
			address: null,
			tls: null,
		}));
		return {...end, ms: clock.monotonic() - began};
	}

	/** Closes idle connections. */
	close(): void {
		this.#options.connections.close();
	}

	async #attempt(post: Post, deadline: number): Promise<Omit<PostResult, 'ms'>> {
		const {connections, clock} = this.#options;
		const url = this.#parseUrl(post.url);
		const target = await inTime(
			this.#connectMs,
			() => new PostProblem('the DNS lookup timed out'),
			() => this.#resolve(url),
		);
		const idle = await connections.take(target);
		if (idle) {
			const exchanged = await this.#send(idle, url, post, deadline);
			// The remote end may just have closed the idle connection, which says nothing about the endpoint. A new one
			// is opened.
			if (exchanged.ok || exchanged.isLate) {
				return this.#endOf(idle, exchanged);
			}
		}
		const limit = Math.max(0, Math.min(this.#connectMs, deadline - clock.monotonic()));
		const connection = await connections.open(target, limit);
		return this.#endOf(connection, await this.#send(connection, url, post, deadline));
	}

	#parseUrl(text: string): ParsedUrl {
		const cached = this.#urls.get(text);
		if (cached) {
			return cached;
		}
		const {guard} = this.#options;
		const problem = guard.urlProblem(text);
		if (problem !== null) {
			throw new PostProblem(`the URL ${problem}`);
		}
		const url = new URL(text);
		const host = hostOf(url);
		const port = portOf(url);
		const origin = `${url.protocol}//${host.includes(':') ? `[${host}]` : host}:${port}`;
		const parsed = {origin, host, port, isLocal: guard.isLocal(url), path: url.pathname + url.search};
		this.#urls.set(text, parsed);
		return parsed;
	}

	async #resolve({origin, host, port, isLocal}: ParsedUrl): Promise<Target> {
		const {guard, resolver} = this.#options;
		if (isLocal) {
			// A hosts file or DNS could point localhost elsewhere.
			return {origin, host, port, isLocal, addresses: isIP(host) === 0 ? ['127.0.0.1', '::1'] : [host]};
		}
		const addresses = isIP(host) === 0 ? await lookUp(host, resolver) : [host];
		const refused = addresses.find(address => !guard.allows(address));
		if (refused !== undefined) {
			throw new PostProblem(`${host} has an address that is not public`, `${host} has the address ${refused}`);
		}
		return {origin, host, port, isLocal, addresses};
	}

	async #send(connection: Connection, {path}: ParsedUrl, post: Post, deadline: number): Promise<Exchanged> {
		const {connections, userAgent, clock} = this.#options;
		const headers = postHeaders(post, userAgent, clock.now());
		const limit = Math.max(0, deadline - clock.monotonic());
		const {isReusable, ...exchanged} = await exchange(connection.client, {path, headers, body: post.body}, limit);
		if (isReusable) {
			connections.giveBack(connection);
		} else {
			connections.drop(connection);
		}
		return exchanged;
	}

	#endOf({address, tls}: Connection, exchanged: Exchanged): Omit<PostResult, 'ms'> {
		if (exchanged.ok) {
			const {status, bodyStart, retryAfter} = exchanged;
			const error = describeRefusal(status);
			const answer = error === null || bodyStart === '' ? null : bodyStart;
			const retryAfterMs = parseRetryAfter(retryAfter, this.#options.clock.now());
			return {status, error, detail: null, answer, address, tls, retryAfterMs};
		}
		const timeout: Problem = {error: `no response within ${this.#options.timeoutMs / 1000} s`, detail: null};
		return {status: null, ...(exchanged.isLate ? timeout : toProblem(exchanged.error)), answer: null, address, tls};
	}
}

/**
 * Returns all addresses of a name, IPv4 first. Rejects if there are none. It looks them up for each attempt, so that
 * the current ones are checked. Concurrent attempts to one host share the query.
 */
async function lookUp(host: string, resolver: PosterOptions['resolver']): Promise<readonly string[]> {
	const lookup = await findAddresses(host, resolver, true);
	switch (lookup.kind) {
		case 'found':
			return lookup.addresses;
		case 'failed':
			throw new PostProblem(`the DNS lookup of ${host} failed (${lookup.code})`);
		case 'unknown-host':
			throw new PostProblem(`the host ${host} does not exist in DNS`);
		case 'none':
			throw new PostProblem(`${host} has no address in DNS`);
	}
}

function describeRefusal(status: number): string | null {
	if (status >= 200 && status < 300) {
		return null;
	}
	const problem = `the server responded with ${status}`;
	return status < 400 ? `${problem}; redirects are not followed` : problem;
}

/** Parses seconds or a date. Returns `undefined` for anything else. */
function parseRetryAfter(text: unknown, now: number): number | undefined {
	const ms = /^\d+$/.test(String(text)) ? Number(text) * 1000 : Date.parse(String(text)) - now;
	return ms > 0 ? ms : undefined;
}

type Request = {
	readonly path: string;
	readonly headers: Readonly<Record<string, string>>;
	readonly body: Uint8Array;
};

/** The response's status and the start of its body, or why there is none: an error or a timeout (`isLate`). */
type Exchanged =
	| {readonly ok: true; readonly status: number; readonly retryAfter: unknown; readonly bodyStart: string}
	| {readonly ok: false; readonly error: unknown; readonly isLate: boolean};

/** The limit up to which the body is read, for people to see and so that the connection can be reused. */
const maxReadBytes = 64 * 1024;
/** Octets of the body that are stored. */
const maxStoredBytes = 1000;
const readWaitMs = 1000;

/**
 * Posts one request and waits for the status of the response. Interim responses (1xx) and the body do not matter. The
 * limit is for the whole exchange, not per gap. `isReusable` tells whether the connection may serve another request.
 */
function exchange(
	client: Client,
	{path, headers, body}: Request,
	limitMs: number,
): Promise<Exchanged & {readonly isReusable: boolean}> {
	return new Promise(resolve => {
		let status: number | null = null;
		let retryAfter: unknown;
		let read = 0;
		let stored: Buffer = Buffer.alloc(0);
		let timer = setTimeout(() => finish({ok: false, error: null, isLate: true}, false), limitMs);

		function finish(exchanged: Exchanged, isReusable: boolean): void {
			clearTimeout(timer);
			resolve({...exchanged, isReusable});
		}

		const toExchanged = (code: number): Exchanged => ({
			ok: true,
			status: code,
			retryAfter,
			bodyStart: stored.toString().trim(),
		});

		const handler: Dispatcher.DispatchHandler = {
			onRequestStart: () => undefined,
			onResponseStart(_controller, code, headers) {
				if (code >= 200) {
					status = code;
					retryAfter = headers['retry-after'];
					clearTimeout(timer);
					timer = setTimeout(() => finish(toExchanged(code), false), Math.min(readWaitMs, limitMs));
				}
			},
			onResponseData(_controller, chunk) {
				read += chunk.length;
				if (stored.length < maxStoredBytes) {
					stored = Buffer.concat([stored, chunk.subarray(0, maxStoredBytes - stored.length)]);
				}
				if (read > maxReadBytes && status !== null) {
					finish(toExchanged(status), false);
				}
			},
			onResponseEnd() {
				if (status !== null) {
					finish(toExchanged(status), true);
				}
			},
			onResponseError(_controller, error) {
				finish(status === null ? {ok: false, error, isLate: false} : toExchanged(status), false);
			},
		};
		client.dispatch({path, method: 'POST', headers, body: toBuffer(body)}, handler);
	});
}

/** The methods of the thread. */
export type PosterMethods = {readonly post: (post: Post) => Promise<PostResult>};

/**
 * A thread for attempts: an endpoint that closes every connection costs a TLS handshake per delivery, and the main
 * thread is needed for the API and the store. Deliveries that a dead thread held are posted again, once.
 */
export class PostThread {
	readonly #caller = new ThreadCaller<PosterMethods>({send: calls => this.#thread.post(calls), maxAttempts: 2});
	readonly #thread: Thread<readonly Calls[], 'ready' | Replies>;

	constructor(options: ThreadOptions) {
		this.#thread = new Thread('poster', options, {
			receive: message => this.#caller.receive(message),
			ended: () => this.#caller.end(new Error('The webhook thread crashed twice while posting it.')),
		});
	}

	/** Starts the thread in advance. Otherwise the first attempt starts it. */
	start(): void {
		this.#thread.start();
	}

	post(post: Post): Promise<PostResult> {
		this.#thread.start();
		// Copy the body: a database driver's buffer may be part of a large one, which would be transferred with it.
		return this.#caller.call('post', {...post, body: new Uint8Array(post.body)});
	}

	async stop(): Promise<void> {
		await this.#thread.stop();
	}
}

/** The current signing secrets. `next` is the new one during the overlap of a rotation. */
export type Signing = {readonly secret: string; readonly next: string | null};

type Signed = {
	readonly 'x-webhook-timestamp': string;
	readonly 'x-webhook-signature': string;
	readonly 'x-webhook-signature-next'?: string;
};

/**
 * Returns the secrets that sign at a time in the store's form. In an overlap, receivers with the old secret still work.
 */
export function signingAt({secret, previousSecret, previousUntil}: EndpointSecrets, now: string): Signing {
	return previousSecret !== null && previousUntil !== null && previousUntil > now
		? {secret: previousSecret, next: secret}
		: {secret, next: null};
}

export function postHeaders(
	{id, signing, body}: {readonly id: string; readonly signing: Signing; readonly body: Uint8Array},
	userAgent: string,
	now: number,
) {
	return {
		'content-type': 'application/json',
		'user-agent': userAgent,
		'x-webhook-id': id,
		...signature(signing, now, body),
	};
}

/**
 * Proves the sender and time to the receiver: HMAC-SHA256 over `<timestamp>.<raw body>`. The key is the whole `whsec_…`
 * text as UTF-8.
 */
export function signature({secret, next}: Signing, milliseconds: number, body: Uint8Array): Signed {
	const timestamp = String(Math.floor(milliseconds / 1000));
	const mac = (key: string) =>
		`sha256=${createHmac('sha256', key).update(`${timestamp}.`).update(body).digest('hex')}`;
	return {
		'x-webhook-timestamp': timestamp,
		'x-webhook-signature': mac(secret),
		...(next !== null && {'x-webhook-signature-next': mac(next)}),
	};
}
