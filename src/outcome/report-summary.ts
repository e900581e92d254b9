import {parseAddress} from '../mail/address.ts';
import type {Report, ReportAction} from '../mail/report.ts';

/**
 * The summary of one mail's reports for an address (comparison form); undefined: nothing. If some reports name the
 * address, the others are about other recipients. If none does, all are about it: through an alias or a forwarding the
 * mail went to addresses that we do not know (R3.3).
 */
export function summaryOf(reports: readonly Report[], addressKey: string): Report | undefined {
	const naming = reports.filter(report => names(report, addressKey));
	const about = naming.length > 0 ? naming : reports;
	const wish = about.find(({action}) => action === 'complaint' || action === 'unsubscribe');
	if (wish) {
		return wish;
	}
	const having = (...actions: readonly ReportAction[]) => about.filter(({action}) => actions.includes(action));
	const failed = having('failed');
	// The recipient failed only if no address behind its address was reached or may yet be; it is gone only if all of
	// them are.
	const [other] = [...having('delivered', 'relayed', 'expanded'), ...having('delayed')];
	return other ?? failed.find(({suppresses}) => !suppresses) ?? failed[0] ?? about[0];
}

/** Whether the report is about this address. */
export function names({recipient, originalRecipient}: Report, addressKey: string): boolean {
	return [recipient, originalRecipient].some(named => named !== null && keyOf(named) === addressKey);
}

function keyOf(address: string): string {
	const parsed = parseAddress(address, {utf8Local: true});
	return parsed.ok ? parsed.address.key : address.toLowerCase();
}

const longestName = 320;
const longestText = 1024;

/** A report as it may be stored: short for any mail. */
export function cutReport(report: Report): Report {
	const cut = (text: string | null, length: number) => text?.slice(0, length) ?? null;
	return {
		...report,
		recipient: cut(report.recipient, longestName),
		originalRecipient: cut(report.originalRecipient, longestName),
		status: cut(report.status, longestName),
		host: cut(report.host, longestName),
		rule: cut(report.rule, longestName),
		matched: cut(report.matched, longestName),
		reason: report.reason.slice(0, longestText),
		feedbackType: cut(report.feedbackType, longestName),
	};
}
