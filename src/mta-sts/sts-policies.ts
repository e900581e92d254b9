import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';
import {storeTime} from '../kit/time.ts';
import type {TlsFailure} from '../mail/outcome.ts';
import type {MtaSts} from '../mail/route.ts';
import type {Resolver} from '../net/dns.ts';
import type {StoredPolicy} from '../store/domains.ts';
import type {Fetched} from './fetch-policy.ts';
import {announcedId} from './sts-policy.ts';

/** An announced policy that could not be fetched. `kept`: an older one still applies. */
export type PolicyFailure = {
	readonly domain: string;
	readonly failure: TlsFailure;
	readonly reason: string;
	readonly kept: boolean;
};

type StsPoliciesOptions = {
	readonly resolver: Pick<Resolver, 'txt'>;
	/** Never rejects. */
	readonly fetch: (domain: string) => Promise<Fetched>;
	/** The policy that was stored last; rejects if the store cannot be read. */
	readonly read: (domain: string) => Promise<StoredPolicy | null>;
	/** Must not reject. */
	readonly save: (policy: StoredPolicy) => Promise<void>;
	readonly observer: {readonly policyFailed: (failure: PolicyFailure) => void};
	readonly clock: Clock;
	/** A mail waits for a policy no longer than this, milliseconds; 10 s. */
	readonly holdMs?: number;
};

const defaultHoldMs = 10_000;
/** How often DNS is asked for a domain's policy, and a policy that could not be fetched is tried again. */
const askEveryMs = 5 * 60_000;
/** RFC 8461 §3.3: about once a day, so that an attacker who blocks the policy's host for a while gains nothing. */
const refreshAfterMs = 86_400_000;
const mostDomains = 20_000;

type Known = {readonly policy: StoredPolicy | null; readonly askAgainAt: number};

/** The MTA-STS policies of recipients' domains: asked for, fetched, stored, renewed (RFC 8461 §3.3, §5.1). */
export class StsPolicies {
	readonly #options: StsPoliciesOptions;
	readonly #known = new LRUCache<string, Known>(atMost(mostDomains));
	readonly #asked = new Map<string, Promise<StoredPolicy | null>>();

	constructor(options: StsPoliciesOptions) {
		this.#options = options;
	}

	/** The policy of a domain; null if there is no policy, or it is not available now. Rejects if the store cannot be read. */
	async policyOf(domain: string): Promise<MtaSts | null> {
		const found = this.#known.get(domain);
		const fresh = found !== undefined && found.askAgainAt > this.#options.clock.monotonic();
		const policy = fresh ? found.policy : await (this.#asked.get(domain) ?? this.#ask(domain));
		return policy === null || policy.mode === 'none' || !this.#isLive(policy)
			? null
			: {mode: policy.mode, mx: policy.mx};
	}

	/** One look-up for all that ask at the same time. A mail that waits longer than the limit goes on with the known policy. */
	#ask(domain: string): Promise<StoredPolicy | null> {
		let current: StoredPolicy | null = null;
		const renewed = this.#renew(domain, policy => {
			current = policy;
		});
		const bounded = new Promise<StoredPolicy | null>((resolve, reject) => {
			const timer = setTimeout(() => resolve(current), this.#options.holdMs ?? defaultHoldMs);
			renewed.then(resolve, reject).finally(() => clearTimeout(timer));
		});
		this.#asked.set(domain, bounded);
		const forget = () => this.#asked.delete(domain);
		void renewed.then(forget, forget);
		return bounded;
	}

	/** Asks DNS for the announced id and fetches a new policy. `has` gets the policy that applies meanwhile. */
	async #renew(domain: string, has: (policy: StoredPolicy | null) => void): Promise<StoredPolicy | null> {
		const stored = this.#known.get(domain)?.policy ?? (await this.#options.read(domain));
		const current = stored !== null && this.#isLive(stored) ? stored : null;
		has(current);
		const answer = await this.#options.resolver.txt(`_mta-sts.${domain}`);
		const id = answer.kind === 'found' ? announcedId(answer.records) : null;
		// A policy applies until it expires, even if it is no longer announced (§5.1).
		if (id !== null && current?.policyId !== id) {
			return await this.#fetchNew(domain, id, current);
		}
		this.#remember(domain, current);
		if (id !== null && current !== null && this.#isOld(current)) {
			void this.#fetchNew(domain, id, current); // No mail waits for it.
		}
		return current;
	}

	async #fetchNew(domain: string, id: string, current: StoredPolicy | null): Promise<StoredPolicy | null> {
		const {fetch, observer, clock, save} = this.#options;
		const fetched = await fetch(domain);
		if (!fetched.ok) {
			const {failure, reason} = fetched;
			observer.policyFailed({domain, failure, reason, kept: current !== null});
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
		this.#known.set(domain, {policy, askAgainAt: this.#options.clock.monotonic() + askEveryMs});
	}

	#isLive({expiresAt}: StoredPolicy): boolean {
		return expiresAt > storeTime(this.#options.clock.now());
	}

	#isOld({fetchedAt, expiresAt}: StoredPolicy): boolean {
		const since = Date.parse(fetchedAt);
		return this.#options.clock.now() - since > Math.min(refreshAfterMs, (Date.parse(expiresAt) - since) / 2);
	}
}
