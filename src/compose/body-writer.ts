import {isUtf8} from 'node:buffer';
import {type Constant, joined, type Pieces, toBuffer, withoutControls} from '../kit/text.ts';
import {idsIn} from '../mail/content-id.ts';
import {withoutLastLines, writeRelaxed} from '../mail/dkim-canonical.ts';
import {readMediaType} from '../mail/media-type.ts';
import type {Attachment} from '../mail/message.ts';
import {asciiField, encodedWords, type HeaderField, headerField, type RenderedMessage} from './header-field.ts';

/** A part of a body: finished ASCII, text to encode as quoted-printable, or bytes to encode as base64. */
type BodyPart = {readonly ascii: string} | {readonly text: Pieces} | {readonly bytes: Uint8Array};

/** Both buffers are valid until the next body is written. */
export type Body = {
	readonly octets: Buffer;
	/** The relaxed form (RFC 6376 §3.4.4), for signatures. */
	readonly canonical: Buffer;
};

const initialRoom = 512 * 1024;
const softLine = Buffer.from('=\r\n', 'latin1');

/**
 * Writes bodies together with their relaxed form. Each constant of a text is encoded once. It always begins a line of
 * its own, after a soft break, so that its octets are the same in every message.
 */
export class BodyWriter {
	readonly #encodedConstants = new WeakMap<Constant, QuotedPrintable>();
	readonly #buffers = [Buffer.allocUnsafeSlow(initialRoom), Buffer.allocUnsafeSlow(initialRoom)] as const;

	readonly #exactConstantRoom = (constant: Constant): number => this.#encode(constant).octets.length;

	write(parts: readonly BodyPart[]): Body {
		// For most bodies, the upper bound suffices.
		const max = roomFor(parts, maxConstantRoom);
		const room = max <= initialRoom ? max : roomFor(parts, this.#exactConstantRoom);
		const [octets, canonical] =
			room <= initialRoom ? this.#buffers : [Buffer.allocUnsafe(room), Buffer.allocUnsafe(room)];
		const writing: Writing = {octets, at: 0, lineStart: 0, canonical, canonicalAt: 0};
		for (const part of parts) {
			if ('text' in part) {
				this.#writePieces(part.text, writing);
			} else if ('bytes' in part) {
				const from = writing.at;
				writing.at += writeBase64Lines(part.bytes, octets, from);
				writing.canonicalAt += octets.copy(canonical, writing.canonicalAt, from, writing.at);
			} else {
				const from = writing.at;
				writing.at += octets.write(part.ascii, from, 'latin1');
				writing.canonicalAt = writeRelaxed(octets.subarray(from, writing.at), canonical, writing.canonicalAt);
			}
		}
		return {
			octets: octets.subarray(0, writing.at),
			canonical: withoutLastLines(canonical.subarray(0, writing.canonicalAt)),
		};
	}

	#writePieces(pieces: Pieces, writing: Writing): void {
		writing.lineStart = writing.at;
		let isAfterCr = false;
		for (const piece of pieces) {
			const text = typeof piece === 'string' ? piece : piece.text;
			// A CR and an LF at the start of the next piece are one line end.
			const shouldSkipLf = isAfterCr && text.startsWith('\n');
			if (typeof piece === 'string') {
				writeQuotedPrintable(shouldSkipLf ? text.slice(1) : text, writing);
			} else {
				writeConstant(this.#encode(piece), shouldSkipLf ? 2 : 0, writing);
			}
			isAfterCr = text === '' ? isAfterCr : text.endsWith('\r');
		}
	}

	#encode(constant: Constant): QuotedPrintable {
		let encoded = this.#encodedConstants.get(constant);
		if (!encoded) {
			encoded = quotedPrintable(constant.text);
			this.#encodedConstants.set(constant, encoded);
		}
		return encoded;
	}
}

const maxConstantRoom = ({text}: Constant): number => quotedPrintableRoom(text.length);

/** Returns the number of octets that the encoded parts need at most. */
function roomFor(parts: readonly BodyPart[], constantRoom: (constant: Constant) => number): number {
	let room = 0;
	for (const part of parts) {
		if ('text' in part) {
			for (const piece of part.text) {
				room +=
					typeof piece === 'string'
						? quotedPrintableRoom(piece.length)
						: softLine.length + constantRoom(piece);
			}
		} else {
			room += 'ascii' in part ? part.ascii.length : base64Length(part.bytes.length);
		}
	}
	return room;
}

