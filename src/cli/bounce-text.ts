import type {Judgement} from '../mail/bounce.ts';
import type {Reading, Report, ReportAction, ReportKind} from '../mail/report.ts';
import type {Terminal} from './terminal.ts';
import {folded, printable} from './text.ts';

const kinds: Readonly<Record<ReportKind, string>> = {
	dsn: 'A delivery status notification.',
	text: 'A bounce in words.',
	arf: 'A feedback report.',
	auto_reply: 'An automatic reply: it says nothing of a delivery, and nothing follows from it.',
	other: 'Neither a bounce nor a feedback report: nothing follows from it.',
};

const actions: Readonly<Record<Exclude<ReportAction, 'failed'>, string>> = {
	delayed: 'delayed, the host goes on trying',
	delivered: 'delivered',
	relayed: 'handed on to a host that reports no more',
	expanded: 'delivered to a list, which hands it on',
	complaint: 'its reader called the mail spam',
	unsubscribe: 'its reader wants no more of it',
	none: 'reported, and no complaint',
};

/** How a mail is read and why, for people: lines of at most the terminal's width. */
export function explained({kind, reports, fault}: Reading, terminal: Terminal): string[] {
	return [
		kind === 'other' && reports.length > 0 ? 'A mail that asks for no more.' : kinds[kind],
		...(fault === null ? [] : [`Read in part: ${fault}.`]),
		...reports.flatMap(report => [
			'',
			terminal.bold(named(report)),
			...rows(kind === 'auto_reply' ? [['subject', report.reason]] : rowsOf(report), terminal),
		]),
	];
}

/** The same of a reply that was given on the command line. */
export function explainedReply(judgement: Judgement, terminal: Terminal): string[] {
	return rows([['what', whatFailed(judgement)], ...judged(judgement)], terminal);
}

type Row = readonly [name: string, value: string];

function named({recipient, originalRecipient}: Report): string {
	const name = printable(recipient ?? 'a recipient that is not named');
	return originalRecipient === null ? name : `${name} (sent to ${printable(originalRecipient)})`;
}

function rowsOf(report: Report): Row[] {
	const {action, status, code, host, reason, feedbackType, rule, matched} = report;
	const said = [status, code === null ? null : `reply code ${code}`].filter(each => each !== null).join(', ');
	const refused = action === 'failed' || action === 'delayed';
	return [
		['what', action === 'failed' ? whatFailed(report) : actions[action]],
		...(feedbackType === null ? [] : [['feedback', feedbackType] as const]),
		...(refused
			? judged(report)
			: [['effect', effectOf(report)] as const, ...(rule === null ? [] : ruleRows({rule, matched}))]),
		...(said === '' ? [] : [['status', said] as const]),
		...(host === null ? [] : [['host', host] as const]),
		...(reason === '' ? [] : [['reason', reason] as const]),
	];
}

function judged(judgement: Pick<Report, 'category' | 'suppresses' | 'rule' | 'matched'>): Row[] {
	return [['category', judgement.category ?? 'none'], ['effect', effectOf(judgement)], ...ruleRows(judgement)];
}

function whatFailed({type}: Pick<Report, 'type'>): string {
	return type === 'permanent'
		? 'failed, permanent: the address takes no mail'
		: 'failed, transient: the address may be good';
}

function effectOf({suppresses, action}: Pick<Report, 'suppresses'> & {readonly action?: ReportAction}): string {
	if (action === 'unsubscribe') {
		return 'unsubscribes, as the link in the mail does';
	}
	return suppresses ? 'suppresses the address' : 'suppresses nothing';
}

function ruleRows({rule, matched}: Pick<Report, 'rule' | 'matched'>): Row[] {
	return [['rule', rule ?? 'none matched'], ...(matched === null ? [] : [['matched', matched] as const])];
}

const indent = 2;
const nameWidth = 10;

function rows(pairs: readonly Row[], {width}: Terminal): string[] {
	const margin = ' '.repeat(indent + nameWidth);
	return pairs.flatMap(([name, value]) => {
		const [first = '', ...rest] = folded(printable(value), width, margin);
		return [`${' '.repeat(indent)}${name.padEnd(nameWidth)}${first.slice(margin.length)}`, ...rest];
	});
}

/** What a mail says of one recipient, as scripts see it. */
export function reportView(report: Report) {
	return {
		recipient: report.recipient,
		original_recipient: report.originalRecipient,
		action: report.action,
		status: report.status,
		type: report.type,
		category: report.category,
		suppresses: report.suppresses,
		reason: report.reason,
		code: report.code,
		host: report.host,
		rule: report.rule,
		matched: report.matched,
		feedback_type: report.feedbackType,
	};
}
