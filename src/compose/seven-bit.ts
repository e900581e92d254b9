import {isAscii} from 'node:buffer';
import {splitParts} from '../kit/multipart.ts';
import {isGoodLine, longLineIn, maxLineLength} from '../mail/source.ts';
import {base64Length, quotedPrintable, writeBase64Lines} from './body-writer.ts';
import {repairField} from './repair-field.ts';

const maxDepth = 10;
/** A multipart with more parts is not changed, because a million of them would exhaust a renderer's memory. */
const maxParts = 1000;
/** The octets of part headers that are repaired, in total. The thread that accepts the message does this. */
const maxHeaderBytes = 64 * 1024;
/** The octets of parts and nested parts that are scanned: four times the largest message. */
const maxScannedBytes = 40 * 1024 * 1024;
/** Longer texts become base64, which takes less memory to write. */
const maxTextLength = 256 * 1024;

/** Without `shouldEncode`, bodies to encode are left empty. `problem` is the first one. The budgets are in octets. */
type Work = {readonly shouldEncode: boolean; problem: string | null; headerBudget: number; scanBudget: number};

const empty = Buffer.alloc(0);
const newWork = (shouldEncode: boolean): Work => ({
	shouldEncode,
	problem: null,
	headerBudget: maxHeaderBytes,
	scanBudget: maxScannedBytes,
});

/**
 * Converts a MIME entity with CRLF line ends to 7-bit: encodes parts that are `8bit`, `binary` or have lines of more
 * than 998 octets (RFC 2045 §6), and repairs the fields of parts. Then servers without 8BITMIME accept it, and no relay
 * converts what was signed (RFC 6376 §5.3). Valid parts and signed ones (RFC 1847 §2.1) are not changed.
 */
export function sevenBit(entity: Buffer): Buffer {
	return convertEntity(entity, newWork(true), 0, 'text/plain');
}

const tooLong = (where: string): string =>
	`the body has a line of more than ${maxLineLength} octets${where}: use quoted-printable or base64`;

/** Returns why an entity would still have a line of more than 998 octets or signed non-ASCII octets, or `null`. */
export function sevenBitProblem(entity: Buffer): string | null {
	const work = newWork(false);
	const longLineStart = longLineIn(convertEntity(entity, work, 0, 'text/plain'));
	return work.problem ?? (longLineStart === -1 ? null : tooLong(''));
}

