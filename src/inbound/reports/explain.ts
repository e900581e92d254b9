import type {Classification, Evidence} from '../../mail/bounce.ts';
import type {Phase} from '../../mail/outcome.ts';
import type {Reading, Report, ReportAction, ReportKind} from '../../mail/report.ts';
import {replyIn} from './reply.ts';

// Explains to people how a message or a reply was classified. The terminal and the dashboard show the same text.

const kindSentences: Readonly<Record<ReportKind, string>> = {
	dsn: 'A delivery status notification.',
	text: 'A plain-text bounce.',
	arf: 'A feedback report.',
	auto_reply: 'An automatic reply. It says nothing about delivery and has no effect.',
	provider: "A provider's event.",
	dmarc: 'A DMARC aggregate report: who sends mail as a domain (mailctl domain dmarc).',
	tls: 'A TLS report: how securely senders reached one of your domains.',
	other: 'Neither a bounce nor a feedback report. It has no effect.',
};

/** Returns a sentence that says what a message is. */
export function kindOf({kind, reports}: Pick<Reading, 'kind' | 'reports'>): string {
	return kind === 'other' && reports.length > 0 ? 'An unsubscribe request.' : kindSentences[kind];
}

const actionTexts: Readonly<Record<Exclude<ReportAction, 'failed'>, string>> = {
	delayed: 'delayed, the mail server keeps trying',
	delivered: 'delivered',
	relayed: 'relayed to a mail server that sends no further reports',
	expanded: 'delivered to a list, which forwards it',
	complaint: 'the recipient marked the message as spam',
	unsubscribe: 'the recipient asked to unsubscribe',
	opened: 'opened, according to the provider',
	clicked: 'a link was clicked, according to the provider',
	none: 'reported, but not as a complaint',
};

export type Row = readonly [name: string, value: string];

/** Returns rows on what a message reports about one recipient: the outcome, its effect and the rule. */
export function reportRows(kind: ReportKind, report: Report): readonly Row[] {
	const {action, status, code, host, reason, feedbackType, rule, matched} = report;
	if (kind === 'auto_reply') {
		return [['subject', reason]];
	}
	const codes = [status, code === null ? null : `reply code ${code}`].filter(part => part !== null).join(', ');
	const isRefused = action === 'failed' || action === 'delayed';
	return [
		['what', action === 'failed' ? whatFailed(report) : actionTexts[action]],
		...(feedbackType === null ? [] : [['feedback', feedbackType] as const]),
		...(isRefused
			? judgementRows(report)
			: [['effect', toEffect(report)] as const, ...(rule === null ? [] : ruleRows({rule, matched}))]),
		...(codes === '' ? [] : [['status', codes] as const]),
		...(host === null ? [] : [['host', host] as const]),
		...(reason === '' ? [] : [['reason', reason] as const]),
	];
}

/** Returns the same rows for a mail server's reply. */
export function replyRows(judgement: Classification): readonly Row[] {
	return [['what', whatFailed(judgement)], ...judgementRows(judgement)];
}

/** Parses a reply that a person entered, so that it can be classified. Returns the problem and its fix otherwise. */
export function toEvidence(
	reply: string,
	phase: Phase,
	mx: string | null,
):
	| {readonly ok: true; readonly evidence: Evidence}
	| {readonly ok: false; readonly problem: string; readonly fix: string} {
	const {code, enhanced, text} = replyIn(reply);
	if (code === null) {
		return {ok: false, problem: 'the reply has no code', fix: "begin it with one, as in '550 5.1.1 no such user'"};
	}
	if (code < 400) {
		return {ok: false, problem: `the reply ${code} is not a refusal`, fix: 'use one that starts with 4 or 5'};
	}
	return {ok: true, evidence: {phase, code, enhanced, status: null, text, host: mx?.toLowerCase() ?? null}};
}

function judgementRows(judgement: Pick<Report, 'category' | 'suppresses' | 'rule' | 'matched'>): Row[] {
	return [['category', judgement.category ?? 'none'], ['effect', toEffect(judgement)], ...ruleRows(judgement)];
}

function whatFailed({type}: Pick<Report, 'type'>): string {
	return type === 'permanent'
		? 'failed, permanent: the address does not accept mail'
		: 'failed, transient: the address may be valid';
}

function toEffect({suppresses, action}: Pick<Report, 'suppresses'> & {readonly action?: ReportAction}): string {
	if (action === 'unsubscribe') {
		return 'unsubscribes, like the link in the message';
	}
	return suppresses ? 'suppresses the address' : 'suppresses nothing';
}

function ruleRows({rule, matched}: Pick<Report, 'rule' | 'matched'>): Row[] {
	return [['rule', rule ?? 'none matched'], ...(matched === null ? [] : [['matched', matched] as const])];
}