/** `skipped` is the number of octets at the start that have been written already. */
function writeConstant({octets, canonical, column}: QuotedPrintable, skipped: number, writing: Writing): void {
	if (writing.at > writing.lineStart && octets[0] !== 0x0d) {
		copy(softLine, softLine, writing);
	}
	if (skipped === 0) {
		copy(octets, canonical, writing);
	} else {
		copy(octets.subarray(skipped), canonical.subarray(skipped), writing);
	}
	writing.lineStart = writing.at - column;
}

function copy(octets: Uint8Array, canonical: Uint8Array, writing: Writing): void {
	writing.octets.set(octets, writing.at);
	writing.at += octets.length;
	writing.canonical.set(canonical, writing.canonicalAt);
	writing.canonicalAt += canonical.length;
}

const lineLength = 76;
const bytesPerLine = 57;

/** Returns the number of octets that `writeBase64Lines` writes. */
export function base64Length(bytes: number): number {
	const length = 4 * Math.ceil(bytes / 3);
	return length + 2 * Math.max(0, Math.ceil(bytes / bytesPerLine) - 1);
}

/**
 * Writes base64 in lines of 76 characters, joined by CRLF, without one at the end (RFC 2045 §6.8).
 *
 * @returns the number of octets written
 */
export function writeBase64Lines(content: Uint8Array, output: Buffer, start: number): number {
	const length = base64Length(content.length);
	const text = toBuffer(content).toString('base64');
	// The text is first written at the end of the space; then each line is moved forward to its place.
	const end = start + length;
	let from = end - text.length;
	output.write(text, from, 'latin1');
	for (let at = start; at < end; at += lineLength + 2) {
		output.copyWithin(at, from, Math.min(from + lineLength, end));
		from += lineLength;
		if (at + lineLength < end) {
			output[at + lineLength] = 0x0d;
			output[at + lineLength + 1] = 0x0a;
		}
	}
	return length;
}

const encode = 0;
const literal = 1;
/** Literal except at the start of a line: `.` would need dot-stuffing there, `From ` an mbox escape (RFC 2049 §3). */
const notAtLineStart = 2;
/** Literal except at the end of a line. */
const whiteSpace = 3;
const cr = 4;
const lf = 5;

// All other octets are encoded, including those of non-ASCII characters.
const kinds = new Uint8Array(256).fill(literal, 0x21, 0x7f);
kinds[0x3d] = encode; // =
kinds[0x2e] = notAtLineStart; // .
kinds[0x46] = notAtLineStart; // F
kinds[0x20] = whiteSpace;
kinds[0x09] = whiteSpace;
kinds[0x0d] = cr;
kinds[0x0a] = lf;
const hex = Buffer.from('0123456789ABCDEF', 'latin1');

const textLineLength = 75; // Plus a `=` if the line continues: 76 in total.
/** Three bytes become nine octets, and every 73 octets need at most one soft break of three. */
const maxPerUnit = 9.4;

/** Text being written, and its relaxed form (RFC 6376 §3.4.4). */
type Writing = {
	readonly octets: Buffer;
	at: number;
	/** Where the current line began. */
	lineStart: number;
	readonly canonical: Buffer;
	canonicalAt: number;
};

/** Returns the maximum number of octets for this many UTF-16 units as quoted-printable. */
const quotedPrintableRoom = (units: number): number => Math.ceil(units * maxPerUnit) + 3;

const sharedUtf8 = Buffer.allocUnsafeSlow(64 * 1024);
const octetsPerUnit = 3;

/**
 * Writes a text as quoted-printable UTF-8 (RFC 2045 §6.7): 7-bit, in lines of at most 76 octets. CRLF, CR and LF all
 * become CRLF. More text may follow on the same line, because the last octet is never white space.
 */
