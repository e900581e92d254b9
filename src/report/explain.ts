import type {Evidence, Judgement} from '../mail/bounce.ts';
import type {Phase} from '../mail/outcome.ts';
import type {Reading, Report, ReportAction, ReportKind} from '../mail/report.ts';
import {replyIn} from './reply.ts';

// How a mail or a reply is read and why, for people: the same words in a terminal and on a page.

const kinds: Readonly<Record<ReportKind, string>> = {
	dsn: 'A delivery status notification.',
	text: 'A bounce in words.',
	arf: 'A feedback report.',
	auto_reply: 'An automatic reply: it says nothing about delivery, and nothing follows from it.',
	provider: "A provider's event.",
	dmarc: 'A DMARC aggregate report: who sent mail with a domain (mailctl domain dmarc).',
	tls: 'A TLS report: how senders reached a domain of ours.',
	other: 'Neither a bounce nor a feedback report; nothing follows from it.',
};

/** What a mail is, in a sentence. */
export function kindOf({kind, reports}: Pick<Reading, 'kind' | 'reports'>): string {
	return kind === 'other' && reports.length > 0 ? 'A mail that asks for no more.' : kinds[kind];
}

const actions: Readonly<Record<Exclude<ReportAction, 'failed'>, string>> = {
	delayed: 'delayed, the host goes on trying',
	delivered: 'delivered',
	relayed: 'handed on to a host that reports no more',
	expanded: 'delivered to a list, which hands it on',
	complaint: 'its reader called the mail spam',
	unsubscribe: 'its reader wants no more of it',
	opened: 'opened, says the provider',
	clicked: 'a link was followed, says the provider',
	none: 'reported, and no complaint',
};

export type Row = readonly [name: string, value: string];

/** What a mail says of one recipient, what follows from it, and by which rule. */
export function reportRows(kind: ReportKind, report: Report): readonly Row[] {
	const {action, status, code, host, reason, feedbackType, rule, matched} = report;
	if (kind === 'auto_reply') {
		return [['subject', reason]];
	}
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

/** The same of a host's reply. */
export function replyRows(judgement: Judgement): readonly Row[] {
	return [['what', whatFailed(judgement)], ...judged(judgement)];
}

/** A reply, given by a person, in the form in which refusals are classified; or its fault and the fix. */
export function evidenceOf(
	reply: string,
	phase: Phase,
	mx: string | null,
):
	| {readonly ok: true; readonly evidence: Evidence}
	| {readonly ok: false; readonly fault: string; readonly fix: string} {
	const {code, enhanced, text} = replyIn(reply);
	if (code === null) {
		return {ok: false, fault: 'the reply has no code', fix: "begin it with one, as in '550 5.1.1 no such user'"};
	}
	if (code < 400) {
		return {ok: false, fault: `the reply ${code} refuses nothing`, fix: 'give one that begins with 4 or 5'};
	}
	return {ok: true, evidence: {phase, code, enhanced, status: null, text, host: mx?.toLowerCase() ?? null}};
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
