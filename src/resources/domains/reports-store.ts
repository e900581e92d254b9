import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import type {AggregateReport, DmarcCount, DmarcReport, TlsCount, TlsReport} from '../../mail/aggregate.ts';
import {queryRows} from '../../store/engine/dialect.ts';
import {insertReturning, insertRows} from '../../store/engine/rows.ts';
import {bounds, fitCounts, groupKey, readUse, roomLeft} from '../../store/report-bounds.ts';
import {type DomainState, liveDomains} from './store.ts';

/** How a report arrived. */
export type Arrival = {
	/** In the store's form. */
	readonly at: string;
	/** The domain of a valid DKIM signature of its email; `null` if there is none. */
	readonly signedBy: string | null;
	/** Whether `signedBy` is the reporter's own domain. */
	readonly isProven: boolean;
};

const verified: readonly DomainState[] = ['verified', 'degraded'];

/** The outcome of a report. `known` means that it was received before, in whatever way. */
export type AggregateEnd = 'new' | 'known' | 'foreign' | 'too_many';

/** Adds a report once for each verified domain of any workspace that it is about. */
export async function addDmarcReport(
	trx: Knex.Transaction,
	report: DmarcReport,
	arrival: Arrival,
): Promise<AggregateEnd> {
	const domains: string[] = await liveDomains(trx)
		.where({name: report.domain})
		.whereIn('state', verified)
		.orderBy('id')
		.pluck('id');
	let outcome: AggregateEnd = domains.length === 0 ? 'foreign' : 'known';
	for (const domainId of domains) {
		const added = await addToDomain(trx, domainId, report, arrival);
		if (added === 'too_many') {
			return added;
		}
		outcome = added === 'new' ? added : outcome;
	}
	return outcome;
}

const dayOf = (time: number): string => storeTime(time).slice(0, 10);

/** What identifies a report, apart from its signer. Some reporters reuse an id for each day. */
const identityOf = ({org, reportId, begin, end}: AggregateReport) => ({
	org,
	report_id: reportId,
	begin_at: storeTime(begin),
	end_at: storeTime(end),
});

async function addToDomain(
	trx: Knex.Transaction,
	domainId: string,
	report: DmarcReport,
	arrival: Arrival,
): Promise<Exclude<AggregateEnd, 'foreign'>> {
	const {signedBy, isProven} = arrival;
	const proven = Number(isProven);
	const reports = () => trx('dmarc_reports').where({domain_id: domainId});
	const day = dayOf(report.begin);
	const amount = `case when proven = ${proven} then group_count else 0 end`;
	const use = await readUse(trx, {reports: reports(), day, signedBy, amount});
	if (roomLeft(bounds.reports, use.reports) === 0) {
		return 'too_many';
	}
	const duplicates = (proof: 0 | 1) => reports().where({...identityOf(report), proven: proof});
	if (!isProven && (await duplicates(1).first('org')) !== undefined) {
		return 'known';
	}
	const room = roomLeft(isProven ? bounds.provenGroups : bounds.unprovenGroups, use.amounts);
	const known = isProven ? await provenGroups(trx, domainId, day) : new Set();
	const fitted = fitCounts(report.counts, group => known.has(groupKey(group)), room);
	const groups = fitted.counts.map(({ip, dkim, spf, disposition, why, n}) => [
		ip,
		Number(dkim),
		Number(spf),
		disposition,
		why,
		n,
	]);
	const head = {
		domain_id: domainId,
		proven,
		group_count: fitted.added,
		counts: isProven ? null : JSON.stringify(groups),
	};
	if (!(await insertHead(trx, 'dmarc_reports', head, report, arrival))) {
		return 'known';
	}
	const add = (rows: ReadonlyArray<ReadonlyArray<string | number>>) =>
		addCounts(trx, 'dmarc_days', ['domain_id', 'day', ...dmarcKeys], rows, ['n', 'signed']);
	if (isProven) {
		const replaced: Array<{counts: string | null}> = await duplicates(0).select('counts');
		for (const {counts} of replaced) {
			const former: typeof groups = JSON.parse(counts ?? '[]');
			await add(former.map(group => [domainId, day, ...group.slice(0, -1), -Number(group.at(-1)), 0]));
		}
		await duplicates(0).delete();
		await trx('dmarc_days').where({domain_id: domainId, day}).where('n', '<=', 0).delete();
	}
	await add(groups.map(group => [domainId, day, ...group, isProven ? Number(group.at(-1)) : 0]));
	return 'new';
}

/** A limit above the number of groups that the bounds allow for a day. */
const maxDayGroups = 10_000;