function writeQuotedPrintable(text: string, writing: Writing): void {
	// Lone surrogates become U+FFFD here. Reading octets is several times as fast as reading a string's characters.
	const room = octetsPerUnit * text.length;
	const utf8 = room <= sharedUtf8.length ? sharedUtf8 : Buffer.allocUnsafe(room);
	const end = utf8.write(text, 'utf8');
	const {octets, canonical} = writing;
	let {at, lineStart, canonicalAt} = writing;
	for (let index = 0; index < end; index++) {
		const octet = utf8[index] as number;
		const kind = kinds[octet] as number;
		if (kind === literal && at - lineStart < textLineLength) {
			octets[at++] = octet;
			canonical[canonicalAt++] = octet;
			continue;
		}

		if (kind >= cr) {
			if (kind === cr && index + 1 < end && utf8[index + 1] === 0x0a) {
				index++;
			}
			octets[at++] = 0x0d;
			octets[at++] = 0x0a;
			canonical[canonicalAt++] = 0x0d;
			canonical[canonicalAt++] = 0x0a;
			lineStart = at;
			continue;
		}

		let isLiteral = kind === literal;
		if (kind === whiteSpace) {
			isLiteral = index + 1 < end && utf8[index + 1] !== 0x0d && utf8[index + 1] !== 0x0a;
		} else if (kind === notAtLineStart) {
			isLiteral = at > lineStart && at - lineStart < textLineLength;
		}
		if (at - lineStart + (isLiteral ? 1 : 3) > textLineLength) {
			octets[at++] = 0x3d;
			octets[at++] = 0x0d;
			octets[at++] = 0x0a;
			canonical[canonicalAt++] = 0x3d;
			canonical[canonicalAt++] = 0x0d;
			canonical[canonicalAt++] = 0x0a;
			lineStart = at;
		}
		if (!isLiteral) {
			const [high, low] = [hex[octet >>> 4] as number, hex[octet & 15] as number];
			octets[at++] = 0x3d;
			octets[at++] = high;
			octets[at++] = low;
			canonical[canonicalAt++] = 0x3d;
			canonical[canonicalAt++] = high;
			canonical[canonicalAt++] = low;
			continue;
		}
		// White space left unencoded is never at a line end, so each run becomes one space in relaxed form.
		if (kind !== whiteSpace) {
			canonical[canonicalAt++] = octet;
		} else if (at === lineStart || kinds[octets[at - 1] as number] !== whiteSpace) {
			canonical[canonicalAt++] = 0x20;
		}
		octets[at++] = octet;
	}
	writing.at = at;
	writing.lineStart = lineStart;
	writing.canonicalAt = canonicalAt;
}

/** Quoted-printable text that begins a line. */
type QuotedPrintable = {
	readonly octets: Buffer;
	readonly canonical: Buffer;
	/** The number of octets in its last line. */
	readonly column: number;
};

export function quotedPrintable(text: string): QuotedPrintable {
	const room = quotedPrintableRoom(text.length);
	const [octets, canonical] = [Buffer.allocUnsafe(room), Buffer.allocUnsafe(room)];
	const writing = {octets, at: 0, lineStart: 0, canonical, canonicalAt: 0};
	writeQuotedPrintable(text, writing);
	return {
		octets: Buffer.from(octets.subarray(0, writing.at)),
		canonical: Buffer.from(canonical.subarray(0, writing.canonicalAt)),
		column: writing.at - writing.lineStart,
	};
}

/** A MIME entity: its header fields, and its body in parts. */
type Entity = {readonly fields: readonly HeaderField[]; readonly body: readonly BodyPart[]};

/** Returns the body of a letter and the fields that describe it: text and HTML as alternatives, plus attachments. */
export function letterBody(message: RenderedMessage): Entity {
	// A boundary with `=_` cannot occur in quoted-printable or base64 (RFC 2045 §6.7), so no search is needed.
	const boundary = `=_${message.ref.replace(/[^0-9A-Za-z]/g, '').slice(0, 45)}`;
	const {inline, attached} = groupAttachments(message);
	const text = textEntity('text/html', message.html);
	const html =
		inline.length === 0
			? text
			: multipart(
					'related',
					`${boundary}_r`,
					[text, ...inline.map(file => attachmentEntity(file, 'inline'))],
					['type="text/html";'],
				);
	const content =
		message.text === null
			? html
			: multipart('alternative', `${boundary}_a`, [textEntity('text/plain', message.text), html]);
	const {fields, body} =
		attached.length === 0
			? content
			: multipart('mixed', `${boundary}_m`, [content, ...attached.map(file => attachmentEntity(file))]);
	return {fields, body: [...body, {ascii: '\r\n'}]};
}

/** RFC 2387: attachments that the HTML references by `cid:` are grouped with it; all others follow at the end. */
function groupAttachments({attachments, html}: RenderedMessage) {
	const isReferenced = ({contentId}: Attachment) => typeof contentId === 'string' && ids.has(contentId);
	const hasIds = attachments.some(({contentId}) => typeof contentId === 'string');
	const ids = hasIds ? idsIn(typeof html === 'string' ? html : joined(html)) : new Set<string>();
	return {inline: attachments.filter(isReferenced), attached: attachments.filter(file => !isReferenced(file))};
}

