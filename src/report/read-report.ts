import type {Classify} from '../mail/bounce.ts';
import type {Reading} from '../mail/report.ts';
import {readFeedback} from './arf.ts';
import {isAutoReply} from './auto-reply.ts';
import {readClues} from './clues.ts';
import {readDsn} from './dsn.ts';
import {type Mail, readMail} from './mime.ts';
import {reportOfSender, senderOf} from './of-sender.ts';
import {readText} from './read-text.ts';
import {readStructured, type Structured} from './structured.ts';
import {readUnsubscribe} from './unsubscribe.ts';

/** Reads a mail that came back: what it is, and what it says of which recipient. Never throws, whatever the bytes. */
export function readReport(raw: Buffer, classify: Classify): Reading {
	const mail = readMail(raw);
	const structured = readStructured(mail);
	return {
		...whatItSays(mail, structured, classify),
		clues: readClues(mail, structured),
		fault: mail.fault ?? (structured.status?.cut ? 'too many recipients' : null),
	};
}

function whatItSays(mail: Mail, structured: Structured, classify: Classify): Pick<Reading, 'kind' | 'reports'> {
	const feedback = readFeedback(mail, structured);
	if (feedback) {
		return {kind: 'arf', reports: feedback};
	}
	const {status, returned} = structured;
	const notified = status && readDsn(mail, {status, returned}, classify);
	if (notified) {
		return {kind: 'dsn', reports: notified};
	}
	const told = readText(mail, classify);
	if (told) {
		return {kind: 'text', reports: told};
	}
	const asked = readUnsubscribe(mail);
	if (asked) {
		return {kind: 'other', reports: asked};
	}
	if (!isAutoReply(mail)) {
		return {kind: 'other', reports: []};
	}
	const quiet = {action: 'none', rule: null, matched: null} as const;
	return {kind: 'auto_reply', reports: senderOf(mail) === null ? [] : [reportOfSender(mail, quiet)]};
}
