import {createHash, createHmac, createPublicKey, type KeyObject, sign} from 'node:crypto';
import {setTimeout} from 'node:timers/promises';
import {type Dispatcher, request} from 'undici';
import {type JsonObject, objectOf, parsedJson} from '../kit/exact-json.ts';
import {unprintable} from '../kit/text.ts';
import type {Challenge, ChallengeType} from '../store/certificates.ts';
import {certificateRequest} from './x509.ts';

type AcmeClientOptions = {
	/** The URL of the CA's directory. */
	readonly directory: string;
	/** Knows whom to trust, and ends what takes too long. */
	readonly dispatcher: Dispatcher;
	readonly userAgent: string;
	readonly now: () => number;
};

/** Who asks: the URL is what the CA calls the account. */
export type Account = {readonly key: KeyObject; readonly url: string};

export type Registration = {
	readonly email: string | null;
	readonly binding: {readonly kid: string; readonly key: Uint8Array} | null;
};

export type Wanted = {
	readonly name: string;
	/** The key of the certificate. */
	readonly key: KeyObject;
	/** How the name is proved, unless the CA offers the other way alone. */
	readonly type: ChallengeType;
	/** What the CA calls the certificate that it replaces (RFC 9773 §5); null: none. */
	readonly replaces: string | null;
	/** Lets a challenge be answered from now on. */
	readonly show: (challenge: Omit<Challenge, 'expires_at'>) => Promise<void>;
	/** The order is given up. */
	readonly signal: AbortSignal;
};

/** Why a CA does not do what it is asked for, for people. */
export class AcmeError extends Error {
	/** The last word of its type (RFC 8555 §6.7); empty: none. */
	readonly type: string;
	/** When it may be asked again, milliseconds from now; null: it does not say. */
	readonly retryAfterMs: number | null;

	constructor(message: string, type = '', retryAfterMs: number | null = null) {
		super(message.replace(invisible, ' ').slice(0, longestFault));
		this.type = type;
		this.retryAfterMs = retryAfterMs;
	}
}

/** When a CA wants a certificate to be renewed, milliseconds, and when it may be asked again. */
export type RenewalWindow = {readonly start: number; readonly end: number; readonly retryAfterMs: number | null};

type Answer = {
	readonly status: number;
	readonly location: string;
	readonly retryAfterMs: number | null;
	readonly text: string;
};

const longestFault = 500;
const invisible = new RegExp(`[${unprintable}]+`, 'gu');
const longestAnswer = 256 * 1024;
const mostNonces = 3;
const askMs = 20_000;
const [firstPollMs, longestPollMs] = [500, 15_000];
/** An order without `replaces` would have these, too; empty: the CA gave no answer, or no reason. */
const lastingFaults = ['', 'rateLimited', 'badNonce', 'accountDoesNotExist'];
const mostAuthorizations = 10;
/** What a CA says of DNS says nothing of a port (RFC 8555 §6.7). */
const noPort: Readonly<Record<string, string>> = {dns: 'cannot look up', caa: 'is not allowed by the CAA records of'};
const ports: Readonly<Record<string, number>> = {'http-01': 80, 'tls-alpn-01': 443};

const encode = (bytes: string | Uint8Array): string => Buffer.from(bytes).toString('base64url');
const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Orders one certificate of a CA (RFC 8555). What the CA says is bounded, and so is each wait. */
export class AcmeClient {
	readonly #options: AcmeClientOptions;
	#directory: Promise<JsonObject> | null = null;
	#nonce = '';

	constructor(options: AcmeClientOptions) {
		this.#options = options;
	}

