import type {Classify, Evidence, Judgement} from '../mail/bounce.ts';
import type {Report} from '../mail/report.ts';
import type {Mail} from './mime.ts';
import {reasonOf} from './reason.ts';
import {bounceTextOf} from './text/bounce-text.ts';
import {evidenceIn} from './text/evidence.ts';
import type {Finding} from './text/finding.ts';
import {findingsOf} from './text/findings.ts';
import {returnedRecipient} from './text/returned-recipient.ts';
import {isWarning} from './text/signs.ts';

const mostReports = 100;

/**
 * Reads a bounce that is told in words (delivery.md R3.12): what it says of each recipient. Null: the mail is none, whatever it may
 * say of bounces. Never throws; time and memory are bounded, for 64 KB of text are read.
 */
export function readText(mail: Mail, classify: Classify): Report[] | null {
	const bounce = bounceTextOf(mail);
	const findings = findingsOf(bounce).slice(0, mostReports);
	if (findings.length === 0) {
		return null;
	}
	const action = isWarning(bounce) ? 'delayed' : 'failed';
	const hidden = findings.some(({recipient}) => recipient === null) ? returnedRecipient(bounce) : null;
	// A reason may stand above its recipient, or apart; of one recipient all of it is told.
	const whole = findings.length === 1 ? bounce.said : null;
	return findings.map(finding =>
		reportOf({...finding, action: finding.action ?? action, recipient: finding.recipient ?? hidden}, whole, classify),
	);
}

function reportOf(finding: Finding, whole: string | null, classify: Classify): Report {
	const {recipient, originalRecipient, text, action = 'failed', feedbackType} = finding;
	const {evidence, judgement} = judge(finding, whole, classify);
	const said = {
		recipient,
		originalRecipient: originalRecipient ?? null,
		action,
		status: evidence.enhanced ?? evidence.status,
		code: evidence.code,
		host: evidence.host,
		reason: reasonOf(/\w/.test(text) ? text : (whole ?? '')),
		feedbackType: feedbackType ?? null,
	} as const;
	return action === 'failed'
		? {...said, ...judgement}
		: {...said, type: 'none', category: null, suppresses: action === 'complaint', rule: null, matched: null};
}

function judge(finding: Finding, whole: string | null, classify: Classify): {evidence: Evidence; judgement: Judgement} {
	const evidence = evidenceOf(finding, finding.text);
	const judgement = classify(evidence);
	const isClear = judgement.category !== 'undetermined' || evidence.code !== null || evidence.enhanced !== null;
	if (isClear || whole === null) {
		return {evidence, judgement};
	}
	const wider = evidenceOf(finding, whole);
	return {evidence: wider, judgement: classify(wider)};
}

function evidenceOf({phase, host}: Finding, text: string): Evidence {
	const found = evidenceIn(text);
	return {...found, phase: phase ?? found.phase, host: host ?? found.host};
}
