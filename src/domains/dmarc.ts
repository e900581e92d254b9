import type {Knex} from 'knex';
import {dayMs, storeTime} from '../kit/time.ts';
import {parseTagList} from '../mail/dkim-record.ts';
import type {Resolver} from '../net/dns.ts';
import {type DmarcSource, readDmarc, readTlsSums, type TlsSum} from '../store/aggregate-reports.ts';
import type {Domain} from '../store/domains.ts';
import {type CheckedRecord, checkDomainRecords, type OpenSources} from './check-records.ts';
import {type DomainRecord, dmarcUri, domainRecords, returnPathHost, type SendingNames} from './domain-records.ts';
import {checkSpf} from './spf.ts';

/** How far back figures go by default and at most, days. */
export const dmarcPeriod = {usual: 30, most: 90} as const;
/** The first of so many days up to today, in UTC. */
export const firstDay = (days: number, now: number): string => storeTime(now - (days - 1) * dayMs).slice(0, 10);
const mostSources = 500;
/** Sources for which DNS is asked whether they are ours: those with most mail. */
const mostAsked = 100;

type Source = DmarcSource & {readonly ours: boolean};

/** What to publish next, and why. */
export type DmarcAdvice = {
	/** The policy that DNS shows; null: none, or DNS did not answer. */
	readonly policy: string | null;
	/** The policy to publish; the same as `policy`: nothing is to change yet. */
	readonly next: string | null;
	readonly name: string;
	readonly record: string;
	readonly why: string;
	/** Mails of the period that `quarantine` or `reject` would have stopped. */
	readonly cost: {readonly ours: number; readonly others: number};
};

/** Who sends with a domain in `From`, by the reports of others. */
export type DmarcSight = {
	readonly days: number;
	readonly reports: number;
	readonly reporters: readonly string[];
	readonly sources: readonly Source[];
	readonly advice: DmarcAdvice;
	/** How TLS to the host of the return path went, as others report it. */
	readonly tls: readonly TlsSum[];
};

/** Reads what was reported, and asks DNS which sources are ours and what is published. */
export async function lookAtDmarc(
	reader: Knex,
	domain: Domain,
	names: SendingNames,
	openSources: OpenSources,
	{days, now}: {readonly days: number; readonly now: number},
): Promise<DmarcSight> {
	const since = firstDay(days, now);
	const counted = await readDmarc(reader, domain.id, since, mostSources);
	const isProven = domain.state === 'verified' || domain.state === 'degraded';
	const seen = {since, limit: mostSources, domain: returnPathHost(domain)};
	// Of a host as such: a workspace that has yet to prove the domain sees none of it.
	const tls = isProven ? await readTlsSums(reader, 'tls_report_days', seen) : [];
	const records = domainRecords({...names, domain, keys: []});
	const of = (purpose: DomainRecord['purpose']) => records.find(record => record.purpose === purpose) as DomainRecord;
	const asked = openSources();
	try {
		const [published] = await checkDomainRecords(domain.name, [of('dmarc')], asked);
		const isOurs = asked.resolvers[0] && ownership(asked.resolvers[0], of('spf'));
		const sources = await Promise.all(
			counted.sources.map(async (source, index) => ({
				...source,
				ours: index < mostAsked && (await isOurs?.(source.ip)) === true,
			})),
		);
		const advice = adviceOf(domain, names, published as CheckedRecord, {...counted, sources});
		return {...counted, days, sources, advice, tls};
	} finally {
		asked.close();
	}
}

/** Whether mail leaves from an address: as we would publish it, or as the owner of the domain has published it for our return path. */
function ownership(resolver: Resolver, {name, value}: DomainRecord): (ip: string) => Promise<boolean> {
	const proposed: Resolver = {
		...resolver,
		txt: async (asked, fresh) =>
			asked === name ? {kind: 'found', records: [value]} : await resolver.txt(asked, fresh),
	};
	const passes = async (by: Resolver, ip: string) => (await checkSpf(by, ip, name)).kind === 'pass';
	return async ip => (await passes(proposed, ip)) || (await passes(resolver, ip));
}

const policies = ['none', 'quarantine', 'reject'];
const leastDays = 7;
/** Of our mail that is not aligned: more than forwarding breaks. */
const mostLost = 0.01;

