import {gzipSync} from 'node:zlib';
import type {AggregateReport} from '../mail/aggregate.ts';
import {decodeText} from './decode.ts';
import {readDmarcReport} from './dmarc-report.ts';
import {fieldOf, leavesOf, type Mail, type Part, readContentType, readMail} from './mime.ts';
import {readTlsReport} from './tls-report.ts';
import {isGzip, isZip, unpack} from './unpack.ts';
import {XmlFault} from './xml.ts';

/** A report in a mail, or why it cannot be read, a clause. */
type FoundAggregate = {readonly kind: AggregateReport['kind']; readonly report: AggregateReport | string};

/** Octets of an attachment: packed ones are a tenth of what they hold. */
const largestAttachment = 10 * 1024 * 1024;

/** The aggregate report that a mail brings, as an attachment or as its whole body; null: it brings none. Never throws. */
export function readAggregate(mail: Mail, raw: Buffer): FoundAggregate | null {
	if (!leavesOf(mail.root).some(mayHoldReport)) {
		return null;
	}
	// Once more with room for large bodies, which no other mail needs.
	for (const part of leavesOf(readMail(raw, largestAttachment).root).filter(mayHoldReport)) {
		const found = reportIn(part);
		if (found !== null && (typeof found.report === 'object' || isMeantAsReport(mail, part))) {
			return found;
		}
	}
	return null;
}

/**
 * A mail with a report that was saved without its own: XML, JSON, gzip or zip. A text: why the archive cannot be read. Null: the
 * bytes are something else.
 */
export function mailOfReport(bytes: Buffer): Buffer | string | null {
	const unpacked = unpack(bytes);
	if (!unpacked.ok) {
		return unpacked.fault;
	}
	const begin = unpacked.bytes.subarray(0, 4096).toString('latin1').replaceAll('\0', '');
	const isReport = /<(?:[\w.-]+:)?feedback[\s>]|"(?:organization-name|policies)"/.test(begin);
	if (!isReport || !/^[^\w-]*[<{]/.test(begin)) {
		return null;
	}
	const packed = isGzip(bytes) || isZip(bytes) ? bytes : gzipSync(bytes);
	const type = `application/${isZip(packed) ? 'zip' : 'gzip'}`;
	const head = `Subject: Report Domain:\r\nContent-Type: ${type}\r\nContent-Transfer-Encoding: base64`;
	return Buffer.from(`${head}\r\n\r\n${packed.toString('base64').replace(/.{76}/g, '$&\r\n')}\r\n`);
}

/** By the subject (RFC 7489 §7.2.1.1, RFC 8460 §5.3) or the file's name: an archive in a letter is no broken report. */
function isMeantAsReport({root}: Mail, part: Part): boolean {
	return (
		/\breport[\s-]+(?:domain|for)\b/i.test(fieldOf(root.fields, 'subject') ?? '') ||
		/^[^!]+![^!]+!\d+!\d+/.test(nameOf(part)) ||
		ofTls.test(part.type)
	);
}

const ofTls = /^application\/tlsrpt\+/;
const archives = /^(?:application|multipart)\/(?:x-)?(?:gzip|zip|zip-compressed|gzip-compressed|tlsrpt\+gzip)$/;
const documents = /^(?:text|application)\/(?:xml|json|tlsrpt\+json)$/;
const names = /\.(?:xml|json|gz|gzip|zip)$/i;

/** By its type, or by its name under a type that says nothing: reporters are careless with both. */
function mayHoldReport(part: Part): boolean {
	return (
		archives.test(part.type) ||
		documents.test(part.type) ||
		(/^(?:application\/|text\/plain$)/.test(part.type) && names.test(nameOf(part)))
	);
}

function nameOf({fields, parameters}: Part): string {
	const disposition = readContentType(fieldOf(fields, 'content-disposition'));
	return disposition.parameters.filename ?? parameters.name ?? '';
}

function reportIn(part: Part): FoundAggregate | null {
	const bytes = part.body();
	const isTls = ofTls.test(part.type) || /\.json(?:\.gz)?$/i.test(nameOf(part));
	const unpacked = unpack(bytes);
	if (!unpacked.ok) {
		return {kind: isTls ? 'tls' : 'dmarc', report: unpacked.fault};
	}
	const begin = unpacked.bytes.subarray(0, 1024).toString('latin1').replaceAll('\0', '').trimStart();
	const isJson = begin.startsWith('{');
	if (!isJson && !/^(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\s*</.test(begin)) {
		return isTls && !isGzip(bytes) && !isZip(bytes) ? {kind: 'tls', report: 'it is no JSON'} : null;
	}
	const kind = isJson ? 'tls' : 'dmarc';
	try {
		const charset = /^[^>]{0,200}encoding\s*=\s*["']([\w-]{1,40})/.exec(begin)?.[1];
		const text = decodeText(unpacked.bytes, charset);
		const report = isJson ? readTlsReport(text) : readDmarcReport(text);
		return report === null ? null : {kind, report};
	} catch (error) {
		if (error instanceof XmlFault) {
			return {kind, report: error.message};
		}
		throw error;
	}
}
