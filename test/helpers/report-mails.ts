import {createHash} from 'node:crypto';
import {readReport} from '../../src/inbound/reports/read-report.ts';
import type {Reading, Report} from '../../src/mail/report.ts';
import {classify} from './classify.ts';

/** A mail of lines, with CRLF. */
export function mailOf(...lines: readonly string[]): Buffer {
	return Buffer.from(lines.flatMap(line => line.split('\n')).join('\r\n'));
}

export type Parts = {
	/** Of the whole; `multipart/report`. */
	readonly type?: string;
	readonly header?: readonly string[];
	/** Each part with its header, a blank line between them. */
	readonly parts: readonly string[];
};

/** A mail of parts as they are put, the boundary being what no part holds. */
export function multipartOf({
	type = 'multipart/report; report-type=delivery-status',
	header = [],
	parts,
}: Parts): Buffer {
	const boundary = createHash('sha256').update(parts.join()).digest('hex').slice(0, 20);
	return mailOf(
		'Return-Path: <>',
		'From: MAILER-DAEMON@mx.example (Mail Delivery System)',
		'Subject: Undelivered Mail Returned to Sender',
		...header,
		`Content-Type: ${type}; boundary="${boundary}"`,
		'',
		'This is a MIME-encapsulated message.',
		'',
		...parts.flatMap(part => [`--${boundary}`, part]),
		`--${boundary}--`,
		'',
	);
}

/** A DSN: the status alone, or what is said to people before it. */
export function dsnOf(status: string, human = 'Your message could not be delivered.'): Buffer {
	return multipartOf({
		parts: [`Content-Type: text/plain\n\n${human}\n`, `Content-Type: message/delivery-status\n\n${status}\n`],
	});
}

/** By the shipped rules. */
export function read(raw: Buffer): Reading {
	return readReport(raw, classify);
}

/** What a mail says of its one recipient. */
export function readOne(raw: Buffer): Report {
	const {reports} = read(raw);
	const [report] = reports;
	if (!report || reports.length > 1) {
		throw new Error(`There are ${reports.length} reports.`);
	}
	return report;
}