function textEntity(type: string, text: string | Pieces): Entity {
	return {
		fields: [
			headerField('Content-Type', [`${type};`, 'charset=utf-8']),
			headerField('Content-Transfer-Encoding', ['quoted-printable']),
		],
		body: [{text: typeof text === 'string' ? [text] : text}],
	};
}

function attachmentEntity({contentType, filename, content, contentId}: Attachment, type = 'attachment'): Entity {
	const {words, isEncoded} = disposition(filename, type);
	return {
		fields: [
			headerField(
				'Content-Type',
				contentTypeWords(contentType, content, isEncoded ? legacyNameWords(filename) : []),
			),
			headerField('Content-Disposition', words),
			...(typeof contentId === 'string' ? [asciiField('Content-ID', `<${contentId}>`)] : []),
			headerField('Content-Transfer-Encoding', ['base64']),
		],
		body: [{bytes: content}],
	};
}

/** Adds a charset to UTF-8 text. Without one, readers assume ASCII, or the charset of their own system. */
function contentTypeWords(contentType: string, content: Uint8Array, name: readonly string[]): string[] {
	const {type, parameters} = readMediaType(contentType) ?? {type: 'application/octet-stream', parameters: new Map()};
	const all = new Map(parameters);
	if (!all.has('charset') && /^text\//i.test(type) && isUtf8(content)) {
		all.set('charset', 'utf-8');
	}
	const words = [type, ...[...all].map(([key, value]) => `${key}=${value}`)];
	return [...words.slice(0, -1).map(word => `${word};`), `${words.at(-1)}${name.length > 0 ? ';' : ''}`, ...name];
}

/**
 * Repeats the file name for readers without RFC 2231: encoded words in quotes, which RFC 2047 §5 forbids but they
 * expect.
 */
function legacyNameWords(filename: string): string[] {
	const words = encodedWords(withoutControls(filename));
	return words.map((word, index) => `${index === 0 ? 'name="' : ''}${word}${index === words.length - 1 ? '"' : ''}`);
}

function multipart(subtype: string, boundary: string, parts: readonly Entity[], words: readonly string[] = []): Entity {
	const all: BodyPart[] = [];
	for (const {fields, body} of parts) {
		let ascii = `${all.length === 0 ? '' : '\r\n'}--${boundary}\r\n`;
		for (const {line} of fields) {
			ascii += `${line}\r\n`;
		}
		all.push({ascii: `${ascii}\r\n`}, ...body);
	}
	all.push({ascii: `\r\n--${boundary}--`});
	return {
		fields: [headerField('Content-Type', [`multipart/${subtype};`, ...words, `boundary="${boundary}"`])],
		body: all,
	};
}

const maxSegmentLength = 60;

/** Returns the words of a Content-Disposition field. Unusual names are encoded by RFC 2231. */
function disposition(filename: string, type: string): {readonly words: readonly string[]; readonly isEncoded: boolean} {
	const name = withoutControls(filename);
	if (/^[A-Za-z0-9_-][A-Za-z0-9 ._-]*$/.test(name) && name.length <= maxSegmentLength && !/ {2}| $/.test(name)) {
		return {words: [`${type};`, `filename="${name}"`], isEncoded: false};
	}

	const parts = extendedParameter('filename', name);
	const words = parts.map((part, index) => (index < parts.length - 1 ? `${part};` : part));
	return {words: [`${type};`, ...words], isEncoded: true};
}

/** Returns a parameter with any text, in one or more segments (RFC 2231). */
export function extendedParameter(name: string, text: string): string[] {
	const segments = percentSegments(text);
	return segments.length === 1
		? [`${name}*=utf-8''${segments[0]}`]
		: segments.map((segment, index) => `${name}*${index}*=${index === 0 ? "utf-8''" : ''}${segment}`);
}

// No segment ends within a UTF-8 sequence, because some readers decode each segment separately.
function percentSegments(text: string): string[] {
	const segments: string[] = [];
	let segment = '';
	for (const character of text) {
		let encoded = '';
		for (const byte of Buffer.from(character, 'utf8')) {
			const ascii = String.fromCharCode(byte);
			encoded += /[A-Za-z0-9._-]/.test(ascii) ? ascii : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
		}
		if (segment.length + encoded.length > maxSegmentLength) {
			segments.push(segment);
			segment = '';
		}
		segment += encoded;
	}
	return [...segments, segment];
}
