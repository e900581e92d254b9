import {createPublicKey, type KeyObject, sign} from 'node:crypto';
import {type Dispatcher, request} from 'undici';
import {type JsonObject, objectOf, parsedJson} from '../kit/exact-json.ts';
import {unprintable} from '../kit/text.ts';

export type AcmeOptions = {
	/** The URL of the CA's directory. */
	readonly directory: string;
	/** Knows whom to trust, and ends what takes too long. */
	readonly dispatcher: Dispatcher;
	readonly userAgent: string;
	readonly now: () => number;
	/** Waits; rejects as soon as the signal is aborted. */
	readonly pause: (ms: number, signal: AbortSignal) => Promise<unknown>;
};

type AcmeFault = {readonly type?: string; readonly retryAfterMs?: number | null; readonly isTransient?: boolean};

/** Why a CA does not do what it is asked for, for people. */
export class AcmeError extends Error {
	/** The last word of its type (RFC 8555 §6.7); empty: none. */
	readonly type: string;
	/** When it may be asked again, milliseconds from now; null: it does not say. */
	readonly retryAfterMs: number | null;
	/** Whether the same request may succeed in a moment. */
	readonly isTransient: boolean;

	constructor(message: string, {type = '', retryAfterMs = null, isTransient = false}: AcmeFault = {}) {
		super(message.replace(invisible, ' ').slice(0, maxFaultLength));
		this.type = type;
		this.retryAfterMs = retryAfterMs;
		this.isTransient = isTransient;
	}
}

export type Answer = {
	readonly status: number;
	readonly location: string;
	readonly retryAfterMs: number | null;
	readonly text: string;
};

/** Who signs a request; `url` is null until the CA has said what it calls the account. */
type Signer = {readonly key: KeyObject; readonly url: string | null};

const maxFaultLength = 500;
const invisible = new RegExp(`[${unprintable}]+`, 'gu');
const maxAnswerLength = 256 * 1024;
const maxNonces = 3;
const askMs = 20_000;
/** How often a request that fails for a moment is sent in all, and the first pause; each later one is twice as long. */
const [maxTries, firstRepeatMs] = [4, 1000];
/** A CA that asks for a longer pause is asked again by another order: this one ends after five minutes. */
const maxRepeatMs = 4 * 60_000;
const maxRetryAfterMs = 30 * 86_400_000;
/** By these a CA says that the account is no longer one (RFC 8555 §7.3.6), or that it must not do this. */
export const accountFaults: readonly string[] = ['accountDoesNotExist', 'unauthorized'];

export const encode = (bytes: string | Uint8Array): string => Buffer.from(bytes).toString('base64url');
export const asText = (value: unknown): string => (typeof value === 'string' ? value : '');
/** An object, whatever it is. */
export const readJson = (answer: Answer): JsonObject => objectOf(parsedJson(answer.text));
/** How long to wait after so many tries, milliseconds. */
export const doubled = (firstMs: number, tries: number): number => firstMs * 2 ** (tries - 1);

class TooLong extends Error {}

/**
 * Requests to one CA: signed, with nonces (RFC 8555 §6). One that fails for a moment is repeated, for a CA is many
 * servers, one of which may restart or be behind the others. What the CA says is bounded, and so is each wait.
 */
export class AcmeConnection {
	readonly #options: AcmeOptions;
	#directory: Promise<JsonObject> | null = null;
	#nonce = '';

	constructor(options: AcmeOptions) {
		this.#options = options;
	}