/** @param defaultType the type of an entity that states none (RFC 2046 §5.1.5) */
function convertEntity(entity: Buffer, work: Work, depth: number, defaultType: string): Buffer {
	// A part may have no header at all.
	const headEnd = entity[0] === 0x0d && entity[1] === 0x0a ? -2 : entity.indexOf('\r\n\r\n');
	if (headEnd === -1) {
		return entity;
	}
	const body = entity.subarray(headEnd + 4);
	const originalHead = entity.toString('latin1', 0, headEnd + 2);
	// The message's own header was repaired when the message was accepted.
	const head = depth === 0 ? originalHead : repairHead(originalHead, work);
	const withBody = (octets: Buffer) => Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), octets]);
	const unchanged = head === originalHead ? entity : withBody(body);
	const isLong = longLineIn(body) !== -1;
	if (!isLong && isAscii(body)) {
		return unchanged;
	}
	const giveUp = (where: string) => {
		work.problem ??= isLong ? tooLong(where) : null;
		return unchanged;
	};
	work.scanBudget -= body.length;
	if (depth > maxDepth) {
		return giveUp(`, in a part more than ${maxDepth} deep`);
	}
	if (work.scanBudget < 0) {
		return giveUp(', in a large part that is nested too deeply');
	}
	const statedType = findField(head, 'content-type');
	const type = statedType.trim() === '' ? defaultType : statedType;
	if (/^\s*multipart\/signed\b/i.test(type)) {
		work.problem ??= `a signed part (multipart/signed) has a line of more than ${maxLineLength} octets or octets that are not ASCII: encode it as quoted-printable before it is signed`;
		return unchanged;
	}
	if (/^\s*multipart\//i.test(type)) {
		const boundary = boundaryOf(type);
		const parts = boundary === '' ? [] : splitParts(body, boundary, {max: maxParts + 1});
		if (parts.length === 0 || parts.length > maxParts) {
			return giveUp(parts.length === 0 ? ' in a multipart without parts' : `, and more than ${maxParts} parts`);
		}
		const partType = /^\s*multipart\/digest\b/i.test(type) ? 'message/rfc822' : 'text/plain';
		const convert = (part: Buffer) => convertEntity(part, work, depth + 1, partType);
		return entityWith(head, '7bit', [...convertParts(body, parts, boundary, convert)]);
	}
	const encoding = findField(head, 'content-transfer-encoding').trim().toLowerCase();
	if (encoding === 'base64' || encoding === 'quoted-printable') {
		// With non-ASCII octets it is neither, and no guess would improve it.
		if (!isLong) {
			return unchanged;
		}
		const lines = encoding === 'base64' ? base64Lines : quotedPrintableLines;
		return withBody(work.shouldEncode ? lines(body) : empty);
	}
	if (isLong && !/^(?:7bit|8bit|binary|)$/.test(encoding)) {
		return giveUp(` in the encoding ${encoding.replace(/[^ -~]/g, '?').slice(0, 20)}`);
	}
	if (/^\s*message\/(?:rfc822|global)\b/i.test(type)) {
		return entityWith(head, '7bit', [convertEntity(body, work, depth + 1, 'text/plain')]);
	}
	return work.shouldEncode ? encodeLeaf(head, body, type, statedType === '') : withBody(empty);
}

/** Encodes text as quoted-printable and everything else as base64. Adds a type to text if the header states none. */
function encodeLeaf(head: string, body: Buffer, type: string, isUntyped: boolean): Buffer {
	const text = body.length <= maxTextLength ? body.toString('utf8') : '\ufffd';
	if (!/^\s*text\//i.test(type) || text.includes('\ufffd')) {
		return entityWith(head, 'base64', [encodeBase64(body)]);
	}
	const typedHead = isUntyped ? `${head}Content-Type: text/plain; charset=utf-8\r\n` : head;
	return entityWith(typedHead, 'quoted-printable', [quotedPrintable(text).octets]);
}

/** Returns the header of a part, repaired where possible. */
function repairHead(head: string, work: Work): string {
	if (isGoodLine(head) || head.length > work.headerBudget) {
		return head;
	}
	work.headerBudget -= head.length;
	const lines = head.slice(0, -2).split(/\r\n(?![\t ])/);
	const repaired = lines.map(line => {
		const [, name = ''] = /^([!-9;-~]{1,100}):/.exec(line) ?? [];
		const result = name === '' ? null : repairField({name: name.toLowerCase(), line});
		if (result?.ok) {
			return result.line;
		}
		work.problem ??=
			result !== null && longLineIn(Buffer.from(line, 'latin1')) !== -1 ? `in a part ${result.problem}` : null;
		return line;
	});
	return `${repaired.join('\r\n')}\r\n`;
}

/** Yields the body of a multipart with its parts converted. */
function* convertParts(
	body: Buffer,
	parts: readonly Buffer[],
	boundary: string,
	convert: (part: Buffer) => Buffer,
): Generator<Buffer> {
	let position = 0;
	for (const part of parts) {
		const start = part.byteOffset - body.byteOffset;
		// The CRLF before a boundary belongs to the boundary.
		const end = part.at(-1) === 0x0d ? start + part.length - 1 : start + part.length;
		yield textAroundParts(body.subarray(position, start), boundary);
		yield convert(body.subarray(start, end));
		position = end;
	}
	yield textAroundParts(body.subarray(position), boundary);
}

