import {request} from 'node:https';
import {isIP} from 'node:net';
import type {SecureContext} from 'node:tls';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';
import {storeTime} from '../kit/time.ts';
import {type TlsFailure, withoutAdvice} from '../mail/outcome.ts';
import type {MtaSts} from '../mail/route.ts';
import type {Resolver} from '../net/dns.ts';
import {isPublicAddress} from '../net/ip-address.ts';
import {connectPinned, findAddresses} from '../net/pinned-connection.ts';
import type {StoredPolicy} from '../resources/domains/tls-store.ts';

/** An announced policy that could not be fetched. `hasValidPolicy` is true if an older one still applies. */
export type PolicyFailure = {
	readonly domain: string;
	readonly failure: TlsFailure;
	readonly reason: string;
	readonly hasValidPolicy: boolean;
};

type StsPoliciesOptions = {
	readonly resolver: Pick<Resolver, 'txt'>;
	/** Never rejects. */
	readonly fetch: (domain: string) => Promise<Fetched>;
	/** Returns the stored policy. Rejects if the store cannot be read. */
	readonly read: (domain: string) => Promise<StoredPolicy | null>;
	/** Must not reject. */
	readonly save: (policy: StoredPolicy) => Promise<void>;
	readonly observer: {readonly policyFailed: (failure: PolicyFailure) => void};
	readonly clock: Clock;
	/** The maximum time that a message waits for a policy, in milliseconds; 10 s by default. */
	readonly holdMs?: number;
};

const defaultHoldMs = 10_000;
/** How often a domain's announcement is looked up in DNS, and a failed fetch is retried. */
const checkEveryMs = 5 * 60_000;
/** RFC 8461 §3.3: about once a day, so that blocking the policy host for a while does not make a policy expire. */
const refreshAfterMs = 86_400_000;
const maxDomains = 20_000;

type Known = {readonly policy: StoredPolicy | null; readonly checkAgainAt: number};

/**
 * The MTA-STS policies of recipients' domains: discovered, fetched, stored and renewed (RFC 8461 §3.3, §5.1).
 *
 * This is the main class of the folder, whose other file creates the policy of this installation. It relies on the
 * resolver, fetcher and store access passed in. It never delays a message beyond `holdMs`, and it never drops a valid
 * policy before that expires, whatever DNS or the policy host returns.
 */
export class StsPolicies {
	readonly #options: StsPoliciesOptions;
	readonly #known = new LRUCache<string, Known>(atMost(maxDomains));
	readonly #pending = new Map<string, Promise<StoredPolicy | null>>();

	constructor(options: StsPoliciesOptions) {
		this.#options = options;
	}

	/**
	 * Returns a domain's policy, or `null` if it has none or none is available now. Rejects if the store cannot be
	 * read.
	 */
	async policyFor(domain: string): Promise<MtaSts | null> {
		const known = this.#known.get(domain);
		const isFresh = known !== undefined && known.checkAgainAt > this.#options.clock.monotonic();
		const policy = isFresh ? known.policy : await (this.#pending.get(domain) ?? this.#renewOnce(domain));
		return policy === null || policy.mode === 'none' || !this.#isLive(policy)
			? null
			: {mode: policy.mode, mx: policy.mx};
	}

	/** Shares one renewal among all callers. A message that has waited for `holdMs` continues with the known policy. */
	#renewOnce(domain: string): Promise<StoredPolicy | null> {
		let current: StoredPolicy | null = null;
		const renewed = this.#renew(domain, policy => {
			current = policy;
		});
		const bounded = new Promise<StoredPolicy | null>((resolve, reject) => {
			const timer = setTimeout(() => resolve(current), this.#options.holdMs ?? defaultHoldMs);
			renewed.then(resolve, reject).finally(() => clearTimeout(timer));
		});
		this.#pending.set(domain, bounded);
		const forget = () => this.#pending.delete(domain);
		void renewed.then(forget, forget);
		return bounded;
	}

	/**
	 * Looks up the announced id and fetches the policy if it is new. `onCurrent` gets the policy that applies until
	 * then.
	 */
	async #renew(domain: string, onCurrent: (policy: StoredPolicy | null) => void): Promise<StoredPolicy | null> {
		const stored = this.#known.get(domain)?.policy ?? (await this.#options.read(domain));
		const current = stored !== null && this.#isLive(stored) ? stored : null;
		onCurrent(current);
		const response = await this.#options.resolver.txt(`_mta-sts.${domain}`);
		const id = response.kind === 'found' ? announcedId(response.records) : null;
		// A policy applies until it expires, even if it is no longer announced (§5.1).
		if (id !== null && current?.policyId !== id) {
			return await this.#fetchNew(domain, id, current);
		}
		this.#remember(domain, current);
		if (id !== null && current !== null && this.#isDue(current)) {
			void this.#fetchNew(domain, id, current); // No message waits for this.
		}
		return current;
	}

	async #fetchNew(domain: string, id: string, current: StoredPolicy | null): Promise<StoredPolicy | null> {
		const {fetch, observer, clock, save} = this.#options;
		const fetched = await fetch(domain);
		if (!fetched.ok) {
			const {failure, reason} = fetched;
			observer.policyFailed({domain, failure, reason, hasValidPolicy: current !== null});
			this.#remember(domain, current);
			return current;
		}
		const {mode, mx, maxAge} = fetched.policy;
		const now = clock.now();
		const policy: StoredPolicy = {
			domain,
			policyId: id,
			mode,
			mx,
			fetchedAt: storeTime(now),
			expiresAt: storeTime(now + maxAge * 1000),
		};
		this.#remember(domain, policy);
		await save(policy);
		return policy;
	}

	#remember(domain: string, policy: StoredPolicy | null): void {
		this.#known.set(domain, {policy, checkAgainAt: this.#options.clock.monotonic() + checkEveryMs});
	}

	#isLive({expiresAt}: StoredPolicy): boolean {
		return expiresAt > storeTime(this.#options.clock.now());
	}

	/** Whether the policy is due for renewal: after a day, or after half of its lifetime if that is shorter. */
	#isDue({fetchedAt, expiresAt}: StoredPolicy): boolean {
		const fetched = Date.parse(fetchedAt);
		return this.#options.clock.now() - fetched > Math.min(refreshAfterMs, (Date.parse(expiresAt) - fetched) / 2);
	}
}

