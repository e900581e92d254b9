import {readMail} from '../../../../src/inbound/reports/mime.ts';
import {readText} from '../../../../src/inbound/reports/read-report.ts';
import {readBounceText} from '../../../../src/inbound/reports/text/bounce-text.ts';
import type {Evidence} from '../../../../src/mail/bounce.ts';
import type {Report} from '../../../../src/mail/report.ts';

/** Header fields of a bounce, beside those that every one has. */
export type Header = Readonly<Record<string, string>>;

/** The bytes of a mail with this text. */
export function mailOf(header: Header, text: string): Buffer {
	const fields = {
		From: 'Mail Delivery Subsystem <MAILER-DAEMON@mx.example.org>',
		To: 'b0sender@bounce.example.com',
		...header,
	};
	return Buffer.from(
		`${Object.entries(fields)
			.map(([name, value]) => `${name}: ${value}\r\n`)
			.join('')}\r\n${text.replaceAll('\n', '\r\n')}`,
	);
}

/** What is read of a bounce: its reports, and what the rule table was asked about each. */
export function readBounce(
	header: Header,
	text: string,
): {readonly reports: Report[] | null; readonly asked: Evidence[]} {
	const asked: Evidence[] = [];
	const reports = readText(
		readBounceText(readMail(mailOf({Subject: 'Returned mail', ...header}, text))),
		evidence => {
			asked.push(evidence);
			return {
				category: 'undetermined',
				type: 'transient',
				suppresses: false,
				rule: evidence.phase,
				matched: null,
			};
		},
	);
	return {reports, asked};
}

/** The same, a line per recipient: `neko@example.org failed 550 5.1.1 rcpt mx.example.org`. */
export function linesOf(header: Header, text: string): string[] {
	const {reports} = readBounce(header, text);
	return (reports ?? []).map(({recipient, action, code, status, host, originalRecipient, rule}) =>
		[recipient, action, code, status, rule, host, originalRecipient && `for ${originalRecipient}`]
			.map(value => value ?? '-')
			.join(' ')
			.replace(/ -$/, ''),
	);
}