/**
 * Returns the text around the parts. Readers ignore text before the first part and after the last (RFC 2046 §5.1.1), so
 * it is removed if its lines are too long.
 */
function textAroundParts(octets: Buffer, boundary: string): Buffer {
	if (longLineIn(octets) === -1) {
		return octets;
	}
	const retained = Buffer.allocUnsafe(octets.length);
	const delimiter = Buffer.from(`--${boundary}`, 'latin1');
	let length = 0;
	// This works octet by octet, because there may be millions of lines.
	for (let [start, end] = [0, 0]; start < octets.length; start = end) {
		while (end < octets.length && octets[end] !== 0x0a) {
			end++;
		}
		end = Math.min(end + 1, octets.length);
		if (octets[start] === 0x0d || startsWithAt(octets, start, delimiter)) {
			for (let index = start; index < end; index++) {
				retained[length++] = octets[index] as number;
			}
		}
	}
	return retained.subarray(0, length);
}

function startsWithAt(octets: Buffer, start: number, text: Buffer): boolean {
	let index = 0;
	while (index < text.length && octets[start + index] === text[index]) {
		index++;
	}
	return index === text.length;
}

function entityWith(head: string, encoding: string, body: readonly Buffer[]): Buffer {
	const field = `Content-Transfer-Encoding: ${encoding}\r\n`;
	const encoded = encodingField.test(head) ? head.replace(encodingField, field) : `${head}${field}`;
	return Buffer.concat([Buffer.from(`${encoded}\r\n`, 'latin1'), ...body]);
}

const encodingField = /^content-transfer-encoding[\t ]*:.*\r\n(?:[\t ].*\r\n)*/im;

/** Returns the unfolded value of the first field with this name, or an empty text. */
function findField(head: string, name: string): string {
	const value = new RegExp(`^${name}[\\t ]*:(.*(?:\\r\\n[\\t ].*)*)`, 'im').exec(head)?.[1] ?? '';
	return value.replaceAll('\r\n', '');
}

function boundaryOf(type: string): string {
	const [, quoted, plain = ''] = /;\s*boundary\s*=\s*(?:"([^"]*)"|([^\s;"]+))/i.exec(type) ?? [];
	return quoted ?? plain;
}

function encodeBase64(content: Buffer): Buffer {
	const output = Buffer.allocUnsafe(base64Length(content.length));
	writeBase64Lines(content, output, 0);
	return output;
}

const encodedLine = 76;

/** Rewraps base64 in lines of 76 characters. Its line ends carry no meaning (RFC 2045 §6.8). */
function base64Lines(body: Buffer): Buffer {
	const lines = Buffer.allocUnsafe(body.length + 2 * Math.ceil(body.length / encodedLine));
	let [length, column] = [0, 0];
	for (const octet of body) {
		if (octet === 0x0d || octet === 0x0a) {
			continue;
		}
		if (column === encodedLine) {
			lines[length++] = 0x0d;
			lines[length++] = 0x0a;
			column = 0;
		}
		lines[length++] = octet;
		column++;
	}
	return lines.subarray(0, length);
}

/** Adds soft line breaks to long lines of quoted-printable text (RFC 2045 §6.7). */
function quotedPrintableLines(body: Buffer): Buffer {
	const lines = body.toString('latin1').split('\r\n').flatMap(breakLine);
	return Buffer.from(lines.join('\r\n'), 'latin1');
}

function breakLine(line: string): string[] {
	const parts: string[] = [];
	let rest = line;
	while (rest.length > maxLineLength) {
		// Sequences like `=3D` stay whole.
		const sign = rest.lastIndexOf('=', encodedLine - 2);
		const end = sign > encodedLine - 4 ? sign : encodedLine - 1;
		parts.push(`${rest.slice(0, end)}=`);
		rest = rest.slice(end);
	}
	return [...parts, rest];
}