type Fetched =
	| {readonly ok: true; readonly policy: StsPolicy}
	/** The failure as RFC 8460 §4.3.2.2 names it, and as a sentence. */
	| {readonly ok: false; readonly failure: TlsFailure; readonly reason: string};

type FetchOptions = {
	readonly resolver: Pick<Resolver, 'a' | 'aaaa'>;
	readonly port: number;
	/** For test labs: also allows addresses that are not public. */
	readonly allowPrivate: boolean;
	readonly secureContext: SecureContext;
	readonly userAgent: string;
	/** The time limit from the lookup to the last octet, in milliseconds. */
	readonly limitMs: number;
};

const maxPolicyLength = 64 * 1024;
/** Error codes of OpenSSL and Node that mean an invalid certificate. */
const certificateCode = /CERT|ISSUER|SIGNATURE|CHAIN|ERR_TLS_CERT/;

/**
 * Fetches `https://mta-sts.<domain>/.well-known/mta-sts.txt` (RFC 8461 §3.3), verifying the certificate, without
 * redirects, up to 64 KiB. The name is resolved here, and the connection uses only the addresses checked. Never
 * rejects.
 */
export async function fetchPolicy(domain: string, options: FetchOptions): Promise<Fetched> {
	const host = `mta-sts.${domain}`;
	const signal = AbortSignal.timeout(options.limitMs);
	try {
		const text = await withLimit(signal, async () =>
			get(host, await checkedAddresses(host, options), signal, options),
		);
		const policy = parsePolicy(text);
		return 'problem' in policy
			? failed('sts-policy-invalid', `the policy at ${host} is not valid: ${policy.problem}`)
			: {ok: true, policy};
	} catch (error) {
		if (signal.aborted) {
			return failed(
				'sts-policy-fetch-error',
				`${host} did not return a policy within ${options.limitMs / 1000} s`,
			);
		}
		const {code = '', message, failure} = error as NodeJS.ErrnoException & {failure?: TlsFailure};
		const inferred = certificateCode.test(code) ? 'sts-webpki-invalid' : 'sts-policy-fetch-error';
		return failed(failure ?? inferred, `${host}: ${withoutAdvice(message)}`);
	}
}

function failed(failure: TlsFailure, reason: string): Fetched {
	return {ok: false, failure, reason};
}

/** Applies the time limit to all the work, including the DNS lookup, which cannot be canceled by a signal. */
function withLimit<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
	return new Promise((resolve, reject) => {
		signal.addEventListener('abort', () => reject(signal.reason), {once: true});
		work().then(resolve, reject);
	});
}

async function checkedAddresses(host: string, {resolver, allowPrivate}: FetchOptions): Promise<readonly string[]> {
	const lookup = await findAddresses(host, resolver, false);
	if (lookup.kind !== 'found') {
		throw new Error(
			lookup.kind === 'failed' ? `its DNS lookup failed: ${lookup.code}` : 'it has no address in DNS',
		);
	}

	const refused = allowPrivate ? undefined : lookup.addresses.find(address => !isPublicAddress(address));
	if (refused !== undefined) {
		throw new Error(`it has the address ${refused}, which is not public`);
	}

	return lookup.addresses;
}

