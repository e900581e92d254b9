import {createHash, createHmac, type KeyObject} from 'node:crypto';
import {type JsonObject, objectOf} from '../../kit/exact-json.ts';
import {
	AcmeConnection,
	AcmeError,
	type AcmeOptions,
	type AcmeResponse,
	accountProblems,
	asText,
	doubled,
	encode,
	parseProblem,
	readJson,
	toJwk,
} from './acme-connection.ts';
import type {Challenge, ChallengeType} from './store.ts';
import {certificateRequest} from './x509.ts';

/** An account at the CA. The CA identifies it by its URL. */
export type Account = {readonly key: KeyObject; readonly url: string};

export type Registration = {
	readonly email: string | null;
	readonly binding: {readonly kid: string; readonly key: Uint8Array} | null;
};

export type OrderRequest = {
	readonly name: string;
	/** The key of the certificate. */
	readonly key: KeyObject;
	/** The challenge types to try, in this order. If the CA offers only another one, that is used. */
	readonly types: readonly [ChallengeType, ...ChallengeType[]];
	/** The CA's identifier of the certificate that it replaces (RFC 9773 §5), or `null`. */
	readonly replaces: string | null;
	/** Publishes the response to a challenge. */
	readonly show: (challenge: Omit<Challenge, 'expires_at'>) => Promise<void>;
	/** Aborts the order. */
	readonly signal: AbortSignal;
};

/** The CA could not validate a challenge. */
class ProofError extends AcmeError {
	readonly challenge: ChallengeType;

	constructor(message: string, type: string, challenge: ChallengeType) {
		super(message, {type});
		this.challenge = challenge;
	}
}

/** When a CA suggests to renew a certificate, and how long to wait before querying this again, in milliseconds. */
export type RenewalWindow = {readonly start: number; readonly end: number; readonly retryAfterMs: number | null};

const [firstPollMs, maxPollMs] = [500, 15_000];
/** The longest pause between polls that a CA can request. */
const maxRequestedMs = 4 * 60_000;
/** If an order is still `ready` after this many polls, the CA has lost the request for its certificate. */
const maxReadyPolls = 5;
/** Errors that do not depend on `replaces`. The empty one means that there was no response, or one without a type. */
const lastingProblems = ['', 'rateLimited', 'badNonce', 'accountDoesNotExist'];
const maxAuthorizations = 10;
/** Errors about DNS (RFC 8555 §6.7), which do not depend on a port. */
const dnsErrors: Record<string, string> = {dns: 'cannot look up', caa: 'is not allowed by the CAA records of'};
const ports: Readonly<Record<string, number>> = {'http-01': 80, 'tls-alpn-01': 443};

/**
 * Orders certificates from a CA, one at a time (RFC 8555). `src/resources/certificates` holds the ACME client, the rules for
 * which names get a certificate and when it is renewed, and the X.509 encoding. It relies on `node:crypto` and undici.
 * It never touches the store and runs no timers: the daemon decides when to order.
 */
export class AcmeClient {
	readonly #ca: AcmeConnection;

	constructor(options: AcmeOptions) {
		this.#ca = new AcmeConnection(options);
	}