	/** A URL of the directory, which is read once; empty: it has none. */
	async urlOf(name: string, signal: AbortSignal): Promise<string> {
		this.#directory ??= this.#repeat(signal, async () => {
			const answer = await this.#ask('GET', this.#options.directory, signal);
			const read = readJson(answer);
			if (answer.status !== 200 || asText(read.newOrder) === '') {
				const {retryAfterMs, isTransient} = readFault(answer);
				throw new AcmeError(`the CA answered ${answer.status}, and no directory`, {retryAfterMs, isTransient});
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

	/** Reads what is no account's. It is not repeated, and may be a refusal. */
	async get(url: string, signal: AbortSignal): Promise<Answer> {
		return await this.#ask('GET', url, signal);
	}

	/** Posts what the account signs (§6.2); null: it only reads (§6.3). Rejects with an AcmeError. */
	async post(by: Signer, url: string, payload: JsonObject | null, signal: AbortSignal): Promise<Answer> {
		return await this.#repeat(signal, () => this.#post(by, url, payload, signal));
	}

	async pause(ms: number, signal: AbortSignal): Promise<void> {
		await this.#options.pause(ms, signal);
	}

	async #repeat<Result>(signal: AbortSignal, send: () => Promise<Result>): Promise<Result> {
		for (let tries = 1; ; tries++) {
			try {
				return await send();
			} catch (error) {
				if (!(error instanceof AcmeError) || !error.isTransient || tries === maxTries || signal.aborted) {
					throw error;
				}
				const pauseMs = Math.max(doubled(firstRepeatMs, tries), error.retryAfterMs ?? 0);
				if (pauseMs > maxRepeatMs) {
					throw error;
				}
				await this.pause(pauseMs, signal);
			}
		}
	}

	/** A nonce that is not taken any more is replaced. */
	async #post(by: Signer, url: string, payload: JsonObject | null, signal: AbortSignal): Promise<Answer> {
		for (let tries = 1; ; tries++) {
			const nonce = await this.#takeNonce(signal);
			const who = by.url === null ? {jwk: jwkOf(by.key)} : {kid: by.url};
			const head = encode(JSON.stringify({alg: 'ES256', ...who, nonce, url}));
			const body = payload === null ? '' : encode(JSON.stringify(payload));
			const signature = encode(
				sign('sha256', Buffer.from(`${head}.${body}`), {key: by.key, dsaEncoding: 'ieee-p1363'}),
			);
			const answer = await this.#ask(
				'POST',
				url,
				signal,
				JSON.stringify({protected: head, payload: body, signature}),
			);
			if (answer.status < 400) {
				return answer;
			}
			const fault = readFault(answer);
			if (fault.type !== 'badNonce' || tries === maxNonces) {
				throw fault;
			}
		}
	}

	/** The nonce of the last answer, or a new one (§7.2). */
	async #takeNonce(signal: AbortSignal): Promise<string> {
		if (this.#nonce === '') {
			const answer = await this.#ask('HEAD', await this.urlOf('newNonce', signal), signal);
			if (answer.status >= 400) {
				throw readFault(answer);
			}
		}
		const nonce = this.#nonce;
		this.#nonce = '';
		return nonce;
	}

	async #ask(method: 'GET' | 'HEAD' | 'POST', url: string, signal: AbortSignal, body?: string): Promise<Answer> {
		const {dispatcher, userAgent, now} = this.#options;
		const host = `the CA at ${URL.canParse(url) ? new URL(url).host : 'no address'}`;
		if (!url.startsWith('https://')) {
			throw new AcmeError(`${host} gives no answer: it named no https URL`);
		}
		const limit = AbortSignal.timeout(askMs);
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
				signal: AbortSignal.any([signal, limit]),
			});
			const text = await readBody(stream);
			this.#nonce = asText(headers['replay-nonce']).slice(0, 1000) || this.#nonce;
			return {
				status: statusCode,
				location: asText(headers.location),
				retryAfterMs: waitOf(asText(headers['retry-after']), now()),
				text,
			};
		} catch (error) {
			const why = limit.aborted ? `no answer within ${askMs / 1000} s` : (error as Error).message;
			throw new AcmeError(`${host} gives no answer: ${why}`, {isTransient: !(error instanceof TooLong)});
		}
	}
}

async function readBody(stream: AsyncIterable<Buffer>): Promise<string> {
	const chunks: Buffer[] = [];
	let size = 0;
	for await (const chunk of stream) {
		size += chunk.length;
		if (size > maxAnswerLength) {
			throw new TooLong('its answer is too long');
		}
		chunks.push(chunk);
	}
	return Buffer.concat(chunks).toString();
}

/** What a refusal says. The end of a limit is waited for where the CA names it. */
function readFault(answer: Answer): AcmeError {
	const {status, retryAfterMs} = answer;
	const {type, detail} = problemOf(readJson(answer));
	const mayPass = status === 404 || status === 408 || status >= 500 || (status === 429 && retryAfterMs !== null);
	return new AcmeError(`the CA answered ${status}: ${detail || type || 'no reason'}`, {
		...{type, retryAfterMs, isTransient: mayPass && !accountFaults.includes(type)},
	});
}

export function problemOf(problem: unknown): {type: string; detail: string} {
	const {type, detail} = objectOf(problem);
	return {type: asText(type).replace(/^.*:/, ''), detail: asText(detail)};
}

/** Of a `Retry-After` (RFC 9110 §10.2.3), milliseconds; null: there is none. */
export function waitOf(header: string, now: number): number | null {
	const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
	return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), maxRetryAfterMs);
}

/** The public half, its members in the order of RFC 7638 §3. */
export function jwkOf(key: KeyObject): JsonObject {
	const {crv, kty, x, y} = createPublicKey(key).export({format: 'jwk'});
	return {crv, kty, x, y};
}