	/** Makes an account, or finds that of the key (§7.3); answers its URL. */
	async register(key: KeyObject, {email, binding}: Registration, signal: AbortSignal): Promise<string> {
		const url = await this.#urlOf('newAccount');
		const payload = {
			termsOfServiceAgreed: true,
			...(email !== null && {contact: [`mailto:${email}`]}),
			...(binding !== null && {externalAccountBinding: bound(binding, url, key)}),
		};
		return (await this.#post({key, url: null}, url, payload, signal)).location;
	}

	/** Orders a certificate and waits for it; answers its chain (§7.4). Rejects with an AcmeError. */
	async order(account: Account, wanted: Wanted): Promise<string> {
		const {name, key, signal} = wanted;
		const ask = async (url: string) => json(await this.#post(account, url, null, signal));
		const opened = await this.#open(account, wanted);
		const url = opened.location;
		let order = json(opened);
		const authorizations = Array.isArray(order.authorizations) ? order.authorizations.slice(0, mostAuthorizations) : [];
		for (const authorization of authorizations.map(text)) {
			await this.#prove(account, authorization, await ask(authorization), wanted);
		}
		order = await this.#poll(account, url, 'pending', signal);
		if (order.status === 'ready') {
			const csr = encode(certificateRequest(key, name));
			await this.#post(account, text(order.finalize), {csr}, signal);
			order = await this.#poll(account, url, 'processing', signal);
		}
		if (order.status !== 'valid') {
			throw new AcmeError(`the CA ended the order: ${problemOf(order.error).detail || text(order.status)}`);
		}
		return (await this.#post(account, text(order.certificate), null, signal)).text;
	}

	/** When the CA wants a certificate to be renewed (RFC 9773 §4); null: it does not say. */
	async renewalWindow(id: string): Promise<RenewalWindow | null> {
		const base = await this.#urlOf('renewalInfo');
		if (base === '') {
			return null;
		}
		const answer = await this.#ask('GET', `${base.replace(/\/$/, '')}/${id}`);
		return answer.status === 200 ? windowOf(json(answer), answer.retryAfterMs) : null;
	}

	/** A CA may not take what was replaced already, or what another account ordered: then it is a new certificate (RFC 9773 §5). */
	async #open(account: Account, {name, replaces, signal}: Wanted): Promise<Answer> {
		const url = await this.#urlOf('newOrder');
		const send = (more: JsonObject) =>
			this.#post(account, url, {identifiers: [{type: 'dns', value: name}], ...more}, signal);
		if (replaces === null || (await this.#urlOf('renewalInfo')) === '') {
			return await send({});
		}
		try {
			return await send({replaces});
		} catch (error) {
			if (error instanceof AcmeError && !lastingFaults.includes(error.type)) {
				return await send({});
			}
			throw error;
		}
	}

	/** Answers one challenge of an authorization, unless that is valid already (§7.5). */
	async #prove(
		account: Account,
		url: string,
		authorization: JsonObject,
		{name, type, show, signal}: Wanted,
	): Promise<void> {
		if (authorization.status === 'valid') {
			return;
		}
		const offered: JsonObject[] = Array.isArray(authorization.challenges)
			? authorization.challenges.slice(0, mostAuthorizations)
			: [];
		const known = offered.filter(one => Object.hasOwn(ports, text(one?.type)));
		const challenge = known.find(one => one.type === type) ?? known[0];
		const token = text(challenge?.token);
		if (challenge === undefined || !/^[\w-]{16,200}$/.test(token)) {
			throw new AcmeError(`the CA offers neither http-01 nor tls-alpn-01 for ${name}`);
		}
		const way = challenge.type as ChallengeType;
		await show({token, type: way, name, key_authorization: `${token}.${thumbprint(account.key)}`});
		await this.#post(account, text(challenge.url), {}, signal);
		const done = await this.#poll(account, url, 'pending', signal);
		if (done.status !== 'valid') {
			const challenges: JsonObject[] = Array.isArray(done.challenges) ? done.challenges : [];
			const {detail, type: kind} = problemOf(
				challenges.find(one => text(one?.error && problemOf(one.error).type))?.error,
			);
			const what =
				noPort[kind] ?? `${kind === 'connection' ? 'cannot reach' : 'found no proof at'} port ${ports[way]} of`;
			throw new AcmeError(`the CA ${what} ${name}: ${detail || text(done.status)}`, kind);
		}
	}

	/** Asks until it is not `status` any more. */
	async #poll(account: Account, url: string, status: string, signal: AbortSignal): Promise<JsonObject> {
		for (let wait = firstPollMs; ; wait = Math.min(2 * wait, longestPollMs)) {
			const answer = await this.#post(account, url, null, signal);
			const read = json(answer);
			if (read.status !== status) {
				return read;
			}
			await setTimeout(Math.min(Math.max(wait, answer.retryAfterMs ?? 0), longestPollMs), undefined, {signal});
		}
	}

	/** Posts what the account signs (§6.2); null: it only reads (§6.3). A nonce that is not taken any more is replaced. */
	async #post(
		by: {key: KeyObject; url: string | null},
		url: string,
		payload: JsonObject | null,
		signal: AbortSignal,
	): Promise<Answer> {
		for (let tries = 1; ; tries++) {
			if (this.#nonce === '') {
				await this.#ask('HEAD', await this.#urlOf('newNonce'), undefined, signal);
			}
			const nonce = this.#nonce;
			this.#nonce = '';
			const who = by.url === null ? {jwk: jwkOf(by.key)} : {kid: by.url};
			const head = encode(JSON.stringify({alg: 'ES256', ...who, nonce, url}));
			const body = payload === null ? '' : encode(JSON.stringify(payload));
			const signature = encode(
				sign('sha256', Buffer.from(`${head}.${body}`), {key: by.key, dsaEncoding: 'ieee-p1363'}),
			);
			const answer = await this.#ask('POST', url, JSON.stringify({protected: head, payload: body, signature}), signal);
			if (answer.status < 400) {
				return answer;
			}
			const {type, detail} = problemOf(json(answer));
			if (type !== 'badNonce' || tries === mostNonces) {
				throw new AcmeError(
					`the CA answered ${answer.status}: ${detail || type || 'no reason'}`,
					type,
					answer.retryAfterMs,
				);
			}
		}
	}

