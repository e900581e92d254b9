import type {Knex} from 'knex';
import {LRUCache} from 'lru-cache';
import {type Clock, createPauses} from '../../kit/clock.ts';
import {atMost} from '../../kit/collections.ts';
import {dayMs, storeTime} from '../../kit/time.ts';
import {parseTagList} from '../../mail/dkim-record.ts';
import type {Resolver} from '../../net/dns.ts';
import {type CheckedRecord, checkDomainRecords, includesUri, type OpenSources} from './check-records.ts';
import {type DomainRecord, dmarcUri, domainRecords, returnPathHost, type SendingNames} from './domain-records.ts';
import {countDmarcDays, type DmarcSource, readDmarc, readTlsSums, type TlsSum} from './reports-store.ts';
import {compileSpf} from './spf.ts';
import type {Domain} from './store.ts';

/** The default and maximum period of the figures, in days. */
export const dmarcPeriod = {default: 30, max: 90} as const;
/** Returns the first day of a period of `days` days that ends today, in UTC. */
export const firstDay = (days: number, now: number): string => storeTime(now - (days - 1) * dayMs).slice(0, 10);
/** Only this many sources are evaluated, those with the most messages. */
const maxSources = 500;

type Source = DmarcSource & {readonly ours: boolean};

/** The DMARC record to publish next, and why. */
export type DmarcAdvice = {
	/** The published policy; `null` if there is none or DNS did not respond. */
	readonly policy: string | null;
	/** The policy to publish. It equals `policy` if only the share of mail that it applies to changes, or nothing. */
	readonly next: string | null;
	/** Whether to change the published policy or the share of mail that it applies to. */
	readonly change: boolean;
	readonly name: string;
	readonly record: string;
	readonly why: string;
	/** The number of days that the advice is based on: the requested ones, but at least `dmarcPeriod.default`. */
	readonly days: number;
	/** Messages of these days that `quarantine` or `reject` would have stopped, according to signed reports. */
	readonly cost: {readonly ours: number; readonly others: number};
};

/** Who sends mail with a domain in `From`, according to the reports of other mail systems. */
export type DmarcReview = {
	readonly days: number;
	readonly reports: number;
	readonly reporters: readonly string[];
	/** The sources with the most messages, out of `ips`. */
	readonly sources: readonly Source[];
	readonly ips: number;
	/** Messages in reports without a signature of their reporter, which anyone could have forged. */
	readonly unsigned: number;
	readonly advice: DmarcAdvice;
	/** The results of TLS connections to the host of the return path, as others report them. */
	readonly tls: readonly TlsSum[];
};

type ReviewOptions = {
	readonly reader: Knex;
	readonly names: SendingNames;
	readonly openSources: OpenSources;
	readonly clock: Clock;
};

const cachedMs = 60_000;
const maxCached = 100;

/** Reviews a domain: the reports of the last days, the published record, and what to publish next. */
export type ReviewDmarc = (domain: Domain, days: number) => Promise<DmarcReview>;

/**
 * Creates a function that reviews domains. Which sources are the domain's own is cached for a minute, because finding
 * out can take a second of CPU time. The published record is always read, so that a change is visible immediately.
 */
export function createDmarcReview(options: ReviewOptions): ReviewDmarc {
	const {reader, names, openSources, clock} = options;
	const cache = new LRUCache<string, {readonly until: number; readonly evidence: Promise<Evidence>}>(
		atMost(maxCached),
	);

	function findEvidence(domain: Domain, days: number): Promise<Evidence> {
		const key = `${domain.id} ${days}`;
		const cached = cache.get(key);
		if (cached !== undefined && cached.until > clock.monotonic()) {
			return cached.evidence;
		}
		const evidence = gatherEvidence(options, domain, days);
		cache.set(key, {until: clock.monotonic() + cachedMs, evidence});
		evidence.catch(() => cache.delete(key));
		return evidence;
	}

	return async (domain, days) => {
		const {counted, sources, judged} = await findEvidence(domain, days);
		const tls = await readReportedTls(reader, domain, [returnPathHost(domain)], firstDay(days, clock.now()));
		const recordSources = openSources();
		try {
			const [published] = await checkDomainRecords(
				domain.name,
				[recordFor('dmarc', domain, names)],
				recordSources,
			);
			const advice = toAdvice(domain, names, published as CheckedRecord, judged);
			return {...counted, days, sources, advice, tls};
		} finally {
			recordSources.close();
		}
	};
}

