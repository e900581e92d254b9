import {gzipSync} from 'node:zlib';
import type {AggregateReport} from '../../mail/aggregate.ts';
import {decodeText, decodeWords} from '../../mail/decode.ts';
import {readDmarcReport} from './dmarc-report.ts';
import {collectLeaves, fileNameOf, findField, type Mail, type Part, readMail} from './mime.ts';
import {readTlsReport} from './tls-report.ts';
import {isGzip, isZip, unpack} from './unpack.ts';
import {XmlProblem} from './xml.ts';

/** A report found in a message, or why it cannot be read, as a clause. */
type FoundAggregate = {readonly kind: AggregateReport['kind']; readonly report: AggregateReport | string};

/** Octets of an attachment. Compressed reports are about a tenth of their content. */
const maxAttachmentBytes = 10 * 1024 * 1024;

/** How many times a report may have been forwarded as an attached message. */
const maxForwards = 3;

/**
 * Returns the aggregate report in a message, or `null` if it has none. The report may be an attachment, the whole body,
 * or inside a forwarded message. Never throws.
 */
export function readAggregate(mail: Mail, raw: Buffer, forwards = 0): FoundAggregate | null {
	if (!collectLeaves(mail.root).some(part => mayHoldReport(part) || isMessage(part))) {
		return null;
	}
	// Only messages that may hold a report are read again with room for large bodies.
	for (const part of collectLeaves(readMail(raw, maxAttachmentBytes).root)) {
		const aggregate = isMessage(part) ? forwardedReport(part, forwards + 1) : attachedReport(mail, part);
		if (aggregate !== null) {
			return aggregate;
		}
	}
	return null;
}

function forwardedReport(part: Part, forwards: number): FoundAggregate | null {
	const raw = part.body();
	return forwards > maxForwards ? null : readAggregate(readMail(raw), raw, forwards);
}

function attachedReport(mail: Mail, part: Part): FoundAggregate | null {
	const aggregate = mayHoldReport(part) ? reportIn(mail, part) : null;
	return typeof aggregate?.report === 'object' || isMeantAsReport(mail, part) ? aggregate : null;
}

/**
 * Wraps a report that was saved without its message (XML, JSON, gzip or zip) in a message. Returns a text if the
 * archive cannot be read, and `null` if the bytes are not a report.
 */
export function mailOfReport(bytes: Buffer): Buffer | string | null {
	const unpacked = unpack(bytes);
	if (!unpacked.ok) {
		return unpacked.problem;
	}
	if (!hasReportMarkup(unpacked.bytes)) {
		return null;
	}
	const packed = isGzip(bytes) || isZip(bytes) ? bytes : gzipSync(bytes);
	const type = `application/${isZip(packed) ? 'zip' : 'gzip'}`;
	const head = `Subject: Report Domain:\r\nContent-Type: ${type}\r\nContent-Transfer-Encoding: base64`;
	return Buffer.from(`${head}\r\n\r\n${packed.toString('base64').replace(/.{76}/g, '$&\r\n')}\r\n`);
}

/** Whether bytes, in any charset, begin with markup that only reports have. */
function hasReportMarkup(bytes: Buffer): boolean {
	const head = bytes.subarray(0, 4096).toString('latin1').replaceAll('\0', '');
	const isReport = /<(?:[\w.-]+:)?feedback[\s>]|"(?:organization-name|policies)"/.test(head);
	return isReport && /^[^\w-]*[<{]/.test(head);
}

/**
 * Judges by the subject (RFC 7489 §7.2.1.1, RFC 8460 §5.3) or the file name, so that any other attached archive is not
 * mistaken for a broken report.
 */
function isMeantAsReport({root}: Mail, part: Part): boolean {
	const isAnnounced = /\breport[\s-]+(?:domain|for)\b/i.test(decodeWords(findField(root.fields, 'subject') ?? ''));
	// Office documents are zip files, too.
	const mayBeReport = isLabeled(part) || fileNameOf(part) === '';
	return (isAnnounced && mayBeReport) || reportName.test(fileNameOf(part)) || tlsReportType.test(part.type);
}

/** `reporter!domain!begin!end` is the file name of a report. */
const reportName = /^[^!]+!([^!]+)!\d+!\d+/;
const tlsReportType = /^application\/tlsrpt\+/;
const archiveType = /^application\/(?:x-)?(?:gzip|zip|zip-compressed|gzip-compressed)$/;
const documentType = /^(?:text|application)\/(?:xml|json|tlsrpt\+json)$/;
const reportExtension = /\.(?:xml|json|gz|gzip|zip)$/i;

const genericType = /^(?:application\/|text\/plain$)/;

/** Checks the type, the name and the first bytes, because reporters get any of them wrong. */
function mayHoldReport(part: Part): boolean {
	return isLabeled(part) || (genericType.test(part.type) && hasReport(part.body()));
}

function isLabeled(part: Part): boolean {
	const isNamed = genericType.test(part.type) && reportExtension.test(fileNameOf(part));
	return isNamed || [tlsReportType, archiveType, documentType].some(type => type.test(part.type));
}

const hasReport = (bytes: Buffer): boolean => isGzip(bytes) || isZip(bytes) || hasReportMarkup(bytes);

function isMessage(part: Part): boolean {
	return /^message\/(?:rfc822|global)$/.test(part.type) || /\.eml$/i.test(fileNameOf(part));
}

function reportIn({root}: Mail, part: Part): FoundAggregate | null {
	const bytes = part.body();
	const isTls = tlsReportType.test(part.type) || /\.json(?:\.gz)?$/i.test(fileNameOf(part));
	const unpacked = unpack(bytes);
	if (!unpacked.ok) {
		return {kind: isTls ? 'tls' : 'dmarc', report: unpacked.problem};
	}
	const head = unpacked.bytes
		.subarray(0, 1024)
		.toString('latin1')
		.replaceAll('\0', '')
		.replace(/^(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\s*/, '');
	const isJson = head.startsWith('{');
	if (!isJson && !head.startsWith('<')) {
		return isTls && !isGzip(bytes) && !isZip(bytes) ? {kind: 'tls', report: 'it is not JSON'} : null;
	}
	const kind = isJson ? 'tls' : 'dmarc';
	try {
		const charset = /^[^>]{0,200}encoding\s*=\s*["']([\w-]{1,40})/.exec(head)?.[1];
		const text = decodeText(unpacked.bytes, charset);
		const report = isJson ? readTlsReport(text, domainsNamed(root, part)) : readDmarcReport(text);
		return report === null ? null : {kind, report};
	} catch (error) {
		if (error instanceof XmlProblem) {
			return {kind, report: error.message};
		}
		throw error;
	}
}

/** Returns the domains that a TLS report names outside its policies (RFC 8460 §5.1, §5.3). */
function domainsNamed({fields}: Part, part: Part): string[] {
	const subject = decodeWords(findField(fields, 'subject') ?? '');
	return [
		findField(fields, 'tls-report-domain') ?? '',
		reportName.exec(fileNameOf(part))?.[1] ?? '',
		/\breport[\s-]+domain:\s*<?([^\s<>]+)/i.exec(subject)?.[1] ?? '',
	];
}
