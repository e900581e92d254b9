import {createHash, createHmac, type KeyObject} from 'node:crypto';
import {type JsonObject, objectOf} from '../kit/exact-json.ts';
import type {Challenge, ChallengeType} from '../store/certificates.ts';
import {
	AcmeConnection,
	AcmeError,
	type AcmeOptions,
	type Answer,
	accountFaults,
	asText,
	doubled,
	encode,
	jwkOf,
	problemOf,
	readJson,
} from './acme-connection.ts';
import {certificateRequest} from './x509.ts';

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
	/** How the name may be proved, in the order in which it is tried, unless the CA offers another way alone. */
	readonly types: readonly [ChallengeType, ...ChallengeType[]];
	/** What the CA calls the certificate that it replaces (RFC 9773 §5); null: none. */
	readonly replaces: string | null;
	/** Lets a challenge be answered from now on. */
	readonly show: (challenge: Omit<Challenge, 'expires_at'>) => Promise<void>;
	/** The order is given up. */
	readonly signal: AbortSignal;
};

/** The CA looked for the proof of a name and did not find it. */
class ProofError extends AcmeError {
	readonly challenge: ChallengeType;

	constructor(message: string, type: string, challenge: ChallengeType) {
		super(message, {type});
		this.challenge = challenge;
	}
}

/** When a CA wants a certificate to be renewed, milliseconds, and when it may be asked again. */
export type RenewalWindow = {readonly start: number; readonly end: number; readonly retryAfterMs: number | null};

const [firstPollMs, maxPollMs] = [500, 15_000];
/** The longest pause before the next poll that a CA may ask for. */
const maxRequestedMs = 4 * 60_000;
/** An order that is still `ready` after so many polls has lost the request for its certificate. */
const maxReadyPolls = 5;
/** An order without `replaces` would have these, too; empty: the CA gave no answer, or no reason. */
const lastingFaults = ['', 'rateLimited', 'badNonce', 'accountDoesNotExist'];
const maxAuthorizations = 10;
/** What a CA says of DNS says nothing of a port (RFC 8555 §6.7). */
const noPort: Readonly<Record<string, string>> = {dns: 'cannot look up', caa: 'is not allowed by the CAA records of'};
const ports: Readonly<Record<string, number>> = {'http-01': 80, 'tls-alpn-01': 443};

/** Orders certificates of a CA, one after the other (RFC 8555). */
export class AcmeClient {
	readonly #ca: AcmeConnection;

	constructor(options: AcmeOptions) {
		this.#ca = new AcmeConnection(options);
	}

