import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import type {AggregateReport, DmarcCount, DmarcReport, TlsCount, TlsReport} from '../mail/aggregate.ts';
import type {DomainState} from './domains.ts';
import {rowsOf} from './engine/dialect.ts';
import {insertReturning, insertRows} from './engine/rows.ts';

/** A report as it came: when, and whose DKIM signature its mail had. */
type Arrival = {readonly at: string; readonly signedBy: string | null};

const verified: readonly DomainState[] = ['verified', 'degraded'];

/** The verified domains of this name, of all workspaces. */
async function findReported(trx: Knex.Transaction, name: string): Promise<string[]> {
	return await trx('domains').where({name}).whereIn('state', verified).orderBy('id').pluck('id');
}

/** Whether a domain or the host of its return path has this name. */
async function isOurHost(trx: Knex.Transaction, host: string): Promise<boolean> {
	const own = trx.raw("coalesce(return_path_domain, 'bounce.' || name) = ?", [host]);
	return (await trx('domains').where({name: host}).orWhere(own).first('id')) !== undefined;
}

/** Reports about a domain that begin on one day: more of them are a flood. */
const mostOfDay = 300;

/** What became of a report. `known`: it came before, by this or another way. */
export type AggregateEnd = 'new' | 'known' | 'foreign' | 'too_many';

/** Counts a report once for each verified domain that it is about. */
export async function addDmarcReport(
	trx: Knex.Transaction,
	report: DmarcReport,
	arrival: Arrival,
): Promise<AggregateEnd> {
	const domains = await findReported(trx, report.domain);
	let end: AggregateEnd = domains.length === 0 ? 'foreign' : 'known';
	const day = storeTime(report.begin).slice(0, 10);
	for (const domainId of domains) {
		const [today] = await trx('dmarc_reports')
			.where({domain_id: domainId})
			.whereBetween('begin_at', [day, `${day}~`])
			.count('* as n');
		if (Number(today?.n) >= mostOfDay) {
			return 'too_many';
		}
		if (await insertHead(trx, 'dmarc_reports', 'domain_id', domainId, report, arrival, {})) {
			const rows = report.counts.map(one => [
				...[domainId, day, one.ip, Number(one.dkim), Number(one.spf), one.disposition, one.why, one.n],
			]);
			await addCounts(trx, 'dmarc_days', ['domain_id', 'day', ...dmarcKeys], rows);
			end = 'new';
		}
	}
	return end;
}

const dmarcKeys = ['ip', 'dkim', 'spf', 'disposition', 'why'];

/** `ours`: names beside those of domains that are reported about. */
export async function addTlsReport(
	trx: Knex.Transaction,
	report: TlsReport,
	arrival: Arrival & {readonly signedBy: string},
	ours: readonly string[],
): Promise<AggregateEnd> {
	const {domain, counts} = report;
	if (!ours.includes(domain) && !(await isOurHost(trx, domain))) {
		return 'foreign';
	}
	const failures = JSON.stringify(report.failures);
	if (!(await insertHead(trx, 'tls_reports', 'domain', domain, report, arrival, {failures}))) {
		return 'known';
	}
	const day = storeTime(report.begin).slice(0, 10);
	const rows = counts.map(({policy, result, n}) => [day, domain, policy, result, n]);
	await addCounts(trx, 'tls_report_days', ['day', 'domain', 'policy', 'result'], rows);
	return 'new';
}

/** False: the report is there already. */
async function insertHead(
	trx: Knex.Transaction,
	table: string,
	key: string,
	value: string,
	{org, reportId, begin, end, cut}: AggregateReport,
	{at, signedBy}: Arrival,
	more: {readonly [column: string]: string},
): Promise<boolean> {
	const row = {
		...{[key]: value, org, report_id: reportId, begin_at: storeTime(begin), end_at: storeTime(end)},
		...{received_at: at, signed_by: signedBy, cut, ...more},
	};
	const added = await insertReturning(
		trx,
		table,
		Object.keys(row),
		[Object.values(row)],
		'on conflict do nothing returning org',
	);
	return added.length > 0;
}

/** Adds to counts, which are the last column. In the order of the keys: two nodes may add to the same. */
async function addCounts(
	trx: Knex.Transaction,
	table: string,
	keys: readonly string[],
	rows: ReadonlyArray<ReadonlyArray<string | number>>,
): Promise<void> {
	const add = `on conflict (${keys.join(', ')}) do update set n = ${table}.n + excluded.n`;
	const sorted = rows.toSorted((a, b) => (a.join('\n') < b.join('\n') ? -1 : 1));
	await insertRows(trx, table, [...keys, 'n'], sorted, add);
}

/** Sources of a domain's mail, by address and why it is not aligned; those with most mail first. */
export type DmarcSource = Omit<DmarcCount, 'disposition' | 'dkim' | 'spf'> & {
	readonly aligned: number;
	readonly spf: number;
	readonly dkim: number;
};