function get(
	host: string,
	addresses: readonly string[],
	signal: AbortSignal,
	{port, secureContext, userAgent}: FetchOptions,
): Promise<string> {
	return new Promise((resolve, reject) => {
		const clientRequest = request({
			host,
			port,
			path: '/.well-known/mta-sts.txt',
			headers: {'user-agent': userAgent, accept: 'text/plain'},
			createConnection: () => connectPinned({host, port, addresses}, secureContext),
			maxHeaderSize: 16_384,
			signal,
		});
		clientRequest.on('error', reject);
		clientRequest.on('response', response => {
			const refuse = (message: string, failure: TlsFailure) => {
				reject(Object.assign(new Error(message), {failure}));
				clientRequest.destroy();
			};
			const type = response.headers['content-type'] ?? '';
			if (response.statusCode !== 200) {
				refuse(`it responded with status ${response.statusCode}`, 'sts-policy-fetch-error');
				return;
			}

			// RFC 8461 §3.2: people who may upload files to a web server can rarely choose this type, so they cannot
			// publish a policy.
			if (!/^text\/plain[ \t]*(;|$)/i.test(type)) {
				refuse('its policy is not text/plain', 'sts-policy-invalid');
				return;
			}

			const chunks: Buffer[] = [];
			let size = 0;
			response.on('data', (chunk: Buffer) => {
				size += chunk.length;
				chunks.push(chunk);
				if (size > maxPolicyLength) {
					refuse('its policy is longer than 64 KiB', 'sts-policy-invalid');
				}
			});
			response.on('error', reject);
			response.on('end', () => resolve(Buffer.concat(chunks).toString('utf8')));
		});
		clientRequest.end();
	});
}

type StsPolicy = {
	readonly mode: 'enforce' | 'testing' | 'none';
	/** Host names and `*.` patterns, in lower case. */
	readonly mx: readonly string[];
	/** In seconds. */
	readonly maxAge: number;
};

const policyField = /^([a-zA-Z0-9][a-zA-Z0-9_.-]{0,31}):(.*)$/;
const modes: ReadonlyMap<string, StsPolicy['mode']> = new Map([
	['enforce', 'enforce'],
	['testing', 'testing'],
	['none', 'none'],
]);
const mxPattern = /^(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const maxPolicyAge = 31_557_600;
/** Limited, because each delivery carries a copy of the policy. */
const maxPatterns = 100;

/**
 * Parses a policy (RFC 8461 §3.2), or returns the error. Ignores unknown fields, lines that are not fields, and `mx`
 * values that are not host names, so that after a typo in one line the policy still protects the other hosts.
 */
export function parsePolicy(text: string): StsPolicy | {readonly problem: string} {
	const fields = new Map<string, string>();
	const mx: string[] = [];
	for (const line of text.split(/\r?\n/)) {
		const [, name = '', rest = ''] = policyField.exec(line) ?? [];
		const value = rest.trim();
		if (name === 'mx') {
			const pattern = value.toLowerCase().replace(/\.$/, '');
			if (mxPattern.test(pattern) && pattern.length <= 253 && isIP(pattern) === 0) {
				mx.push(pattern);
			}
		} else if (!fields.has(name)) {
			fields.set(name, value);
		}
	}

	const mode = modes.get(fields.get('mode') ?? '');
	const age = fields.get('max_age') ?? '';
	if (fields.get('version') !== 'STSv1') {
		return {problem: 'its version is not STSv1'};
	}

	if (mode === undefined) {
		return {problem: 'its mode is not one of enforce, testing, none'};
	}

	if (!/^\d{1,10}$/.test(age)) {
		return {problem: 'its max_age is not a number of seconds'};
	}

	if (mx.length > maxPatterns) {
		return {problem: `it lists more than ${maxPatterns} hosts`};
	}

	return mx.length === 0 && mode !== 'none'
		? {problem: 'it has no mx with a valid host name'}
		: {mode, mx, maxAge: Math.min(Number(age), maxPolicyAge)};
}

const recordText = /^v=STSv1[ \t]*;(.*)$/s;
const recordField = /^[ \t]*([a-zA-Z0-9][a-zA-Z0-9_.-]{0,31})=([\x21-\x3a\x3c\x3e-\x7e]+)[ \t]*$/;
const policyId = /^[a-zA-Z0-9]{1,32}$/;

/**
 * Returns the policy id announced by the TXT records of `_mta-sts.<domain>` (RFC 8461 §3.1). Returns `null` if there is
 * no such record, more than one, or a malformed one.
 */
export function announcedId(texts: readonly string[]): string | null {
	const matches = texts.flatMap(text => recordText.exec(text)?.[1] ?? []);
	const [fields] = matches;
	if (fields === undefined || matches.length > 1) {
		return null;
	}

	const parts = fields.split(';');
	if (/^[ \t]*$/.test(parts.at(-1) ?? '')) {
		parts.pop();
	}

	let id: string | null = null;
	for (const part of parts) {
		const [, name, value = ''] = recordField.exec(part) ?? [];
		if (name === undefined) {
			return null;
		}

		if (name === 'id') {
			id ??= value;
		}
	}

	return id !== null && policyId.test(id) ? id : null;
}
