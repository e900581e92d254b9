import {createPublicKey, type KeyObject, sign} from 'node:crypto';
import {type Dispatcher, request} from 'undici';
import {type JsonObject, objectOf, parsedJson} from '../../kit/exact-json.ts';
import {unprintable} from '../../kit/text.ts';

export type AcmeOptions = {
	/** The URL of the CA's directory. */
	readonly directory: string;
	/** Defines the trusted CAs and the timeouts. */
	readonly dispatcher: Dispatcher;
	readonly userAgent: string;
	readonly now: () => number;
	/** Waits; rejects as soon as the signal is aborted. */
	readonly pause: (ms: number, signal: AbortSignal) => Promise<unknown>;
};

type AcmeProblem = {readonly type?: string; readonly retryAfterMs?: number | null; readonly isTransient?: boolean};

/** A request that the CA rejected or did not respond to. The message is for people. */
export class AcmeError extends Error {
	/** The last component of the error type (RFC 8555 §6.7), or empty. */
	readonly type: string;
	/** Milliseconds after which to retry, or `null` if the CA did not specify it. */
	readonly retryAfterMs: number | null;
	/** Whether the same request may succeed shortly. */
	readonly isTransient: boolean;

	constructor(message: string, {type = '', retryAfterMs = null, isTransient = false}: AcmeProblem = {}) {
		super(message.replace(invisible, ' ').slice(0, maxProblemLength));
		this.type = type;
		this.retryAfterMs = retryAfterMs;
		this.isTransient = isTransient;
	}
}

export type AcmeResponse = {
	readonly status: number;
	readonly location: string;
	readonly retryAfterMs: number | null;
	readonly text: string;
};

/** The signer of a request. `url` is `null` until the CA has assigned a URL to the account. */
type Signer = {readonly key: KeyObject; readonly url: string | null};

const maxProblemLength = 500;
const invisible = new RegExp(`[${unprintable}]+`, 'gu');
const maxResponseLength = 256 * 1024;
const maxNonces = 3;
const timeoutMs = 20_000;
/** How often a request is sent in total if it fails temporarily, and the first pause. Each later pause is doubled. */
const [maxAttempts, firstRepeatMs] = [4, 1000];
/**
 * If the CA requests a longer pause, the request fails and a later order retries, because an order lasts five minutes.
 */
const maxRepeatMs = 4 * 60_000;
const maxRetryAfterMs = 30 * 86_400_000;
/** The errors for an account that is closed (RFC 8555 §7.3.6) or lacks permission. */
export const accountProblems: readonly string[] = ['accountDoesNotExist', 'unauthorized'];

export const encode = (bytes: string | Uint8Array): string => Buffer.from(bytes).toString('base64url');
export const asText = (value: unknown): string => (typeof value === 'string' ? value : '');
/** Parses a response. Returns an empty object if it is not a JSON object. */
export const readJson = (response: AcmeResponse): JsonObject => objectOf(parsedJson(response.text));
/** Returns the pause after this many attempts, in milliseconds. */
export const doubled = (firstMs: number, attempts: number): number => firstMs * 2 ** (attempts - 1);

class TooLong extends Error {}

/**
 * Sends signed requests with nonces to one CA (RFC 8555 §6). Requests that fail temporarily are repeated, because a CA
 * consists of many servers, one of which may be restarting or lagging behind. The size of responses and all waits are
 * bounded.
 */
export class AcmeConnection {
	readonly #options: AcmeOptions;
	#directory: Promise<JsonObject> | null = null;
	#nonce = '';

	constructor(options: AcmeOptions) {
		this.#options = options;
	}