async function provenGroups(trx: Knex.Transaction, domainId: string, day: string): Promise<ReadonlySet<unknown>> {
	const rows: DmarcCount[] = await trx('dmarc_days')
		.where({domain_id: domainId, day})
		.where('signed', '>', 0)
		.limit(maxDayGroups)
		.select(dmarcKeys);
	return new Set(rows.map(groupKey));
}

const dmarcKeys = ['ip', 'dkim', 'spf', 'disposition', 'why'];

/** Adds a TLS report. `ownNames` has our names that reports may be about in addition to the names of domains. */
export async function addTlsReport(
	trx: Knex.Transaction,
	report: TlsReport,
	arrival: Arrival & {readonly signedBy: string},
	ownNames: readonly string[],
): Promise<AggregateEnd> {
	const {domain, counts} = report;
	const own = trx.raw("coalesce(return_path_domain, 'bounce.' || name) = ?", [domain]);
	const known =
		(await liveDomains(trx)
			.where(named => named.where({name: domain}).orWhere(own))
			.first('id')) ??
		(await trx('inbound_addresses')
			.whereRaw("address like ? escape '!'", [`%@${domain.replaceAll('_', '!_')}`])
			.first('id'));
	if (!ownNames.includes(domain) && known === undefined) {
		return 'foreign';
	}
	const day = dayOf(report.begin);
	const reports = trx('tls_reports').where({domain});
	const use = await readUse(trx, {reports, day, signedBy: arrival.signedBy, amount: 'length(failures)'});
	if (roomLeft(bounds.reports, use.reports) === 0) {
		return 'too_many';
	}
	const failures = takeUpTo(report.failures, roomLeft(bounds.failures, use.amounts));
	const columns = {domain, failures: JSON.stringify(failures)};
	if (!(await insertHead(trx, 'tls_reports', columns, report, arrival))) {
		return 'known';
	}
	const rows = counts.map(({policy, result, n}) => [day, domain, policy, result, n]);
	await addCounts(trx, 'tls_report_days', ['day', 'domain', 'policy', 'result'], rows);
	return 'new';
}

function takeUpTo(lines: readonly string[], length: number): readonly string[] {
	let remaining = length;
	const end = lines.findIndex(line => {
		remaining -= line.length;
		return remaining < 0;
	});
	return end === -1 ? lines : lines.slice(0, end);
}

/** Returns `false` if the report is already stored. */
async function insertHead(
	trx: Knex.Transaction,
	table: string,
	columns: {readonly [column: string]: string | number | null},
	report: AggregateReport,
	{at, signedBy}: Arrival,
): Promise<boolean> {
	const row = {...columns, ...identityOf(report), received_at: at, signed_by: signedBy, cut: report.cut};
	const once = 'on conflict do nothing returning org';
	return (await insertReturning(trx, table, Object.keys(row), [Object.values(row)], once)).length > 0;
}

/** Adds to counts, which are the last columns, in the order of their keys: two nodes may add to the same ones. */
async function addCounts(
	trx: Knex.Transaction,
	table: string,
	keys: readonly string[],
	rows: ReadonlyArray<ReadonlyArray<string | number>>,
	counts: readonly string[] = ['n'],
): Promise<void> {
	const sums = counts.map(column => `${column} = ${table}.${column} + excluded.${column}`);
	const add = `on conflict (${keys.join(', ')}) do update set ${sums}`;
	const sorted = rows.toSorted((a, b) => (a.join('\n') < b.join('\n') ? -1 : 1));
	await insertRows(trx, table, [...keys, ...counts], sorted, add);
}

const maxNamed = 10;

/** Messages from one address. `aligned`, `dkim` and `spf` are how many of them pass for the domain, and by what. */
export type DmarcSource = Pick<DmarcCount, 'ip' | 'why' | 'n'> & Readonly<Record<'aligned' | 'dkim' | 'spf', number>>;

/**
 * `since` is a day (`2026-11-21`). `counted` selects the messages of all reports, or only of reports signed by their
 * reporters.
 */
type DmarcQuery = {readonly domainId: string; readonly since: string; readonly counted: 'n' | 'signed'};

const countsOf = (reader: Knex, {domainId, since, counted}: DmarcQuery) =>
	reader('dmarc_days').where({domain_id: domainId}).where('day', '>=', since).where(counted, '>', 0);

