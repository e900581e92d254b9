import type {Classify} from '../mail/bounce.ts';
import type {Reading} from '../mail/report.ts';
import {readFeedback} from './arf.ts';
import {readClues} from './clues.ts';
import {readDsn} from './dsn.ts';
import {leavesOf, type Mail, readMail} from './mime.ts';
import {readText} from './read-text.ts';
import {isAutoReply, readUnsubscribe, reportOfSender, senderOf} from './sender-mail.ts';
import {readStructured, type Structured} from './structured.ts';
import {type BounceText, bounceTextOf} from './text/bounce-text.ts';
import {daemonSigns} from './text/signs.ts';

/** Reads a mail that came back: what it is, and what it says of which recipient. Never throws, whatever the bytes. */
export function readReport(raw: Buffer, classify: Classify): Reading {
	const mail = readMail(raw);
	const text = bounceTextOf(mail);
	const reading = readingOf(mail, text, classify);
	const wrapped = reading.kind === 'other' && reading.reports.length === 0 ? wrappedIn(mail, text) : null;
	return wrapped === null ? reading : readingOf(wrapped, bounceTextOf(wrapped), classify);
}

function readingOf(mail: Mail, text: BounceText, classify: Classify): Reading {
	const structured = readStructured(mail);
	return {
		...whatItSays(mail, text, structured, classify),
		clues: readClues(mail, structured),
		fault: mail.fault ?? (structured.status?.cut ? 'too many recipients' : null),
	};
}

/** The bounce that a gateway on its way put whole into another mail, with no word of its own before it; null: there is none. */
function wrappedIn(mail: Mail, text: BounceText): Mail | null {
	const [first] = leavesOf(mail.root);
	if (first?.type !== 'message/rfc822') {
		return null;
	}
	const {from, subject, other} = daemonSigns(text);
	return from && subject && !other ? readMail(first.body()) : null;
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
