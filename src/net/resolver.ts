import {Resolver as SystemResolver} from 'node:dns/promises';
import {isIP} from 'node:net';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';
import type {DnsAnswer, Resolver} from './dns.ts';
import {isPublicAddress} from './ip-address.ts';

type ResolverOptions = {
	/** `ip[:port]`; empty for the system's servers. */
	readonly servers: readonly string[];
	/** In milliseconds. A lookup fails after `tries` times this value. */
	readonly timeoutMs: number;
	readonly tries: number;
	/** Remember for a minute that a name's servers did not respond. */
	readonly shouldCacheFailures?: boolean;
	readonly clock: Clock;
};

// c-ares waits five times the server's recent response time, at least 250 ms, and doubles that on each repetition. If a
// server answers most names at once, a slow name gets the seconds that it needs only after many repetitions.
const firstWaitMs = 1000;
const repetitions = 6;

export const minTtl = 60;
export const maxTtl = 3600;
const maxRecords = 20;
/** Large companies publish dozens of TXT records, and the SPF record may be the last one. */
const maxTexts = 100;
const maxAnswers = 20_000;
/** Larger answers count as several, since strangers control what their name servers return. */
const answerOctets = 1024;

/** `max` overrides the maximum number of records. */
type RecordSet<T> = {readonly records: readonly T[]; readonly ttl: number; readonly max?: number};
/** An answer without `ttl` is not cached. */
type Fetched<Answer> = {readonly answer: Answer; readonly ttl?: number};

/** Caches DNS answers, and shares each query in progress among all callers that ask for the same name. */
export class AnswerCache {
	readonly #known = new LRUCache<string, {readonly until: number; readonly answer: unknown}>({
		...atMost(maxAnswers),
		sizeCalculation: ({answer}) => sizeOf(answer),
	});
	readonly #pending = new Map<string, Promise<unknown>>();
	readonly #clock: Clock;

	constructor(clock: Clock) {
		this.#clock = clock;
	}

	/** Returns the cached answer, or fetches it. */
	recall<Answer>(key: string, fetch: () => Promise<Fetched<Answer>>, shouldBypassCache = false): Promise<Answer> {
		const cached = shouldBypassCache ? undefined : this.#known.get(key);
		if (cached !== undefined && cached.until > this.#clock.monotonic()) {
			return Promise.resolve(cached.answer as Answer);
		}
		const running = this.#pending.get(key) ?? this.#ask(key, fetch).finally(() => this.#pending.delete(key));
		this.#pending.set(key, running);
		return running as Promise<Answer>;
	}

	async #ask<Answer>(key: string, fetch: () => Promise<Fetched<Answer>>): Promise<Answer> {
		const {answer, ttl} = await fetch();
		if (ttl !== undefined) {
			const seconds = Math.min(Math.max(ttl, minTtl), maxTtl);
			this.#known.set(key, {until: this.#clock.monotonic() + seconds * 1000, answer});
		}
		return answer;
	}
}

function sizeOf(answer: unknown): number {
	const {records = []} = answer as {readonly records?: readonly unknown[]};
	const octets = records.reduce<number>((sum, record) => sum + (typeof record === 'string' ? record.length : 0), 0);
	return 1 + Math.floor(octets / answerOctets);
}

/** `cancel` aborts pending queries. Otherwise they would keep the process alive long after their caller gave up. */
type CancellableResolver = Resolver & {readonly cancel: () => void};

/**
 * Creates a caching resolver on c-ares, so that slow servers do not occupy the thread pool as `dns.lookup` would.
 *
 * This is the main file of the folder, which resolves names over plain DNS and with DNSSEC. It relies on the configured
 * servers, or on the system's. It never reads the system's hosts file, and its resolvers never report a failed query as
 * an empty answer.
 */
export function createResolver({
	servers,
	timeoutMs,
	tries,
	shouldCacheFailures,
	clock,
}: ResolverOptions): CancellableResolver {
	const system = new SystemResolver({timeout: Math.min(firstWaitMs, timeoutMs), tries: repetitions});
	if (servers.length > 0) {
		system.setServers([...servers]);
	}

	const cache = new AnswerCache(clock);

	function recall<T>(
		key: string,
		shouldBypassCache: boolean,
		query: () => Promise<RecordSet<T>>,
	): Promise<DnsAnswer<T>> {
		const fallback = shouldCacheFailures ? {ttl: minTtl} : {};
		return cache.recall(
			key,
			async () => ({...fallback, ...(await fetchAnswer(query, timeoutMs * tries))}),
			shouldBypassCache,
		);
	}

	return {
		cancel: () => system.cancel(),
		mx: (domain, shouldBypassCache = false) =>
			// Node does not report the TTL of MX records, so the minimum is used.
			recall(`MX ${domain}`, shouldBypassCache, async () => ({
				// If there are too many, the most preferred ones remain.
				records: (await system.resolveMx(domain)).sort((a, b) => a.priority - b.priority),
				ttl: minTtl,
			})),
		a: (host, shouldBypassCache = false) =>
			recall(`A ${host}`, shouldBypassCache, async () => addresses(await system.resolve4(host, {ttl: true}))),
		aaaa: (host, shouldBypassCache = false) =>
			recall(`AAAA ${host}`, shouldBypassCache, async () => addresses(await system.resolve6(host, {ttl: true}))),
		// The strings of a record form one text (RFC 7208 §3.3, RFC 6376 §3.6.2.2).
		txt: (name, shouldBypassCache = false) =>
			recall(`TXT ${name}`, shouldBypassCache, async () => ({
				records: (await system.resolveTxt(name)).map(strings => strings.join('')),
				ttl: minTtl,
				max: maxTexts,
			})),
		cname: (name, shouldBypassCache = false) =>
			recall(`CNAME ${name}`, shouldBypassCache, async () => ({
				records: await system.resolveCname(name),
				ttl: minTtl,
			})),
		// `reverse` would consult the system's hosts file first.
		ptr: (name, shouldBypassCache = false) =>
			recall(`PTR ${name}`, shouldBypassCache, async () => ({
				records: await system.resolvePtr(name),
				ttl: minTtl,
			})),
	};
}

