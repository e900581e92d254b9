import type {Classify} from '../mail/bounce.ts';
import type {Reading} from '../mail/report.ts';
import {feedbackFields, readFeedback} from './arf.ts';
import {readClues} from './clues.ts';
import {readDsn, statusOf} from './dsn.ts';
import {type Mail, readMail} from './mime.ts';

/** Reads a mail that came back: what it is, and what it says of which recipient. Never throws, whatever the bytes. */
export function readReport(raw: Buffer, classify: Classify): Reading {
	const mail = readMail(raw);
	const {fault} = mail;
	const clues = readClues(mail, [...(statusOf(mail)?.message ?? []), ...(feedbackFields(mail) ?? [])]);
	return {...whatItSays(mail, classify), clues, fault};
}

function whatItSays(mail: Mail, classify: Classify): Pick<Reading, 'kind' | 'reports'> {
	const feedback = readFeedback(mail);
	if (feedback) {
		return {kind: 'arf', reports: feedback};
	}
	const notified = readDsn(mail, classify);
	return notified ? {kind: 'dsn', reports: notified} : {kind: 'other', reports: []};
}