	/** Creates an account, or finds the one of the key (§7.3). Returns its URL. */
	async register(key: KeyObject, {email, binding}: Registration, signal: AbortSignal): Promise<string> {
		const url = await this.#ca.findUrl('newAccount', signal);
		const payload = {
			termsOfServiceAgreed: true,
			...(email !== null && {contact: toContacts(email)}),
			...(binding !== null && {externalAccountBinding: bind(binding, url, key)}),
		};
		return (await this.#ca.post({key, url: null}, url, payload, signal)).location;
	}

	/** Changes the operator's address at the CA (§7.3.2), or removes it if `null`. */
	async updateContact(account: Account, email: string | null, signal: AbortSignal): Promise<void> {
		await this.#ca.post(account, account.url, {contact: toContacts(email)}, signal);
	}

	/** Whether an order failed because the CA has closed or does not know the account (§7.3.6). */
	async isClosed(account: Account, problem: AcmeError, signal: AbortSignal): Promise<boolean> {
		if (problem instanceof ProofError || !accountProblems.includes(problem.type)) {
			return false;
		}
		try {
			// `unauthorized` can also mean that a valid account may not do something, so check its status.
			const {status} = readJson(await this.#ca.post(account, account.url, null, signal));
			return status === 'deactivated' || status === 'revoked';
		} catch (error) {
			return error instanceof AcmeError && accountProblems.includes(error.type);
		}
	}

	/**
	 * Orders a certificate, waits for it, and returns its chain (§7.4). If one challenge type fails, the next one is
	 * tried. Rejects with an `AcmeError`.
	 */
	async order(account: Account, request: OrderRequest): Promise<string> {
		const [type, ...otherTypes] = request.types;
		try {
			return await this.#orderBy(type, account, request);
		} catch (error) {
			const dependsOnPort = error instanceof ProofError && !Object.hasOwn(dnsErrors, error.type);
			const [next, ...rest] = dependsOnPort ? otherTypes.filter(other => other !== error.challenge) : [];
			if (!dependsOnPort || next === undefined) {
				throw error;
			}
			return await this.order(account, {...request, types: [next, ...rest]}).catch(later => {
				throw later instanceof AcmeError ? new AcmeError(`${error.message}; ${later.message}`, later) : later;
			});
		}
	}

	/**
	 * Orders with one challenge type. Each type needs its own order, because a failed authorization ends it (§7.1.6).
	 */
	async #orderBy(type: ChallengeType, account: Account, request: OrderRequest): Promise<string> {
		const opened = await this.#open(account, request);
		const {authorizations} = readJson(opened);
		const listed = Array.isArray(authorizations) ? authorizations.slice(0, maxAuthorizations) : [];
		for (const authorization of listed.map(asText)) {
			await this.#prove(type, account, authorization, request);
		}
		const order = await this.#finish(account, opened.location, request);
		if (order.status !== 'valid') {
			throw new AcmeError(
				`the CA rejected the order: ${parseProblem(order.error).detail || asText(order.status)}`,
			);
		}
		return (await this.#ca.post(account, asText(order.certificate), null, request.signal)).text;
	}

	/** Returns when the CA suggests to renew a certificate (RFC 9773 §4), or `null` if it does not. */
	async renewalWindow(id: string, signal: AbortSignal): Promise<RenewalWindow | null> {
		const base = await this.#ca.findUrl('renewalInfo', signal);
		if (base === '') {
			return null;
		}
		const response = await this.#ca.get(`${base.replace(/\/$/, '')}/${id}`, signal);
		return response.status === 200 ? parseWindow(readJson(response), response.retryAfterMs) : null;
	}

	/**
	 * Creates an order. A CA may reject `replaces` if the certificate was already replaced or belongs to another
	 * account (RFC 9773 §5). Then the order is created without it.
	 */
	async #open(account: Account, {name, replaces, signal}: OrderRequest): Promise<AcmeResponse> {
		const url = await this.#ca.findUrl('newOrder', signal);
		const send = (extra: JsonObject) =>
			this.#ca.post(account, url, {identifiers: [{type: 'dns', value: name}], ...extra}, signal);
		if (replaces === null || (await this.#ca.findUrl('renewalInfo', signal)) === '') {
			return await send({});
		}
		try {
			return await send({replaces});
		} catch (error) {
			if (error instanceof AcmeError && !error.isTransient && !lastingProblems.includes(error.type)) {
				return await send({});
			}
			throw error;
		}
	}

	/** Completes one challenge of an authorization, unless it is already valid (§7.5). */
	async #prove(
		type: ChallengeType,
		account: Account,
		url: string,
		{name, show, signal}: OrderRequest,
	): Promise<void> {
		const authorization = readJson(await this.#ca.post(account, url, null, signal));
		if (authorization.status === 'valid') {
			return;
		}
		const supported = readChallenges(authorization).filter(offered => Object.hasOwn(ports, asText(offered.type)));
		const challenge = supported.find(offered => offered.type === type) ?? supported[0];
		const token = asText(challenge?.token);
		if (challenge === undefined || !/^[\w-]{16,200}$/.test(token)) {
			throw new AcmeError(`the CA offers neither http-01 nor tls-alpn-01 for ${name}`);
		}
		const challengeType = challenge.type as ChallengeType;
		await show({token, type: challengeType, name, key_authorization: `${token}.${thumbprint(account.key)}`});
		await this.#requestValidation(account, url, asText(challenge.url), signal);
		const validated = await this.#poll(account, url, status => status === 'pending', signal);
		if (validated.status !== 'valid') {
			const failed = readChallenges(validated).find(({error}) => parseProblem(error).type !== '');
			const {detail, type: errorType} = parseProblem(failed?.error);
			const failure =
				dnsErrors[errorType] ??
				`${errorType === 'connection' ? 'cannot reach' : 'found no proof at'} port ${ports[challengeType]} of`;
			const message = `the CA ${failure} ${name}: ${detail || asText(validated.status)}`;
			throw new ProofError(message, errorType, challengeType);
		}
	}

	/**
	 * Asks the CA to validate a challenge (§7.5.1). If a response was lost and the request is repeated, the CA may
	 * reject the repetition although it is already validating.
	 */
	async #requestValidation(account: Account, authorization: string, url: string, signal: AbortSignal): Promise<void> {
		try {
			await this.#ca.post(account, url, {}, signal);
		} catch (error) {
			if (!(error instanceof AcmeError) || error.isTransient) {
				throw error;
			}
			const read = readJson(await this.#ca.post(account, authorization, null, signal));
			const challenge = readChallenges(read).find(listed => listed.url === url);
			if (read.status === 'pending' && challenge?.status !== 'processing') {
				throw error;
			}
		}
	}

	/** Requests the certificate and polls the order until it is complete (§7.4). */
	async #finish(account: Account, url: string, {name, key, signal}: OrderRequest): Promise<JsonObject> {
		let order = await this.#poll(account, url, status => status === 'pending', signal);
		const csr = encode(certificateRequest(key, name));
		for (let attempt = 1; order.status === 'ready'; attempt++) {
			const pauseMs = await this.#finalize(account, asText(order.finalize), csr, signal);
			if (pauseMs !== null) {
				await this.#pause(doubled(2 * firstPollMs, attempt), pauseMs, signal);
			}
			// The servers of the CA may temporarily disagree on the status of the order.
			const isUnderWay = (status: unknown, polls: number) =>
				status === 'pending' ||
				status === 'processing' ||
				(status === 'ready' && pauseMs === null && polls < maxReadyPolls);
			order = await this.#poll(account, url, isUnderWay, signal);
		}
		return order;
	}

	/**
	 * Sends the certificate request. Returns `null` if the CA accepted it. If the CA reports that the order is not
	 * ready, returns the milliseconds to wait; it may have accepted an earlier request whose response was lost.
	 */
	async #finalize(account: Account, url: string, csr: string, signal: AbortSignal): Promise<number | null> {
		try {
			await this.#ca.post(account, url, {csr}, signal);
			return null;
		} catch (error) {
			if (error instanceof AcmeError && error.type === 'orderNotReady') {
				return error.retryAfterMs ?? 0;
			}
			throw error;
		}
	}

