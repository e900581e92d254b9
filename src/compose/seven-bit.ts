import {splitParts} from '../mail/multipart.ts';
import {base64Length, writeBase64Lines} from './body-writer.ts';
import {quotedPrintable} from './quoted-printable.ts';

const deepest = 10;
/** A multipart with more is left as it is: a million of them would take a maker's memory. */
const mostParts = 1000;
/** A longer text becomes base64, which takes less memory to write. */
const longestText = 256 * 1024;

/**
 * A MIME entity with CRLF line ends as 7-bit: parts that are `8bit` or `binary` are encoded (RFC 2045 §6). Hosts that offer no
 * 8BITMIME take it then, and nobody on the way converts what was signed (RFC 6376 §5.3). What is 7-bit already stays as it is.
 */
export function sevenBit(entity: Buffer, depth = 0): Buffer {
	// A part may have no header at all.
	const blank = entity[0] === 0x0d && entity[1] === 0x0a ? -2 : entity.indexOf('\r\n\r\n');
	if (blank === -1 || depth > deepest || !isEightBit(entity.subarray(blank + 4))) {
		return entity;
	}
	const head = entity.toString('latin1', 0, blank + 2);
	const body = entity.subarray(blank + 4);
	const type = fieldOf(head, 'content-type');
	if (/^\s*multipart\//i.test(type)) {
		const boundary = boundaryOf(type);
		const parts = boundary === '' ? [] : splitParts(body, boundary, {most: mostParts + 1});
		return parts.length > mostParts ? entity : joined(head, '7bit', [...convertedParts(body, parts, depth)]);
	}
	if (/^\s*message\/(?:rfc822|global)\b/i.test(type)) {
		return joined(head, '7bit', [sevenBit(body, depth + 1)]);
	}
	const encoding = fieldOf(head, 'content-transfer-encoding').trim().toLowerCase();
	if (encoding === 'base64' || encoding === 'quoted-printable') {
		return entity; // It is neither; no guess would make it better.
	}
	const text = body.length <= longestText ? body.toString('utf8') : '\ufffd';
	const isText = /^\s*(?:text\/|$)/i.test(type) && !text.includes('\ufffd');
	const typed = type === '' && isText ? `${head}Content-Type: text/plain; charset=utf-8\r\n` : head;
	return isText
		? joined(typed, 'quoted-printable', [quotedPrintable(text).octets])
		: joined(typed, 'base64', [base64Of(body)]);
}

/** The body of a multipart, the parts in it converted. */
function* convertedParts(body: Buffer, parts: readonly Buffer[], depth: number): Generator<Buffer> {
	let at = 0;
	for (const part of parts) {
		const start = part.byteOffset - body.byteOffset;
		// The CRLF before a boundary belongs to the boundary.
		const end = part.at(-1) === 0x0d ? start + part.length - 1 : start + part.length;
		yield body.subarray(at, start);
		yield sevenBit(body.subarray(start, end), depth + 1);
		at = end;
	}
	yield body.subarray(at);
}

function joined(head: string, encoding: string, body: readonly Buffer[]): Buffer {
	const field = `Content-Transfer-Encoding: ${encoding}\r\n`;
	const encoded = encodingField.test(head) ? head.replace(encodingField, field) : `${head}${field}`;
	return Buffer.concat([Buffer.from(`${encoded}\r\n`, 'latin1'), ...body]);
}

const encodingField = /^content-transfer-encoding[\t ]*:.*\r\n(?:[\t ].*\r\n)*/im;

/** The value of the first field of a name, unfolded; empty: there is none. */
function fieldOf(head: string, name: string): string {
	const value = new RegExp(`^${name}[\\t ]*:(.*(?:\\r\\n[\\t ].*)*)`, 'im').exec(head)?.[1] ?? '';
	return value.replaceAll('\r\n', '');
}

function boundaryOf(type: string): string {
	const [, quoted, plain = ''] = /;\s*boundary\s*=\s*(?:"([^"]*)"|([^\s;"]+))/i.exec(type) ?? [];
	return quoted ?? plain;
}

function isEightBit(octets: Buffer): boolean {
	for (const octet of octets) {
		if (octet > 0x7f) {
			return true;
		}
	}
	return false;
}

function base64Of(content: Buffer): Buffer {
	const output = Buffer.allocUnsafe(base64Length(content.length));
	writeBase64Lines(content, output, 0);
	return output;
}