function addresses(records: ReadonlyArray<{readonly address: string; readonly ttl: number}>): RecordSet<string> {
	return {records: records.map(({address}) => address), ttl: Math.min(maxTtl, ...records.map(({ttl}) => ttl))};
}

async function fetchAnswer<T>(query: () => Promise<RecordSet<T>>, limitMs: number): Promise<Fetched<DnsAnswer<T>>> {
	let timer: NodeJS.Timeout | undefined;
	const limit = new Promise<never>((_, reject) => {
		timer = setTimeout(() => reject(Object.assign(new Error('no answer'), {code: 'ETIMEOUT'})), limitMs);
	});
	try {
		const {records, ttl, max = maxRecords} = await Promise.race([query(), limit]);
		return records.length > 0
			? {answer: {kind: 'found', records: records.slice(0, max)}, ttl}
			: {answer: {kind: 'nodata'}, ttl: minTtl};
	} catch (error) {
		const {code = 'EUNKNOWN'} = error as NodeJS.ErrnoException;
		const kind = {ENODATA: 'nodata', ENOTFOUND: 'nxdomain'}[code] as 'nodata' | 'nxdomain' | undefined;
		return kind === undefined ? {answer: {kind: 'failed', code}} : {answer: {kind}, ttl: minTtl};
	} finally {
		clearTimeout(timer);
	}
}

type RecordSourcesOptions = {
	/** `ip[:port]`; empty for the system's servers. */
	readonly servers: readonly string[];
	/** For test labs: a zone's servers may have addresses that are not public. */
	readonly allowPrivate: boolean;
	readonly clock: Clock;
};

const timeoutMs = 5000;
const dnsPort = 53;

/**
 * Opens the resolvers for one check of published records: each configured server separately, and the authoritative
 * servers of a domain's zone.
 */
export function openRecordSources({servers, allowPrivate, clock}: RecordSourcesOptions): {
	readonly resolvers: readonly Resolver[];
	readonly authority: (domain: string) => Promise<Resolver | null>;
	/** Aborts pending queries. */
	readonly close: () => void;
} {
	const serverLists = servers.length === 0 ? [[]] : servers.map(server => [server]);
	const resolvers = serverLists.map(list => createResolver({servers: list, timeoutMs, tries: 1, clock}));
	const authority = new Authority({servers, timeoutMs, port: dnsPort, allowPrivate, clock});
	return {
		resolvers,
		authority: domain => authority.find(domain),
		close() {
			authority.cancel();
			for (const {cancel} of resolvers) {
				cancel();
			}
		},
	};
}

type AuthorityOptions = Pick<RecordSourcesOptions, 'allowPrivate' | 'clock'> & {
	/** The resolvers that find the zone's servers, as `ip[:port]`; empty for the system's. */
	readonly servers: readonly string[];
	readonly timeoutMs: number;
	/** The port of the zone's servers. */
	readonly port: number;
};

const minLabels = 2;
const maxServers = 3;

/** Finds the authoritative servers of a domain, which know what is published now. */
export class Authority {
	readonly #options: AuthorityOptions;
	readonly #system: SystemResolver;
	readonly #resolvers = new Set<CancellableResolver>();

	constructor(options: AuthorityOptions) {
		this.#options = options;
		this.#system = new SystemResolver({timeout: options.timeoutMs, tries: 1});
		if (options.servers.length > 0) {
			this.#system.setServers([...options.servers]);
		}
	}

	/** Returns `null` if the servers cannot be found or do not respond, for example because of a firewall. */
	async find(domain: string): Promise<Resolver | null> {
		const {timeoutMs, port, allowPrivate, clock} = this.#options;
		const hosts = await this.#nameServers(domain);
		const addresses = await Promise.all(
			hosts.map(async host =>
				(await Promise.all([orNone(this.#system.resolve4(host)), orNone(this.#system.resolve6(host))])).flat(),
			),
		);
		const allowed = addresses
			// Otherwise a stranger's zone could point into the operator's network.
			.map(ofHost => ofHost.find(address => allowPrivate || isPublicAddress(address)))
			.filter(address => address !== undefined)
			.map(address => (isIP(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`));
		if (allowed.length === 0) {
			return null;
		}
		const resolver = createResolver({servers: allowed, timeoutMs, tries: 1, clock});
		this.#resolvers.add(resolver);
		return (await resolver.txt(domain, true)).kind === 'failed' ? null : resolver;
	}

	/** Aborts pending queries, including those to servers already found. */
	cancel(): void {
		for (const {cancel} of this.#resolvers) {
			cancel();
		}
		this.#system.cancel();
	}

	async #nameServers(domain: string): Promise<string[]> {
		const labels = domain.split('.');
		for (let from = 0; labels.length - from >= minLabels; from++) {
			try {
				const hosts = await this.#system.resolveNs(labels.slice(from).join('.'));
				return hosts.slice(0, maxServers);
			} catch (error) {
				if (!['ENODATA', 'ENOTFOUND'].includes((error as NodeJS.ErrnoException).code ?? '')) {
					return [];
				}
			}
		}
		return [];
	}
}

async function orNone(lookup: Promise<string[]>): Promise<string[]> {
	return await lookup.catch(() => []);
}