	/** Polls a URL for as long as `isUnderWay` returns `true`. `polls` is the number of requests so far. */
	async #poll(
		account: Account,
		url: string,
		isUnderWay: (status: unknown, polls: number) => boolean,
		signal: AbortSignal,
	): Promise<JsonObject> {
		for (let polls = 1; ; polls++) {
			const response = await this.#ca.post(account, url, null, signal);
			const read = readJson(response);
			if (!isUnderWay(read.status, polls)) {
				return read;
			}
			await this.#pause(doubled(firstPollMs, polls), response.retryAfterMs ?? 0, signal);
		}
	}

	/** Waits before the next poll, for our own interval or the one that the CA requests, whichever is longer. */
	async #pause(ownMs: number, requestedMs: number, signal: AbortSignal): Promise<void> {
		await this.#ca.pause(Math.max(Math.min(ownMs, maxPollMs), Math.min(requestedMs, maxRequestedMs)), signal);
	}
}

const toContacts = (email: string | null): readonly string[] => (email === null ? [] : [`mailto:${email}`]);

const readChallenges = ({challenges}: JsonObject): readonly JsonObject[] =>
	Array.isArray(challenges) ? challenges.slice(0, maxAuthorizations).map(objectOf) : [];

/** Returns the `suggestedWindow` of a CA's renewal information, or `null` if it has none. */
export function parseWindow({suggestedWindow}: JsonObject, retryAfterMs: number | null): RenewalWindow | null {
	const {start, end} = objectOf(suggestedWindow);
	const [from, until] = [Date.parse(asText(start)), Date.parse(asText(end))];
	return until > from ? {start: from, end: until, retryAfterMs} : null;
}

function thumbprint(key: KeyObject): string {
	return createHash('sha256')
		.update(JSON.stringify(toJwk(key)))
		.digest('base64url');
}

/** Creates the external account binding, which links the account to an existing customer of the CA (§7.3.4). */
function bind({kid, key: secret}: NonNullable<Registration['binding']>, url: string, key: KeyObject): JsonObject {
	const head = encode(JSON.stringify({alg: 'HS256', kid, url}));
	const payload = encode(JSON.stringify(toJwk(key)));
	const signature = createHmac('sha256', secret).update(`${head}.${payload}`).digest('base64url');
	return {protected: head, payload, signature};
}