	/** Returns a URL from the directory, which is read once. Empty if the directory does not have it. */
	async findUrl(name: string, signal: AbortSignal): Promise<string> {
		this.#directory ??= this.#repeat(signal, async () => {
			const response = await this.#request('GET', this.#options.directory, signal);
			const read = readJson(response);
			if (response.status !== 200 || asText(read.newOrder) === '') {
				const {retryAfterMs, isTransient} = readProblem(response);
				const message = `the CA responded with ${response.status} instead of a directory`;
				throw new AcmeError(message, {retryAfterMs, isTransient});
			}
			return read;
		});
		try {
			return asText((await this.#directory)[name]);
		} catch (error) {
			this.#directory = null;
			throw error;
		}
	}

	/** Sends an unauthenticated GET. It is not repeated, and any status is returned. */
	async get(url: string, signal: AbortSignal): Promise<AcmeResponse> {
		return await this.#request('GET', url, signal);
	}

	/** Posts a signed payload (§6.2), or reads a resource if `null` (§6.3). Rejects with an `AcmeError`. */
	async post(signer: Signer, url: string, payload: JsonObject | null, signal: AbortSignal): Promise<AcmeResponse> {
		return await this.#repeat(signal, () => this.#post(signer, url, payload, signal));
	}

	async pause(ms: number, signal: AbortSignal): Promise<void> {
		await this.#options.pause(ms, signal);
	}

	async #repeat<Result>(signal: AbortSignal, send: () => Promise<Result>): Promise<Result> {
		for (let attempt = 1; ; attempt++) {
			try {
				return await send();
			} catch (error) {
				if (!(error instanceof AcmeError) || !error.isTransient || attempt === maxAttempts || signal.aborted) {
					throw error;
				}
				const pauseMs = Math.max(doubled(firstRepeatMs, attempt), error.retryAfterMs ?? 0);
				if (pauseMs > maxRepeatMs) {
					throw error;
				}
				await this.pause(pauseMs, signal);
			}
		}
	}

	/** Posts a request, and repeats it with a new nonce if the CA rejects an expired one. */
	async #post(signer: Signer, url: string, payload: JsonObject | null, signal: AbortSignal): Promise<AcmeResponse> {
		for (let attempt = 1; ; attempt++) {
			const nonce = await this.#takeNonce(signal);
			const identity = signer.url === null ? {jwk: toJwk(signer.key)} : {kid: signer.url};
			const head = encode(JSON.stringify({alg: 'ES256', ...identity, nonce, url}));
			const body = payload === null ? '' : encode(JSON.stringify(payload));
			const signature = encode(
				sign('sha256', Buffer.from(`${head}.${body}`), {key: signer.key, dsaEncoding: 'ieee-p1363'}),
			);
			const response = await this.#request(
				'POST',
				url,
				signal,
				JSON.stringify({protected: head, payload: body, signature}),
			);
			if (response.status < 400) {
				return response;
			}
			const problem = readProblem(response);
			if (problem.type !== 'badNonce' || attempt === maxNonces) {
				throw problem;
			}
		}
	}

	/** Returns the nonce of the last response, or requests a new one (§7.2). */
	async #takeNonce(signal: AbortSignal): Promise<string> {
		if (this.#nonce === '') {
			const response = await this.#request('HEAD', await this.findUrl('newNonce', signal), signal);
			if (response.status >= 400) {
				throw readProblem(response);
			}
		}
		const nonce = this.#nonce;
		this.#nonce = '';
		return nonce;
	}

	async #request(
		method: 'GET' | 'HEAD' | 'POST',
		url: string,
		signal: AbortSignal,
		body?: string,
	): Promise<AcmeResponse> {
		const {dispatcher, userAgent, now} = this.#options;
		const host = `the CA at ${URL.canParse(url) ? new URL(url).host : 'an invalid URL'}`;
		if (!url.startsWith('https://')) {
			throw new AcmeError(`${host} cannot be used: its URL is not an https URL`);
		}
		const timeout = AbortSignal.timeout(timeoutMs);
		try {
			const {
				statusCode,
				headers,
				body: stream,
			} = await request(url, {
				method,
				dispatcher,
				headers: {'user-agent': userAgent, ...(body && {'content-type': 'application/jose+json'})},
				body: body ?? null,
				signal: AbortSignal.any([signal, timeout]),
			});
			const text = await readBody(stream);
			this.#nonce = asText(headers['replay-nonce']).slice(0, 1000) || this.#nonce;
			return {
				status: statusCode,
				location: asText(headers.location),
				retryAfterMs: parseWait(asText(headers['retry-after']), now()),
				text,
			};
		} catch (error) {
			const reason = timeout.aborted ? `no response within ${timeoutMs / 1000} s` : (error as Error).message;
			throw new AcmeError(`${host} does not respond: ${reason}`, {isTransient: !(error instanceof TooLong)});
		}
	}
}

async function readBody(stream: AsyncIterable<Buffer>): Promise<string> {
	const chunks: Buffer[] = [];
	let size = 0;
	for await (const chunk of stream) {
		size += chunk.length;
		if (size > maxResponseLength) {
			throw new TooLong('the response is too long');
		}
		chunks.push(chunk);
	}
	return Buffer.concat(chunks).toString();
}

/** Returns the error of a response. A rate limit counts as temporary only if the CA specifies when it ends. */
function readProblem(response: AcmeResponse): AcmeError {
	const {status, retryAfterMs} = response;
	const {type, detail} = parseProblem(readJson(response));
	const isTemporary = status === 404 || status === 408 || status >= 500 || (status === 429 && retryAfterMs !== null);
	return new AcmeError(`the CA responded with ${status}: ${detail || type || 'no reason'}`, {
		type,
		retryAfterMs,
		isTransient: isTemporary && !accountProblems.includes(type),
	});
}

export function parseProblem(problem: unknown): {type: string; detail: string} {
	const {type, detail} = objectOf(problem);
	return {type: asText(type).replace(/^.*:/, ''), detail: asText(detail)};
}

/** Parses a `Retry-After` header (RFC 9110 §10.2.3). Returns milliseconds, or `null` if it is invalid. */
export function parseWait(header: string, now: number): number | null {
	const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
	return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), maxRetryAfterMs);
}

/** Returns the public key, with its members in the order of RFC 7638 §3. */
export function toJwk(key: KeyObject): JsonObject {
	const {crv, kty, x, y} = createPublicKey(key).export({format: 'jwk'});
	return {crv, kty, x, y};
}