/** The next step towards `p=reject`, one at a time, where the reports show that it is safe. */
export function adviceOf(
	domain: Domain,
	names: SendingNames,
	published: Pick<CheckedRecord, 'name' | 'value' | 'state' | 'found' | 'problem'>,
	{sources, days}: {readonly sources: readonly Source[]; readonly days: number},
): DmarcAdvice {
	const {name, value, state, problem} = published;
	const sum = (some: readonly Source[], of: (source: Source) => number) => some.reduce((all, one) => all + of(one), 0);
	const [ours, others] = [sources.filter(one => one.ours), sources.filter(one => !one.ours)];
	const lost = (some: readonly Source[]) => sum(some, one => one.n - one.aligned);
	const cost = {ours: lost(ours), others: lost(others)};
	const all = sum(ours, one => one.n);
	const tags = state === 'ok' ? parseTagList(published.found[0] ?? '') : undefined;
	const policy = tags === undefined ? null : (tags.get('p')?.toLowerCase() ?? 'none');

	function advise(next: string | null, why: string): DmarcAdvice {
		const record = tags && next ? recordOf(tags, next, names.receives ? dmarcUri(domain) : null) : value;
		return {policy, next, name, record, why, cost};
	}

	if (tags === undefined || policy === null) {
		return state === 'unknown'
			? advise(null, 'DNS did not answer, so what is published is not known')
			: advise('none', state === 'missing' ? 'there is no DMARC record yet' : `the record is wrong: ${problem}`);
	}
	if (policy === 'reject') {
		return advise(policy, 'nothing is stricter');
	}
	if (days < leastDays || all === 0) {
		const have =
			all === 0 ? 'no reports about mail of yours are' : `reports of ${days} ${days === 1 ? 'day' : 'days'} are`;
		return advise(policy, `${have} here: wait until there are ${leastDays} days`);
	}
	if (cost.ours > all * mostLost) {
		const worst = ours.toSorted((a, b) => b.n - b.aligned - (a.n - a.aligned))[0];
		return advise(
			policy,
			`${cost.ours} of your ${all} mails would be stopped: first see why those of ${worst?.ip} are not aligned`,
		);
	}
	const strangers =
		cost.others === 0 ? '' : `; it stops ${cost.others} mails of others: make sure that none of them are yours`;
	return advise(
		policies[policies.indexOf(policy) + 1] ?? policy,
		`${all - cost.ours} of your ${all} mails are aligned${strangers}`,
	);
}

/** The next step, in words. */
export const stepOf = ({policy, next}: DmarcAdvice): string =>
	next === policy ? `Keep p=${policy}` : next ? `Publish p=${next}` : 'Nothing to publish';

/** The published record with another policy; its other tags stay. */
function recordOf(tags: ReadonlyMap<string, string>, policy: string, uri: string | null): string {
	const rua = tags.get('rua');
	const isThere = uri === null || rua?.toLowerCase().includes(uri);
	const changed = new Map([['v', 'DMARC1'], ['p', policy], ...[...tags].filter(([tag]) => tag !== 'v' && tag !== 'p')]);
	if (!isThere) {
		changed.set('rua', rua ? `${rua},${uri}` : (uri as string));
	}
	return [...changed].map(([tag, text]) => `${tag}=${text}`).join('; ');
}

/** `812 connections, 4 failed: sts certificate-expired 4`; null: no report came. */
export function tlsWords(seen: readonly TlsSum[]): string | null {
	const [{total} = {total: 0}] = seen;
	const failed = seen.filter(({result}) => result !== 'success');
	const causes = failed.map(({policy, result, count}) => `${policy} ${result} ${count}`).join(', ');
	const words = `${total} ${total === 1 ? 'connection' : 'connections'}, ${failed.reduce((all, {count}) => all + count, 0)} failed`;
	return total === 0 ? null : causes === '' ? words : `${words}: ${causes}`;
}

/** As the API and `--json` show it. */
export function dmarcView({days, reports, sources, advice, tls}: DmarcSight) {
	return {
		...{days, reports},
		sources: sources.map(({ip, n, aligned, spf, dkim, ours}) => ({ip, count: n, aligned, spf, dkim, ours})),
		advice,
		tls: tls.map(({policy, result, count}) => ({policy, result, count})),
	};
}
