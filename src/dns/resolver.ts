import {Resolver as SystemResolver} from 'node:dns/promises';
import {LRUCache} from 'lru-cache';
import {atMost} from '../kit/at-most.ts';
import type {Clock} from '../kit/clock.ts';
import type {DnsAnswer, Resolver} from '../net/dns.ts';

type ResolverOptions = {
	/** `ip[:port]`; empty: the system's. */
	readonly servers: readonly string[];
	/** Milliseconds; a look-up ends after `tries` times this time. */
	readonly timeoutMs: number;
	readonly tries: number;
	readonly clock: Clock;
};

// c-ares waits five times as long as this server took of late, at least 250 ms, twice as long at each repetition: a
// server that answers most names at once needs many to be given the seconds that a slow name takes.
const firstWaitMs = 1000;
const repetitions = 6;

const shortestTtl = 60;
const longestTtl = 3600;
const mostRecords = 20;
const mostNames = 20_000;

type Found<T> = {readonly records: readonly T[]; readonly ttl: number};
type Kept = {readonly until: number; readonly answer: DnsAnswer<unknown>};

/** `cancel` ends what is still being asked, which else keeps a process alive long after its answer was given up. */
export type CancellableResolver = Resolver & {readonly cancel: () => void};

/** A caching resolver on c-ares, so that a slow server does not hold the thread pool (as `dns.lookup` would). */
export function createResolver({servers, timeoutMs, tries, clock}: ResolverOptions): CancellableResolver {
	const system = new SystemResolver({timeout: Math.min(firstWaitMs, timeoutMs), tries: repetitions});
	if (servers.length > 0) {
		system.setServers([...servers]);
	}

	const known = new LRUCache<string, Kept>(atMost(mostNames));
	const asked = new Map<string, Promise<DnsAnswer<unknown>>>();

	async function ask<T>(key: string, query: () => Promise<Found<T>>): Promise<DnsAnswer<T>> {
		const {answer, ttl} = await answerOf(query, timeoutMs * tries);
		asked.delete(key);
		if (answer.kind !== 'failed') {
			const seconds = Math.min(Math.max(ttl, shortestTtl), longestTtl);
			known.set(key, {until: clock.monotonic() + seconds * 1000, answer});
		}

		return answer;
	}

	/** From the cache, or by the query under way for the same name, or by a new one. */
	function recall<T>(key: string, fresh: boolean, query: () => Promise<Found<T>>): Promise<DnsAnswer<T>> {
		const kept = fresh ? undefined : known.get(key);
		if (kept !== undefined && kept.until > clock.monotonic()) {
			return Promise.resolve(kept.answer as DnsAnswer<T>);
		}

		let answer = asked.get(key) as Promise<DnsAnswer<T>> | undefined;
		if (answer === undefined) {
			answer = ask(key, query);
			asked.set(key, answer);
		}

		return answer;
	}

	return {
		cancel: () => system.cancel(),
		mx: (domain, fresh = false) =>
			// Node does not give the TTL of an MX record: the shortest time is right for all.
			recall(`MX ${domain}`, fresh, async () => ({
				// Of many the best ones are kept.
				records: (await system.resolveMx(domain)).sort((a, b) => a.priority - b.priority),
				ttl: shortestTtl,
			})),
		a: (host, fresh = false) =>
			recall(`A ${host}`, fresh, async () => addresses(await system.resolve4(host, {ttl: true}))),
		aaaa: (host, fresh = false) =>
			recall(`AAAA ${host}`, fresh, async () => addresses(await system.resolve6(host, {ttl: true}))),
		// A record's strings are one text (RFC 7208 §3.3, RFC 6376 §3.6.2.2).
		txt: (name, fresh = false) =>
			recall(`TXT ${name}`, fresh, async () => ({
				records: (await system.resolveTxt(name)).map(strings => strings.join('')),
				ttl: shortestTtl,
			})),
		cname: (name, fresh = false) =>
			recall(`CNAME ${name}`, fresh, async () => ({records: await system.resolveCname(name), ttl: shortestTtl})),
		// `reverse` would ask the system's hosts file first.
		ptr: (name, fresh = false) =>
			recall(`PTR ${name}`, fresh, async () => ({records: await system.resolvePtr(name), ttl: shortestTtl})),
	};
}

function addresses(records: ReadonlyArray<{readonly address: string; readonly ttl: number}>): Found<string> {
	return {records: records.map(({address}) => address), ttl: Math.min(longestTtl, ...records.map(({ttl}) => ttl))};
}

async function answerOf<T>(
	query: () => Promise<Found<T>>,
	limitMs: number,
): Promise<{answer: DnsAnswer<T>; ttl: number}> {
	let timer: NodeJS.Timeout | undefined;
	const limit = new Promise<never>((_, reject) => {
		timer = setTimeout(() => reject(Object.assign(new Error('no answer'), {code: 'ETIMEOUT'})), limitMs);
	});
	try {
		const {records, ttl} = await Promise.race([query(), limit]);
		return records.length > 0
			? {answer: {kind: 'found', records: records.slice(0, mostRecords)}, ttl}
			: {answer: {kind: 'nodata'}, ttl: shortestTtl};
	} catch (error) {
		const {code = 'EUNKNOWN'} = error as NodeJS.ErrnoException;
		const kind = {ENODATA: 'nodata', ENOTFOUND: 'nxdomain'}[code] as 'nodata' | 'nxdomain' | undefined;
		return {answer: kind === undefined ? {kind: 'failed', code} : {kind}, ttl: shortestTtl};
	} finally {
		clearTimeout(timer);
	}
}