/**
 * Returns the results of TLS connections to hosts of a domain since a day, as other mail systems report them. A
 * workspace gets nothing until it has proved that it owns the domain.
 */
export async function readReportedTls(
	reader: Knex,
	{state}: Domain,
	hosts: readonly string[],
	since: string,
): Promise<TlsSum[]> {
	const isProven = state === 'verified' || state === 'degraded';
	return isProven ? await readTlsSums(reader, 'tls_report_days', {since, limit: maxSources, domains: hosts}) : [];
}

function recordFor(purpose: 'dmarc' | 'spf', domain: Domain, names: SendingNames): DomainRecord {
	const records = domainRecords({...names, domain, keys: []});
	return records.find(record => record.purpose === purpose) as DomainRecord;
}

/** The reported figures, and which sources are the domain's own. */
type Evidence = {
	readonly counted: Awaited<ReturnType<typeof readDmarc>>;
	readonly sources: readonly Source[];
	readonly judged: Judged;
};

async function gatherEvidence(
	{reader, names, openSources, clock}: ReviewOptions,
	domain: Domain,
	days: number,
): Promise<Evidence> {
	const now = clock.now();
	const judgedDays = Math.max(days, dmarcPeriod.default);
	const judgedQuery = {domainId: domain.id, since: firstDay(judgedDays, now), counted: 'signed'} as const;
	const judged = await readDmarc(reader, judgedQuery, maxSources);
	const query = {domainId: domain.id, since: firstDay(days, now), counted: 'n'} as const;
	const counted = await readDmarc(reader, query, maxSources);
	const ips = new Set([...judged.sources, ...counted.sources].map(({ip}) => ip));
	const ownIps = await findOwnAddresses(recordFor('spf', domain, names), ips, openSources, clock);
	const own = judged.sources.filter(({ip}) => ownIps.has(ip));
	const addresses = own.map(({ip}) => ip);
	const ownDays = await countDmarcDays(reader, judgedQuery, addresses);
	return {
		counted,
		sources: counted.sources.map(source => ({...source, ours: ownIps.has(source.ip)})),
		judged: {own, ownDays, lost: judged.lost, days: judgedDays},
	};
}

/**
 * Returns the IP addresses that send the domain's mail, according to the SPF record that we propose or the one that the
 * owner published for the return path.
 */
async function findOwnAddresses(
	{name, value}: DomainRecord,
	ips: Iterable<string>,
	openSources: OpenSources,
	clock: Clock,
): Promise<ReadonlySet<string>> {
	const own = new Set<string>();
	const recordSources = openSources();
	try {
		const [resolver] = recordSources.resolvers;
		if (resolver === undefined) {
			return own;
		}
		const proposed: Resolver = {
			...resolver,
			txt: async (owner, fresh) =>
				owner === name ? {kind: 'found', records: [value]} : await resolver.txt(owner, fresh),
		};
		const checks = [compileSpf(proposed, name), compileSpf(resolver, name)];
		const pause = createPauses(clock);
		for (const ip of ips) {
			for (const check of checks) {
				if (!own.has(ip) && (await check(ip)).kind === 'pass') {
					own.add(ip);
				}
			}
			await pause();
		}
	} finally {
		recordSources.close();
	}
	return own;
}

const formatCount = (n: number): string => n.toLocaleString('en');
const policies = ['none', 'quarantine', 'reject'];
const minDays = 7;
/** The maximum share of our messages that may be unaligned. Forwarding alone breaks fewer. */
const maxUnalignedShare = 0.01;

/**
 * A summary of the signed reports of some days: our sources, the number of days with messages from them, and the
 * unaligned messages of all sources (`lost`).
 */
type Judged = {readonly own: readonly DmarcSource[]} & Readonly<Record<'ownDays' | 'lost' | 'days', number>>;