/** Returns what was reported about a domain: the `limit` sources with the most messages, and the totals. */
export async function readDmarc(reader: Knex, query: DmarcQuery, limit: number) {
	const {domainId, since, counted} = query;
	const reports = () => reader('dmarc_reports').where({domain_id: domainId}).where('begin_at', '>=', since);
	const count = await reports().count('* as n').first();
	// Anyone can invent a name, so reporters proven by a signature come first.
	const reporters: string[] = await reports()
		.groupBy('org')
		.orderByRaw('max(proven) desc, org')
		.limit(maxNamed + 1)
		.pluck('org');
	const aligned = reader.raw('case when dkim + spf > 0 then ?? else 0 end', [counted]);
	const sums = {n: counted, signed: 'signed', aligned};
	const totals = await countsOf(reader, query).countDistinct('ip as ips').sum(sums).first();
	const rows: ReadonlyArray<Record<keyof DmarcSource, string>> = await countsOf(reader, query)
		.groupBy('ip')
		.orderByRaw('sum(??) desc, ip', [counted])
		.limit(limit)
		.select('ip')
		.sum({...sums, dkim: reader.raw('dkim * ??', [counted]), spf: reader.raw('spf * ??', [counted])});
	const ips = rows.map(({ip}) => ip);
	// A forger may send any number of reasons, so only the most frequent one of each address is read.
	const place = reader.raw('row_number() over (partition by ip order by sum(??) desc, why) as place', [counted]);
	const ranked = countsOf(reader, query).whereIn('ip', ips).whereNot({why: ''}).groupBy('ip', 'why');
	const whys = await reader
		.from(ranked.select('ip', 'why', place).as('ranked'))
		.where({place: 1})
		.select('ip', 'why');
	const reasons = new Map<string, string>(whys.map(({ip, why}) => [ip, why]));
	return {
		reports: Number(count?.n),
		reporters: reporters.length > maxNamed ? [...reporters.slice(0, maxNamed), '…'] : reporters,
		ips: Number(totals?.ips),
		lost: Number(totals?.n ?? 0) - Number(totals?.aligned ?? 0),
		unsigned: Number(totals?.n ?? 0) - Number(totals?.signed ?? 0),
		sources: rows.map(
			({ip, ...row}): DmarcSource => ({
				ip,
				why: reasons.get(ip) ?? '',
				n: Number(row.n),
				aligned: Number(row.aligned),
				dkim: Number(row.dkim),
				spf: Number(row.spf),
			}),
		),
	};
}

/** Returns the number of days with messages from these addresses. */
export async function countDmarcDays(reader: Knex, query: DmarcQuery, ips: readonly string[]): Promise<number> {
	return Number((await countsOf(reader, query).whereIn('ip', ips).countDistinct('day as n').first())?.n);
}

/** How many of `total` connections to a domain's mail servers had a result. `host` is `null` if others report it. */
export type TlsSum = Pick<TlsCount, 'policy' | 'result'> &
	Readonly<Record<'domain', string> & Record<'host', string | null> & Record<'count' | 'total', number>>;

/**
 * Returns TLS results from a day on, failures first: with our mail servers as others report them, or with those of
 * others as counted here.
 */
export async function readTlsSums(
	reader: Knex,
	table: 'tls_report_days' | 'tls_days',
	{since, limit, domains}: {readonly since: string; readonly limit: number; readonly domains?: readonly string[]},
): Promise<TlsSum[]> {
	const keys = ['domain', 'policy', 'result', ...(table === 'tls_days' ? ['host'] : [])];
	const counted = reader(table).where('day', '>=', since);
	const rows: TlsSum[] = await (domains === undefined ? counted : counted.whereIn('domain', [...domains]))
		.groupBy(keys)
		.orderByRaw(`result = 'success', sum(n) desc, ${keys}`)
		.limit(limit)
		.select(...keys, reader.raw('sum(n) as count, sum(sum(n)) over (partition by domain) as total'));
	return rows.map(({host = null, ...row}) => ({...row, host, count: Number(row.count), total: Number(row.total)}));
}

/** Returns TLS failures from a day on as others describe them, those of the newest reports first. */
export async function readTlsFailures(reader: Knex, since: string, limit: number) {
	const columns = ['domain', 'org', 'signed_by', 'begin_at', 'failures'] as const;
	const reports: Array<Record<(typeof columns)[number], string>> = await reader('tls_reports')
		.where('begin_at', '>=', since)
		.whereNot({failures: '[]'})
		.orderByRaw('begin_at desc, domain, org, report_id')
		.limit(limit)
		.select(columns);
	const split = ({begin_at: begin, failures, ...of}: (typeof reports)[number]) =>
		(JSON.parse(failures) as string[]).map(failure => ({day: begin.slice(0, 10), ...of, failure}));
	return reports.flatMap(split).slice(0, limit);
}

/** A day of a domain that gets a TLS report from us, and times in the store's form. */
type Due = {readonly day: string; readonly domain: string; readonly now: string; readonly due: string};

