import type {Knex} from 'knex';
import {dayMs} from '../kit/time.ts';
import type {AggregateReport} from '../mail/aggregate.ts';
import type {CameIn} from '../mail/report.ts';
import {type AggregateEnd, addDmarcReport, addTlsReport} from '../store/aggregate-reports.ts';
import {markRead} from '../store/inbound-mails.ts';
import type {Review} from './matches.ts';
import type {ReportEffect} from './reports.ts';

/** How long what was reported is kept; older reports are not taken. */
export const aggregateDays = 180;

/** A mail with an aggregate report. */
type ReadAggregate = {
	readonly cameIn: CameIn;
	readonly report: AggregateReport;
	/** The domain of a valid DKIM signature of the mail; null: it has none. */
	readonly signedBy: string | null;
	/** In the store's form. */
	readonly at: string;
};

/**
 * Counts an aggregate report once and marks its mail as read. One that is not about a domain of ours, or makes no sense, is kept
 * for a person. `ours`: names of this installation beside those of the store.
 */
export async function recordAggregate(
	trx: Knex.Transaction,
	{cameIn, report, signedBy, at}: ReadAggregate,
	ours: readonly string[],
): Promise<ReportEffect> {
	const end = await add(trx, report, {at, signedBy}, ours);
	const fault = end === 'new' || end === 'known' ? null : faultOf(end, report);
	const kept = fault === null ? null : 'unmatched';
	const reading = JSON.stringify({kind: report.kind, reports: [], tried: []} satisfies Review);
	await markRead(trx, [{id: cameIn.id, at, kept, forgotten: end === 'known', reading: kept && reading, fault}]);
	return {about: [], kept};
}

type End = AggregateEnd | 'untimely' | 'unsigned';

async function add(
	trx: Knex.Transaction,
	report: AggregateReport,
	{at, signedBy}: Pick<ReadAggregate, 'at' | 'signedBy'>,
	ours: readonly string[],
): Promise<End> {
	const now = Date.parse(at);
	if (report.begin <= now - aggregateDays * dayMs || report.end >= now + 2 * dayMs) {
		return 'untimely';
	}
	if (report.kind === 'dmarc') {
		return await addDmarcReport(trx, report, {at, signedBy});
	}
	return signedBy === null ? 'unsigned' : await addTlsReport(trx, report, {at, signedBy}, ours);
}

function faultOf(end: Exclude<End, 'new' | 'known'>, {domain}: AggregateReport): string {
	return {
		foreign: `it is about ${domain}, which is not a verified domain here`,
		too_many: `too many reports about ${domain} of that day from one signer, or unsigned`,
		untimely: 'it is about a time long ago or to come',
		// RFC 8460 §3: such reports are to be ignored.
		unsigned: 'a TLS report needs a valid DKIM signature',
	}[end];
}
