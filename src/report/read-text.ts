import type {Classify, Evidence, Judgement} from '../mail/bounce.ts';
import type {Report} from '../mail/report.ts';
import {reasonOf} from './reason.ts';
import type {BounceText} from './text/bounce-text.ts';
import {evidenceIn, replyAlone} from './text/evidence.ts';
import type {Finding} from './text/finding.ts';
import {findingsOf} from './text/findings.ts';
import {returnedRecipient} from './text/returned-recipient.ts';
import {actionOf, arrival} from './text/signs.ts';

const mostReports = 100;

/**
 * Reads a bounce that is told in words (R3.12): what it says of each recipient. Null: the mail is none, whatever it may
 * say of bounces. Never throws; time and memory are bounded, for 64 KB of text are read.
 */
export function readText(bounce: BounceText, classify: Classify): Report[] | null {
	const findings = findingsOf(bounce).slice(0, mostReports);
	if (findings.length === 0) {
		return null;
	}
	const action = actionOf(bounce);
	const hidden = findings.some(({recipient}) => recipient === null) ? returnedRecipient(bounce) : null;
	const whole = findings.length === 1 ? bounce.said : null;
	return findings.map(finding =>
		reportOf({...finding, ...(action && {action}), recipient: finding.recipient ?? hidden}, whole, classify),
	);
}

function reportOf(finding: Finding, whole: string | null, classify: Classify): Report {
	const {recipient, originalRecipient} = finding;
	// A reason may stand above its recipient; of one recipient all of it is told.
	const text = whole === null || /\p{L}{3}/u.test(finding.text) ? finding.text : whole;
	const {evidence, judgement} = judge(finding, text, classify);
	const action = finding.action ?? arrival(evidence) ?? 'failed';
	const said = {
		recipient,
		originalRecipient: originalRecipient && originalRecipient !== recipient ? originalRecipient : null,
		action,
		status: evidence.enhanced ?? evidence.status,
		code: evidence.code,
		host: evidence.host,
		reason: reasonOf(text),
		feedbackType: null,
	} as const;
	return action === 'failed'
		? {...said, ...judgement}
		: {...said, type: 'none', category: null, suppresses: false, rule: null, matched: null};
}

/** From the reply alone to all that is about a recipient: daemons put words of their own around what a host said. */
function judge(finding: Finding, text: string, classify: Classify): {evidence: Evidence; judgement: Judgement} {
	const evidence = evidenceOf(finding, text);
	const judgement = classify({...evidence, text: replyAlone(text)});
	return {evidence, judgement: judgement.category === 'undetermined' ? classify(evidence) : judgement};
}

function evidenceOf({phase, host}: Finding, text: string): Evidence {
	const found = evidenceIn(text);
	return {...found, phase: phase ?? found.phase, host: host ?? found.host};
}
