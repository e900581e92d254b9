import type {Knex} from 'knex';
import {parseAddress} from '../mail/address.ts';
import {idFloor} from '../mail/ids.ts';
import type {Report} from '../mail/report.ts';
import {findLastMailed, findReportedCopies} from '../store/inbound/reports.ts';
import {cutReport} from './gist.ts';
import type {Match, ReadMail} from './matches.ts';

const mailedWithinMs = 90 * 86_400_000;
/** A report may name more; what a reporter sends us all at once is none. */
const mostNamed = 20;

/**
 * The copies that a trusted reporter's signed report without a token names by their address: the newest mail to it, if it is
 * of the last 90 days and only one workspace mailed it, for nobody knows which of several is meant (R3.19).
 */
export async function matchesOfReporter(trx: Knex.Transaction, item: ReadMail): Promise<Match[]> {
	if (item.reporter === null || item.reading.kind !== 'arf') {
		return [];
	}
	const wishes = item.reading.reports.filter(({action}) => action === 'complaint' || action === 'unsubscribe');
	const since = idFloor('msg', Date.parse(item.cameIn.receivedAt) - mailedWithinMs);
	const matches: Match[] = [];
	for (const report of wishes.slice(0, mostNamed)) {
		const key = keyNamed(report);
		const messageIds = key === null ? [] : await findLastMailed(trx, key, since);
		if (messageIds.length === 1) {
			const copies = await findReportedCopies(trx, {messageIds});
			matches.push(
				...copies
					.filter(({role}) => role === 'to')
					.map(copy => ({item, copy, via: 'reporter' as const, report: cutReport(report)})),
			);
		}
	}
	return matches;
}

function keyNamed({recipient, originalRecipient}: Report): string | null {
	const parsed = parseAddress(originalRecipient ?? recipient ?? '', {utf8Local: true});
	return parsed.ok ? parsed.address.key : null;
}