	/** A URL of the directory, which is read once; empty: it has none. */
	async #urlOf(name: string): Promise<string> {
		this.#directory ??= this.#ask('GET', this.#options.directory).then(answer => {
			const read = json(answer);
			if (answer.status !== 200 || text(read.newOrder) === '') {
				throw new AcmeError(`the CA answered ${answer.status}, and no directory`, '', answer.retryAfterMs);
			}
			return read;
		});
		try {
			return text((await this.#directory)[name]);
		} catch (error) {
			this.#directory = null;
			throw error;
		}
	}

	async #ask(method: 'GET' | 'HEAD' | 'POST', url: string, body?: string, signal?: AbortSignal): Promise<Answer> {
		const {dispatcher, userAgent, now} = this.#options;
		const limit = AbortSignal.timeout(askMs);
		try {
			if (!url.startsWith('https://')) {
				throw new Error('it named no https URL');
			}
			const {
				statusCode,
				headers,
				body: stream,
			} = await request(url, {
				method,
				dispatcher,
				headers: {'user-agent': userAgent, ...(body && {'content-type': 'application/jose+json'})},
				body: body ?? null,
				signal: signal ? AbortSignal.any([signal, limit]) : limit,
			});
			const chunks: Buffer[] = [];
			let size = 0;
			for await (const chunk of stream as AsyncIterable<Buffer>) {
				size += chunk.length;
				if (size > longestAnswer) {
					throw new Error('its answer is too long');
				}
				chunks.push(chunk);
			}
			this.#nonce = text(headers['replay-nonce']).slice(0, 1000) || this.#nonce;
			const retryAfterMs = waitOf(text(headers['retry-after']), now());
			return {
				status: statusCode,
				location: text(headers.location),
				retryAfterMs,
				text: Buffer.concat(chunks).toString(),
			};
		} catch (error) {
			const why = limit.aborted ? `no answer within ${askMs / 1000} s` : (error as Error).message;
			throw new AcmeError(`the CA at ${URL.canParse(url) ? new URL(url).host : 'no address'} gives no answer: ${why}`);
		}
	}
}

/** An object, whatever it is. */
const json = (answer: Answer): JsonObject => objectOf(parsedJson(answer.text));

function problemOf(problem: unknown): {type: string; detail: string} {
	const {type, detail} = objectOf(problem);
	return {type: text(type).replace(/^.*:/, ''), detail: text(detail)};
}

const longestRetryAfterMs = 30 * 86_400_000;

/** Of a `Retry-After` (RFC 9110 §10.2.3), milliseconds; null: there is none. */
export function waitOf(header: string, now: number): number | null {
	const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
	return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), longestRetryAfterMs);
}

/** `suggestedWindow` of what a CA says about renewal; null: it has none. */
export function windowOf({suggestedWindow}: JsonObject, retryAfterMs: number | null): RenewalWindow | null {
	const {start, end} = objectOf(suggestedWindow);
	const [from, until] = [Date.parse(text(start)), Date.parse(text(end))];
	return until > from ? {start: from, end: until, retryAfterMs} : null;
}

/** The public half, its members in the order of RFC 7638 §3. */
function jwkOf(key: KeyObject): JsonObject {
	const {crv, kty, x, y} = createPublicKey(key).export({format: 'jwk'});
	return {crv, kty, x, y};
}

function thumbprint(key: KeyObject): string {
	return createHash('sha256')
		.update(JSON.stringify(jwkOf(key)))
		.digest('base64url');
}

/** Binds the account to one that the CA knows otherwise (§7.3.4). */
function bound({kid, key: secret}: NonNullable<Registration['binding']>, url: string, key: KeyObject): JsonObject {
	const head = encode(JSON.stringify({alg: 'HS256', kid, url}));
	const payload = encode(JSON.stringify(jwkOf(key)));
	const signature = createHmac('sha256', secret).update(`${head}.${payload}`).digest('base64url');
	return {protected: head, payload, signature};
}