/** Returns the next step towards `p=reject`. A step is advised only if the reports show that it is safe. */
export function toAdvice(
	domain: Domain,
	names: SendingNames,
	published: Pick<CheckedRecord, 'name' | 'value' | 'state' | 'found' | 'problem'>,
	{own, ownDays, lost, days}: Judged,
): DmarcAdvice {
	const {name, value, state, problem} = published;
	const total = own.reduce((sum, {n}) => sum + n, 0);
	const ownUnaligned = own.reduce((sum, {n, aligned}) => sum + n - aligned, 0);
	const cost = {ours: ownUnaligned, others: lost - ownUnaligned};
	const tags = state === 'ok' ? parseTagList(published.found[0] ?? '') : undefined;
	const policy = tags === undefined ? null : (tags.get('p')?.toLowerCase() ?? 'none');
	const isPartial = policy !== 'none' && Number(tags?.get('pct') ?? 100) < 100;

	function advise(next: string | null, why: string, shouldChange = next !== policy): DmarcAdvice {
		const record =
			tags && next ? toRecord(tags, next, shouldChange, names.receives ? dmarcUri(domain) : null) : value;
		return {policy, next, change: shouldChange, name, record, why, days, cost};
	}

	if (tags === undefined || policy === null) {
		return state === 'unknown'
			? advise(null, 'DNS did not answer, so the published record is unknown')
			: advise(
					'none',
					state === 'missing' ? 'there is no DMARC record yet' : `the record is invalid: ${problem}`,
				);
	}
	if (policy === 'reject' && !isPartial) {
		return advise(policy, 'this is the strictest policy');
	}
	if (ownDays < minDays) {
		const reported =
			ownDays === 0 ? 'no signed reports' : `${ownDays} ${ownDays === 1 ? 'day' : 'days'} of signed reports`;
		return advise(policy, `${reported} about your mail so far: wait until there are ${minDays} days`);
	}
	if (ownUnaligned > total * maxUnalignedShare) {
		const worst = own.toSorted((a, b) => b.n - b.aligned - (a.n - a.aligned))[0];
		const stopped = `${formatCount(ownUnaligned)} of your ${formatCount(total)} messages would be stopped`;
		return advise(policy, `${stopped}: first find out why those from ${worst?.ip} are not aligned`);
	}
	const warning =
		cost.others === 0
			? ''
			: `; it stops ${formatCount(cost.others)} messages of others: make sure that none of them are yours`;
	return advise(
		isPartial ? policy : (policies[policies.indexOf(policy) + 1] ?? policy),
		`${formatCount(total - ownUnaligned)} of your ${formatCount(total)} messages are aligned${warning}`,
		true,
	);
}

/** Describes the next step. */
export const stepOf = ({policy, next, change}: DmarcAdvice): string =>
	next === null
		? 'Nothing to publish'
		: `${change ? 'Publish' : 'Keep'} p=${next}${change && next === policy ? ' for all mail' : ''}`;

/** Returns the published record with a new policy and its other tags. If anything changes, it applies to all mail. */
function toRecord(
	tags: ReadonlyMap<string, string>,
	policy: string,
	shouldChange: boolean,
	uri: string | null,
): string {
	const rua = tags.get('rua');
	const changed = new Map([
		['v', 'DMARC1'],
		['p', policy],
		...[...tags].filter(([tag]) => tag !== 'v' && tag !== 'p'),
	]);
	if (shouldChange && Number(changed.get('pct')) < 100) {
		changed.delete('pct');
	}
	if (uri !== null && !includesUri(rua, uri)) {
		changed.set('rua', rua ? `${rua},${uri}` : uri);
	}
	return [...changed].map(([tag, text]) => `${tag}=${text}`).join('; ');
}

/** Describes TLS results, such as `812 connections, 4 failed: sts certificate-expired 4`; `null` without reports. */
export function tlsWords(results: readonly TlsSum[]): string | null {
	const [{total} = {total: 0}] = results;
	if (total === 0) {
		return null;
	}
	const failures = results.filter(({result}) => result !== 'success');
	const failed = failures.reduce((sum, {count}) => sum + count, 0);
	const causes = failures.map(({policy, result, count}) => `${policy} ${result} ${formatCount(count)}`).join(', ');
	const connections = `${formatCount(total)} ${total === 1 ? 'connection' : 'connections'}`;
	return `${connections}, ${formatCount(failed)} failed${causes && `: ${causes}`}`;
}

/** Returns the form that the API and `--json` show. */
export function dmarcView({days, reports, unsigned, sources, advice, tls}: DmarcReview) {
	return {
		days,
		reports,
		unsigned,
		sources: sources.map(({ip, n, aligned, spf, dkim, ours, why}) => ({
			ip,
			count: n,
			aligned,
			spf,
			dkim,
			ours,
			why,
		})),
		advice,
		tls: tls.map(({policy, result, count}) => ({policy, result, count})),
	};
}
