import type {Knex} from 'knex';
import {dayMs} from '../kit/time.ts';
import type {AggregateReport} from '../mail/aggregate.ts';
import type {StoredInbound} from '../mail/report.ts';
import {type AggregateEnd, type Arrival, addDmarcReport, addTlsReport} from '../resources/domains/reports-store.ts';
import {markRead} from '../resources/received/inbound-store.ts';
import type {Review} from './matches.ts';
import type {ReportEffect} from './reports.ts';

/** How many days figures are stored. Older reports are rejected. */
export const aggregateDays = 180;
/** The same for reports that were not signed by their reporter, because anybody could have forged them. */
export const unprovenDays = 30;

/** Incoming mail with an aggregate report. */
type ReadAggregate = {
	readonly inbound: StoredInbound;
	readonly report: AggregateReport;
	/** The domains of the mail's valid DKIM signatures. */
	readonly signers: readonly string[];
	/** In the store's format. */
	readonly at: string;
};

/**
 * Counts an aggregate report once and marks its mail as read. A report that is implausible, or about a domain that is
 * not ours, is stored for review. `ownNames` are this installation's names besides those in the store.
 */
export async function recordAggregate(
	trx: Knex.Transaction,
	{inbound, report, signers, at}: ReadAggregate,
	ownNames: readonly string[],
): Promise<ReportEffect> {
	const end = await add(trx, report, toArrival(report, signers, at), ownNames);
	const fault = end === 'new' || end === 'known' ? null : toFault(end, report);
	const kept = fault === null ? null : 'unmatched';
	const reading = JSON.stringify({kind: report.kind, reports: [], tried: []} satisfies Review);
	await markRead(trx, [{id: inbound.id, at, kept, isDiscarded: end === 'known', reading: kept && reading, fault}]);
	return {about: [], kept};
}

type End = AggregateEnd | 'untimely' | 'unsigned';

/** A DMARC report is proven by a signature of the reporter's own domain or of a subdomain. */
function toArrival(report: AggregateReport, signers: readonly string[], at: string): Arrival {
	const reporterDomains = report.kind === 'dmarc' ? report.reporterDomains : [];
	const signedBy = reporterDomains.find(domain => signers.some(signer => `.${signer}`.endsWith(`.${domain}`)));
	return {at, signedBy: signedBy ?? signers[0] ?? null, isProven: signedBy !== undefined};
}

async function add(
	trx: Knex.Transaction,
	report: AggregateReport,
	arrival: Arrival,
	ownNames: readonly string[],
): Promise<End> {
	const now = Date.parse(arrival.at);
	const days = report.kind === 'dmarc' && !arrival.isProven ? unprovenDays : aggregateDays;
	if (report.begin <= now - days * dayMs || report.end >= now + 2 * dayMs) {
		return 'untimely';
	}
	if (report.kind === 'dmarc') {
		return await addDmarcReport(trx, report, arrival);
	}
	const {signedBy} = arrival;
	return signedBy === null ? 'unsigned' : await addTlsReport(trx, report, {...arrival, signedBy}, ownNames);
}

function toFault(end: Exclude<End, 'new' | 'known'>, {domain}: AggregateReport): string {
	return {
		foreign: `the report is about ${domain}, which is not a verified domain here`,
		too_many: `too many reports about ${domain} for that day are unsigned or from one signer`,
		untimely: 'the reported period is too old or in the future',
		// RFC 8460 §3: unsigned reports are to be ignored.
		unsigned: 'a TLS report needs a valid DKIM signature',
	}[end];
}
