import {LRUCache} from 'lru-cache';
import {atMost} from '../kit/at-most.ts';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import type {MtaSts} from '../mail/route.ts';
import type {TlsFailure} from '../mail/tls-result.ts';
import type {Resolver} from '../net/dns.ts';
import type {StoredPolicy} from '../store/domains.ts';
import type {FetchPolicy} from './fetch-policy.ts';
import {announcedId} from './sts-policy.ts';

/** A policy that is announced and could not be had. `kept`: an older one holds on. */
export type PolicyFailure = {
	readonly domain: string;
	readonly failure: TlsFailure;
	readonly reason: string;
	readonly kept: boolean;
};

export type MtaStsOptions = {
	readonly resolver: Pick<Resolver, 'txt'>;
	readonly fetch: FetchPolicy;
	/** The policy that was stored last; rejects where the store cannot be read. */
	readonly read: (domain: string) => Promise<StoredPolicy | null>;
	/** Must not reject. */
	readonly save: (policy: StoredPolicy) => Promise<void>;
	readonly onFailure: (failure: PolicyFailure) => void;
	readonly clock: Clock;
	/** A mail waits for a policy no longer than this, milliseconds; 10 s. */
	readonly holdMs?: number;
};

const defaultHoldMs = 10_000;
/** DNS is asked for a domain's policy so often, and a policy that could not be fetched is. */
const askEveryMs = 5 * 60_000;
/** RFC 8461 §3.3: about once a day, so that who blocks the policy's host for a while gains nothing. */
const refreshAfterMs = 86_400_000;
const mostDomains = 20_000;

type Known = {readonly policy: StoredPolicy | null; readonly askAgainAt: number};

/** The MTA-STS policies of recipients' domains: asked for, fetched, stored, renewed (RFC 8461 §3.3, §5.1). */
export function createMtaSts(options: MtaStsOptions) {
	const {clock, resolver, holdMs = defaultHoldMs} = options;
	const known = new LRUCache<string, Known>(atMost(mostDomains));
	const asked = new Map<string, Promise<StoredPolicy | null>>();

	function remember(domain: string, policy: StoredPolicy | null): void {
		known.set(domain, {policy, askAgainAt: clock.monotonic() + askEveryMs});
	}

	const isLive = (policy: StoredPolicy) => policy.expiresAt > storeTime(clock.now());

	/** Asks DNS for the announced id and fetches a new policy. `has` gets the policy that applies meanwhile. */
	async function renew(domain: string, has: (policy: StoredPolicy | null) => void): Promise<StoredPolicy | null> {
		const stored = known.get(domain)?.policy ?? (await options.read(domain));
		const current = stored !== null && isLive(stored) ? stored : null;
		has(current);
		const answer = await resolver.txt(`_mta-sts.${domain}`);
		const id = answer.kind === 'found' ? announcedId(answer.records) : null;
		// A policy holds until it expires, even where it is announced no more (§5.1).
		if (id === null) {
			remember(domain, current);
			return current;
		}

		if (current?.policyId !== id) {
			return await fetchNew(domain, id, current);
		}

		remember(domain, current);
		if (isOld(current)) {
			void fetchNew(domain, id, current); // Nobody waits for it.
		}

		return current;
	}

	function isOld({fetchedAt, expiresAt}: StoredPolicy): boolean {
		const since = Date.parse(fetchedAt);
		return clock.now() - since > Math.min(refreshAfterMs, (Date.parse(expiresAt) - since) / 2);
	}

	async function fetchNew(domain: string, id: string, current: StoredPolicy | null): Promise<StoredPolicy | null> {
		const fetched = await options.fetch(domain);
		if (!fetched.ok) {
			const {failure, reason} = fetched;
			options.onFailure({domain, failure, reason, kept: current !== null});
			remember(domain, current);
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
		remember(domain, policy);
		await options.save(policy);
		return policy;
	}

	/** One look-up for all who ask at the same time; who waits longer than the limit goes on with what holds. */
	function ask(domain: string): Promise<StoredPolicy | null> {
		let current: StoredPolicy | null = null;
		const renewed = renew(domain, policy => {
			current = policy;
		});
		const bounded = new Promise<StoredPolicy | null>((resolve, reject) => {
			const timer = setTimeout(() => resolve(current), holdMs);
			renewed.then(resolve, reject).finally(() => clearTimeout(timer));
		});
		asked.set(domain, bounded);
		void renewed.then(
			() => asked.delete(domain),
			() => asked.delete(domain),
		);
		return bounded;
	}

	return {
		/**
		 * The policy of a domain; null if it has none, or none is available now. Rejects if the store cannot be read.
		 */
		async policyOf(domain: string): Promise<MtaSts | null> {
			const found = known.get(domain);
			const fresh = found !== undefined && found.askAgainAt > clock.monotonic();
			const policy = fresh ? found.policy : await (asked.get(domain) ?? ask(domain));
			return policy === null || policy.mode === 'none' || !isLive(policy) ? null : {mode: policy.mode, mx: policy.mx};
		},
	};
}

export type MtaStsPolicies = ReturnType<typeof createMtaSts>;