/** What was reported of a domain from a day on (`2026-11-21`); the rows of `limit` sources. */
export async function readDmarc(
	reader: Knex,
	domainId: string,
	since: string,
	limit: number,
): Promise<{
	readonly reports: number;
	readonly reporters: readonly string[];
	readonly days: number;
	readonly sources: DmarcSource[];
}> {
	const heads = () => reader('dmarc_reports').where({domain_id: domainId}).where('begin_at', '>=', since);
	const reporters: Array<{org: string; n: number | string}> = await heads()
		.groupBy('org')
		.orderBy('org')
		.select('org')
		.count('* as n');
	const days = await reader('dmarc_days')
		.where({domain_id: domainId})
		.where('day', '>=', since)
		.countDistinct('day as n')
		.first();
	const rows = await rowsOf<Record<'ip' | 'why' | 'n' | 'aligned' | 'spf' | 'dkim', string>>(
		reader,
		`select ip, max(why) as why, sum(n) as n, sum(case when dkim + spf > 0 then n else 0 end) as aligned,
				sum(spf * n) as spf, sum(dkim * n) as dkim
			from dmarc_days where domain_id = ? and day >= ? group by ip order by sum(n) desc, ip limit ?`,
		[domainId, since, limit],
	);
	return {
		reports: reporters.reduce((sum, {n}) => sum + Number(n), 0),
		reporters: reporters.map(({org}) => org),
		days: Number(days?.n ?? 0),
		sources: rows.map(({ip, why, n, aligned, spf, dkim}) => ({
			...{ip, why, n: Number(n), aligned: Number(aligned), spf: Number(spf), dkim: Number(dkim)},
		})),
	};
}

/** What others saw of TLS to a domain of ours. */
export type SeenTls = TlsCount & {readonly domain: string};

/** From a day on, by domain, policy and result; of one domain, or of all. */
export async function readSeenTls(
	reader: Knex,
	{since, domain, limit}: {readonly since: string; readonly domain?: string; readonly limit: number},
): Promise<SeenTls[]> {
	const rows: Array<Omit<SeenTls, 'n'> & {n: number | string}> = await reader('tls_report_days')
		.where('day', '>=', since)
		.where(domain === undefined ? {} : {domain})
		.groupBy('domain', 'policy', 'result')
		.orderBy(['domain', 'policy', 'result'])
		.limit(limit)
		.select('domain', 'policy', 'result')
		.sum('n as n');
	return rows.map(row => ({...row, n: Number(row.n)}));
}

/** The failures that the newest reports explain, the newest first. */
export async function readTlsFailures(reader: Knex, since: string, limit: number) {
	const rows: Array<{domain: string; org: string; signed_by: string; end_at: string; failures: string}> = await reader(
		'tls_reports',
	)
		.where('begin_at', '>=', since)
		.where('failures', '<>', '[]')
		.orderBy('begin_at', 'desc')
		.limit(limit)
		.select('domain', 'org', 'signed_by', 'end_at', 'failures');
	return rows.map(({failures, ...row}) => ({...row, failures: JSON.parse(failures) as string[]}));
}

/** Domains with TLS of that day whose report is to be sent now: it did not go out, and was not tried lately. */
export async function listDueTlsReports(reader: Knex, day: string, now: string, limit: number): Promise<string[]> {
	const handled = reader('tls_reports_sent as s')
		.whereRaw('s.day = t.day and s.domain = t.domain')
		.where(done => done.whereNotNull('s.sent_at').orWhere('s.due_at', '>', now));
	return await reader('tls_days as t')
		.where({day})
		.whereNotExists(handled)
		.distinct('domain')
		.orderBy('domain')
		.limit(limit)
		.pluck('domain');
}

/** Takes a report to be sent, unless another node has it; if this one dies, it is due again at `due`. */
export async function claimTlsReport(
	trx: Knex.Transaction,
	{day, domain, now, due}: {readonly day: string; readonly domain: string; readonly now: string; readonly due: string},
): Promise<boolean> {
	const claimed = await rowsOf(
		trx,
		`insert into tls_reports_sent (day, domain, due_at, attempts) values (?, ?, ?, 1)
			on conflict (day, domain) do update set attempts = tls_reports_sent.attempts + 1, due_at = excluded.due_at
				where tls_reports_sent.sent_at is null and tls_reports_sent.due_at <= ?
			returning attempts`,
		[day, domain, due, now],
	);
	return claimed.length > 0;
}

export async function endTlsReport(
	trx: Knex.Transaction,
	{
		day,
		domain,
		...end
	}: {readonly day: string; readonly domain: string; readonly sent_at: string | null; readonly error: string | null},
): Promise<void> {
	await trx('tls_reports_sent').where({day, domain}).update(end);
}

/** What TLS with the hosts of a domain came to on a day. */
export async function readTlsDay(
	reader: Knex,
	day: string,
	domain: string,
): Promise<Array<TlsCount & {readonly host: string}>> {
	return await reader('tls_days')
		.where({day, domain})
		.orderBy(['policy', 'host', 'result'])
		.select('policy', 'host', 'result', 'n');
}

/** The verified domain that a host is in, else the oldest one: it signs what the installation itself writes. */
export async function findOwnDomain(
	reader: Knex,
	host: string,
): Promise<{readonly id: string; readonly name: string} | undefined> {
	return await reader('domains')
		.whereIn('state', verified)
		.orderByRaw("case when ? = name or ? like '%.' || name then 0 else 1 end, id", [host, host])
		.first('id', 'name');
}

/** Removes what is of days before this one, at most this many rows of each table; answers how many of one at most. */
export async function purgeAggregates(trx: Knex.Transaction, day: string, limit: number): Promise<number> {
	const removed: number[] = [];
	for (const [table, column, keys] of [
		['dmarc_reports', 'begin_at', ['domain_id', 'org', 'report_id']],
		['dmarc_days', 'day', ['domain_id', 'day', ...dmarcKeys]],
		['tls_reports', 'begin_at', ['domain', 'org', 'report_id']],
		['tls_report_days', 'day', ['day', 'domain', 'policy', 'result']],
		['tls_reports_sent', 'day', ['day', 'domain']],
	] as const) {
		const old = trx(table)
			.where(column, '<', day)
			.limit(limit)
			.select(...keys);
		removed.push(
			await trx(table)
				.whereIn([...keys], old)
				.delete(),
		);
	}
	return Math.max(...removed);
}