/** Returns domains with TLS results of that day whose report is due: it was neither sent nor attempted recently. */
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

/** Claims a report for sending, unless another node has it. If this node dies, it is due again at `due`. */
export async function claimTlsReport(trx: Knex.Transaction, {day, domain, now, due}: Due): Promise<boolean> {
	const claimed = await queryRows(
		trx,
		`insert into tls_reports_sent (day, domain, due_at, attempts) values (?, ?, ?, 1)
			on conflict (day, domain) do update set attempts = tls_reports_sent.attempts + 1, due_at = excluded.due_at
				where tls_reports_sent.sent_at is null and tls_reports_sent.due_at <= ?
			returning attempts`,
		[day, domain, due, now],
	);
	return claimed.length > 0;
}

/** Records that a report was sent (`error` is `null`), or that the attempt failed. */
export async function endTlsReport(
	trx: Knex.Transaction,
	{day, domain, now}: Omit<Due, 'due'>,
	error: string | null,
): Promise<void> {
	await trx('tls_reports_sent')
		.where({day, domain})
		.update({sent_at: error === null ? now : null, error});
}

/** Returns the TLS results with the mail servers of a domain on a day. */
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

/**
 * Returns the verified domain that signs the installation's own messages: the one that contains the host name,
 * otherwise the oldest if all belong to one workspace. With several workspaces, none of them represents the
 * installation.
 */
export async function findOwnDomain(
	reader: Knex,
	host: string,
): Promise<{readonly id: string; readonly name: string} | undefined> {
	const domains: ReadonlyArray<Record<'id' | 'name' | 'workspace_id', string>> = await liveDomains(reader)
		.whereIn('state', verified)
		.orderBy('id')
		.select('id', 'name', 'workspace_id');
	const isAlone = domains.every(({workspace_id: owner}) => owner === domains[0]?.workspace_id);
	return domains.find(({name}) => `.${host}`.endsWith(`.${name}`)) ?? (isAlone ? domains[0] : undefined);
}

/**
 * How many TLS reports are sent to one address per day. A domain may name the address of someone who never requested
 * reports.
 */
const maxReportsPerRecipient = 5;

/**
 * Counts one more TLS report to an address on the day that it is sent. Returns `false` if the address has reached its
 * limit for that day.
 */
export async function claimTlsRecipient(trx: Knex.Transaction, day: string, address: string): Promise<boolean> {
	const claimed = await queryRows(
		trx,
		`insert into tls_report_recipients (day, address, reports) values (?, ?, 1)
			on conflict (day, address) do update set reports = tls_report_recipients.reports + 1
				where tls_report_recipients.reports < ?
			returning reports`,
		[day, address, maxReportsPerRecipient],
	);
	return claimed.length > 0;
}

const headKeys = ['begin_at', 'end_at', 'org', 'report_id'];

/**
 * Removes data of days before `day`, and unsigned data of days before `unprovenDay`, at most `limit` rows of each kind.
 * Returns the largest number of one kind.
 */
export async function purgeAggregates(
	trx: Knex.Transaction,
	{day, unprovenDay}: {readonly day: string; readonly unprovenDay: string},
	limit: number,
): Promise<number> {
	const reportKeys = ['domain_id', ...headKeys, 'proven'];
	const dayKeys = ['domain_id', 'day', ...dmarcKeys];
	const old = [
		['dmarc_reports', reportKeys, `begin_at < ?`, day],
		['dmarc_reports', reportKeys, 'proven = 0 and begin_at < ?', unprovenDay],
		['dmarc_days', dayKeys, 'day < ?', day],
		['dmarc_days', dayKeys, 'n > signed and signed = 0 and day < ?', unprovenDay],
		['tls_reports', ['domain', ...headKeys], 'begin_at < ?', day],
		['tls_report_days', ['day', 'domain', 'policy', 'result'], 'day < ?', day],
		['tls_reports_sent', ['day', 'domain'], 'day < ?', day],
		['tls_report_recipients', ['day', 'address'], 'day < ?', day],
	] as const;
	let max = 0;
	for (const [table, keys, isOld, before] of old) {
		const batch = trx(table).whereRaw(isOld, [before]).limit(limit).select(keys);
		max = Math.max(
			max,
			await trx(table)
				.whereIn([...keys], batch)
				.delete(),
		);
	}
	const mixed = trx('dmarc_days')
		.whereRaw('n > signed and signed > 0 and day < ?', [unprovenDay])
		.limit(limit)
		.select(dayKeys);
	const reduced = await trx('dmarc_days')
		.whereIn(dayKeys, mixed)
		.update({n: trx.ref('signed')});
	return Math.max(max, reduced);
}
