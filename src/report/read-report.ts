import type {Classify, Evidence, Judgement} from '../mail/bounce.ts';
import type {Reading, Report} from '../mail/report.ts';
import {readFeedback} from './arf.ts';
import {readClues} from './clues.ts';
import {readDsn} from './dsn.ts';
import {leavesOf, type Mail, readMail} from './mime.ts';
import {reasonOf} from './reason.ts';
import {isAutoReply, readUnsubscribe, reportOfSender, senderOf} from './sender-mail.ts';
import {readStructured, type Structured} from './structured.ts';
import {type BounceText, bounceTextOf, longestText} from './text/bounce-text.ts';
import {evidenceIn, replyAlone} from './text/evidence.ts';
import {type Finding, mostFindings} from './text/finding.ts';
import {findingsOf} from './text/findings.ts';
import {readLetter} from './text/generic.ts';
import {returnedParts} from './text/returned.ts';
import {returnedRecipient} from './text/returned-recipient.ts';
import {actionOf, arrival, daemonSigns} from './text/signs.ts';

/** A forwarded mail may be forwarded again. */
const deepest = 3;

/** Reads a returned mail: its kind, and its outcome for each recipient. Never throws, for any bytes. */
export function readReport(raw: Buffer, classify: Classify): Reading {
	return readAt(raw, classify, 0);
}

function readAt(raw: Buffer, classify: Classify, depth: number): Reading {
	const mail = readMail(raw);
	const text = bounceTextOf(mail);
	const reading = readingOf(mail, text, classify);
	if (reading.kind !== 'other' || reading.reports.length > 0 || reading.fault !== null || depth >= deepest) {
		return reading;
	}
	const leaves = leavesOf(mail.root);
	const [attached, second] = returnedParts(leaves);
	if (attached === undefined || second !== undefined) {
		return reading; // Of several nobody knows which is meant.
	}
	const inside = readAt(attached.body(), classify, depth + 1);
	if (isOfDaemon(text) && leaves[0] === attached && inside.kind !== 'other') {
		return inside;
	}
	const isReport = inside.kind === 'dsn' || inside.kind === 'arf';
	// Without a clue it matches no mail of ours: a person asks about a bounce.
	return isReport && Object.values(inside.clues).some(found => found.length > 0)
		? {...inside, forwarded: true}
		: reading;
}

/** Whether a gateway wrapped a bounce in a mail of its own. */
function isOfDaemon(text: BounceText): boolean {
	const {from, subject, other} = daemonSigns(text);
	return from && subject && !other;
}

function readingOf(mail: Mail, text: BounceText, classify: Classify): Reading {
	const structured = readStructured(mail);
	const {kind, reports} = whatItSays(mail, text, structured, classify);
	const isCut = structured.status?.cut === true || (kind === 'text' && isTextCut(text, reports));
	const fault = mail.fault ?? (isCut ? 'too many recipients' : null);
	// What was left out may say the contrary.
	return {kind, reports: fault === null ? reports : [], clues: readClues(mail, structured), fault};
}

/** Whether the text has more recipients than the reports. */
function isTextCut({said}: BounceText, reports: readonly Report[]): boolean {
	return reports.length >= mostFindings || (reports.length > 1 && said.length >= longestText);
}

function whatItSays(
	mail: Mail,
	text: BounceText,
	structured: Structured,
	classify: Classify,
): Pick<Reading, 'kind' | 'reports'> {
	const feedback = readFeedback(mail, text, structured);
	if (feedback) {
		return {kind: 'arf', reports: feedback};
	}
	const {status, returned} = structured;
	const notified = status && readDsn(mail, text, {status, returned}, classify);
	if (notified) {
		return {kind: 'dsn', reports: notified};
	}
	const told = readText(text, classify);
	if (told) {
		return {kind: 'text', reports: told};
	}
	const asked = readUnsubscribe(mail);
	if (asked) {
		return {kind: 'other', reports: asked};
	}
	if (!isAutoReply(mail, text)) {
		return {kind: 'other', reports: []};
	}
	const quiet = {action: 'none', rule: null, matched: null} as const;
	return {kind: 'auto_reply', reports: senderOf(mail) === null ? [] : [reportOfSender(mail, quiet)]};
}

/**
 * Reads a bounce in words (R3.12): the outcome for each recipient. Null: not a bounce, even if it mentions bounces.
 * Never throws; time and memory are bounded, as only 64 KB of text are read.
 */
export function readText(bounce: BounceText, classify: Classify): Report[] | null {
	const found = findingsOf(bounce);
	const findings = (found.length > 0 ? found : readLetter(bounce, classify)).slice(0, mostFindings);
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
	// A reason may precede its recipient. With one recipient the whole text is kept.
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