	/** Makes an account, or finds that of the key (§7.3); answers its URL. */
	async register(key: KeyObject, {email, binding}: Registration, signal: AbortSignal): Promise<string> {
		const url = await this.#ca.urlOf('newAccount', signal);
		const payload = {
			termsOfServiceAgreed: true,
			...(email !== null && {contact: toContacts(email)}),
			...(binding !== null && {externalAccountBinding: bound(binding, url, key)}),
		};
		return (await this.#ca.post({key, url: null}, url, payload, signal)).location;
	}

	/** Tells the CA another address of the operator (§7.3.2); null: there is none any more. */
	async updateContact(account: Account, email: string | null, signal: AbortSignal): Promise<void> {
		await this.#ca.post(account, account.url, {contact: toContacts(email)}, signal);
	}

	/** Whether an order failed because the CA has closed the account, or does not know it (§7.3.6). */
	async isClosed(account: Account, fault: AcmeError, signal: AbortSignal): Promise<boolean> {
		if (fault instanceof ProofError || !accountFaults.includes(fault.type)) {
			return false;
		}
		try {
			// What an account in good standing must not do is `unauthorized`, too.
			const {status} = readJson(await this.#ca.post(account, account.url, null, signal));
			return status === 'deactivated' || status === 'revoked';
		} catch (error) {
			return error instanceof AcmeError && accountFaults.includes(error.type);
		}
	}

	/**
	 * Orders a certificate and waits for it; answers its chain (§7.4). A name that cannot be proved in one way is
	 * proved in the next. Rejects with an AcmeError.
	 */
	async order(account: Account, wanted: Wanted): Promise<string> {
		const [type, ...others] = wanted.types;
		try {
			return await this.#orderBy(type, account, wanted);
		} catch (error) {
			const isOfPort = error instanceof ProofError && !Object.hasOwn(noPort, error.type);
			const [next, ...rest] = isOfPort ? others.filter(other => other !== error.challenge) : [];
			if (!isOfPort || next === undefined) {
				throw error;
			}
			return await this.order(account, {...wanted, types: [next, ...rest]}).catch(later => {
				throw later instanceof AcmeError ? new AcmeError(`${error.message}; ${later.message}`, later) : later;
			});
		}
	}

	/** An order ends with an authorization that fails (§7.1.6): each way to prove the name has one of its own. */
	async #orderBy(type: ChallengeType, account: Account, wanted: Wanted): Promise<string> {
		const opened = await this.#open(account, wanted);
		const {authorizations} = readJson(opened);
		const listed = Array.isArray(authorizations) ? authorizations.slice(0, maxAuthorizations) : [];
		for (const authorization of listed.map(asText)) {
			await this.#prove(type, account, authorization, wanted);
		}
		const order = await this.#finish(account, opened.location, wanted);
		if (order.status !== 'valid') {
			throw new AcmeError(`the CA ended the order: ${problemOf(order.error).detail || asText(order.status)}`);
		}
		return (await this.#ca.post(account, asText(order.certificate), null, wanted.signal)).text;
	}

	/** When the CA wants a certificate to be renewed (RFC 9773 §4); null: it does not say. */
	async renewalWindow(id: string, signal: AbortSignal): Promise<RenewalWindow | null> {
		const base = await this.#ca.urlOf('renewalInfo', signal);
		if (base === '') {
			return null;
		}
		const answer = await this.#ca.get(`${base.replace(/\/$/, '')}/${id}`, signal);
		return answer.status === 200 ? windowOf(readJson(answer), answer.retryAfterMs) : null;
	}

	/**
	 * A CA may not take what was replaced already, or what another account ordered: then it is a new certificate (RFC
	 * 9773 §5).
	 */
	async #open(account: Account, {name, replaces, signal}: Wanted): Promise<Answer> {
		const url = await this.#ca.urlOf('newOrder', signal);
		const send = (more: JsonObject) =>
			this.#ca.post(account, url, {identifiers: [{type: 'dns', value: name}], ...more}, signal);
		if (replaces === null || (await this.#ca.urlOf('renewalInfo', signal)) === '') {
			return await send({});
		}
		try {
			return await send({replaces});
		} catch (error) {
			if (error instanceof AcmeError && !error.isTransient && !lastingFaults.includes(error.type)) {
				return await send({});
			}
			throw error;
		}
	}

	/** Answers one challenge of an authorization, unless that is valid already (§7.5). */
	async #prove(type: ChallengeType, account: Account, url: string, {name, show, signal}: Wanted): Promise<void> {
		const authorization = readJson(await this.#ca.post(account, url, null, signal));
		if (authorization.status === 'valid') {
			return;
		}
		const known = readChallenges(authorization).filter(one => Object.hasOwn(ports, asText(one.type)));
		const challenge = known.find(one => one.type === type) ?? known[0];
		const token = asText(challenge?.token);
		if (challenge === undefined || !/^[\w-]{16,200}$/.test(token)) {
			throw new AcmeError(`the CA offers neither http-01 nor tls-alpn-01 for ${name}`);
		}
		const way = challenge.type as ChallengeType;
		await show({token, type: way, name, key_authorization: `${token}.${thumbprint(account.key)}`});
		await this.#answer(account, url, asText(challenge.url), signal);
		const done = await this.#poll(account, url, status => status === 'pending', signal);
		if (done.status !== 'valid') {
			const failed = readChallenges(done).find(one => problemOf(one.error).type !== '');
			const {detail, type: kind} = problemOf(failed?.error);
			const what =
				noPort[kind] ?? `${kind === 'connection' ? 'cannot reach' : 'found no proof at'} port ${ports[way]} of`;
			throw new ProofError(`the CA ${what} ${name}: ${detail || asText(done.status)}`, kind, way);
		}
	}

	/**
	 * Has the CA look for the proof (§7.5.1). Asked twice, because an answer was lost, it may refuse and look all the
	 * same.
	 */
	async #answer(account: Account, authorization: string, url: string, signal: AbortSignal): Promise<void> {
		try {
			await this.#ca.post(account, url, {}, signal);
		} catch (error) {
			if (!(error instanceof AcmeError) || error.isTransient) {
				throw error;
			}
			const read = readJson(await this.#ca.post(account, authorization, null, signal));
			const challenge = readChallenges(read).find(one => one.url === url);
			if (read.status === 'pending' && challenge?.status !== 'processing') {
				throw error;
			}
		}
	}

	/** Asks for the certificate, and polls the order until it has ended (§7.4). */
	async #finish(account: Account, url: string, {name, key, signal}: Wanted): Promise<JsonObject> {
		let order = await this.#poll(account, url, status => status === 'pending', signal);
		const csr = encode(certificateRequest(key, name));
		for (let tries = 1; order.status === 'ready'; tries++) {
			const pauseMs = await this.#finalize(account, asText(order.finalize), csr, signal);
			if (pauseMs !== null) {
				await this.#pause(doubled(2 * firstPollMs, tries), pauseMs, signal);
			}
			// The servers of the CA may disagree for a while on how far the order is.
			const isUnderWay = (status: unknown, polls: number) =>
				status === 'pending' ||
				status === 'processing' ||
				(status === 'ready' && pauseMs === null && polls < maxReadyPolls);
			order = await this.#poll(account, url, isUnderWay, signal);
		}
		return order;
	}

	/**
	 * Null: the CA has the request. A number: it says that the order is not ready, and to come back after these
	 * milliseconds; but it may have the request too, and only its answer was lost.
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

	/** Asks until it is not under way any more; `polls`: how often it was asked. */
	async #poll(
		account: Account,
		url: string,
		isUnderWay: (status: unknown, polls: number) => boolean,
		signal: AbortSignal,
	): Promise<JsonObject> {
		for (let polls = 1; ; polls++) {
			const answer = await this.#ca.post(account, url, null, signal);
			const read = readJson(answer);
			if (!isUnderWay(read.status, polls)) {
				return read;
			}
			await this.#pause(doubled(firstPollMs, polls), answer.retryAfterMs ?? 0, signal);
		}
	}

	/** Waits before the next poll, as long as we would or as the CA asks. */
	async #pause(ownMs: number, askedMs: number, signal: AbortSignal): Promise<void> {
		await this.#ca.pause(Math.max(Math.min(ownMs, maxPollMs), Math.min(askedMs, maxRequestedMs)), signal);
	}
}

const toContacts = (email: string | null): readonly string[] => (email === null ? [] : [`mailto:${email}`]);

const readChallenges = ({challenges}: JsonObject): readonly JsonObject[] =>
	Array.isArray(challenges) ? challenges.slice(0, maxAuthorizations).map(objectOf) : [];

/** `suggestedWindow` of what a CA says about renewal; null: it has none. */
export function windowOf({suggestedWindow}: JsonObject, retryAfterMs: number | null): RenewalWindow | null {
	const {start, end} = objectOf(suggestedWindow);
	const [from, until] = [Date.parse(asText(start)), Date.parse(asText(end))];
	return until > from ? {start: from, end: until, retryAfterMs} : null;
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
