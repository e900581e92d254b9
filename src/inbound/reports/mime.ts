import {isAscii} from 'node:buffer';
import {splitParts} from '../../kit/multipart.ts';
import {
	charsetOfHtml,
	decodeBody,
	decodeText,
	decodeWords,
	isTrustedCharset,
	type TransferEncoding,
} from '../../mail/decode.ts';

/** A header field: its name in lower case, its value unfolded but not decoded. */
export type Field = {readonly name: string; readonly value: string};

/** A part of a message, or the message itself. Bodies are decoded on demand. */
export type Part = {
	readonly fields: readonly Field[];
	/** In lower case, such as `text/plain`. A `multipart/*` without parts becomes `text/plain`. */
	readonly type: string;
	/** Parameters of the content type, with names in lower case. */
	readonly parameters: Readonly<Record<string, string>>;
	/** The parts of a `multipart/*`. A `message/rfc822` is not parsed further (R3.9). */
	readonly parts: readonly Part[];
	/** The body without its transfer encoding, cut at the limit. Empty if there are parts. */
	readonly body: () => Buffer;
	/** The body as text, decoded from its charset. */
	readonly text: () => string;
};

export type Mail = {
	readonly root: Part;
	/** Which limit cut something off, or `null`. */
	readonly fault: string | null;
};

const maxDepth = 10;
const maxParts = 200;
const maxFields = 1000;
const maxHeaderLength = 256 * 1024;
const maxValueLength = 16 * 1024;
const defaultMaxBodyLength = 256 * 1024;

/**
 * Parses the structure of a message (RFC 5322, RFC 2045). It accepts any line endings, a first line `From `, missing
 * blank lines, and boundaries that are never closed or differ from the declared ones. Time and memory are bounded for
 * any input, and the result says what a limit cut off.
 *
 * @param maxBodyLength octets of each body that are read
 */
export function readMail(raw: Buffer, maxBodyLength = defaultMaxBodyLength): Mail {
	const limits: Limits = {parts: maxParts, maxBodyLength, fault: null};
	const root = readPart(firstMail(withLineFeeds(raw)), 0, limits);
	return {root, fault: limits.fault};
}

type FieldLimits = {fault: string | null};
type Limits = FieldLimits & {parts: number; readonly maxBodyLength: number};

function readPart(bytes: Buffer, depth: number, limits: Limits): Part {
	const end = headerEnd(bytes, maxHeaderLength);
	if (end > maxHeaderLength) {
		limits.fault ??= 'a header is too long';
	}
	const fields = readFields(bytes.subarray(0, Math.min(end, maxHeaderLength)), limits);
	const content = bytes.subarray(bytes[end] === 0x0a ? end + 1 : end);
	const contentType = readContentType(findField(fields, 'content-type'));
	const parts = parseParts(content, contentType, depth, limits);
	const isLeaf = parts === null;
	const encoding = transferEncoding(fields);
	const body = once(() => (isLeaf ? decodeBody(content, encoding, limits.maxBodyLength) : Buffer.alloc(0)));
	return {
		fields,
		type: isLeaf && contentType.value.startsWith('multipart/') ? 'text/plain' : contentType.value,
		parameters: contentType.parameters,
		parts: parts ?? [],
		body,
		// Encoded content has its own line endings.
		text: once(() => decodeText(body(), charsetOf(contentType, body())).replaceAll('\r\n', '\n')),
	};
}

/** Prefers the charset declared in an HTML document if the part declares none or a wrong one. */
function charsetOf({value, parameters: {charset}}: ContentType, body: Buffer): string | undefined {
	return value !== 'text/html' || isTrustedCharset(charset, body) ? charset : (charsetOfHtml(body) ?? charset);
}

/** Returns the transfer encoding, however it is spelled, or `null` if it is unknown. */
export function transferEncoding(fields: readonly Field[]): TransferEncoding | null {
	const text = withoutComments(findField(fields, 'content-transfer-encoding') ?? '');
	const name = /^\W*(base[-_ ]?64|quoted[-_ ]?printable)\b/i.exec(text)?.[1]?.toLowerCase();
	return name === undefined ? null : name.startsWith('b') ? 'base64' : 'quoted-printable';
}

/** Returns `null` if there are no parts. */
function parseParts(content: Buffer, {value, parameters}: ContentType, depth: number, limits: Limits): Part[] | null {
	if (!value.startsWith('multipart/')) {
		return null;
	}
	const declared = parameters.boundary ? splitParts(content, parameters.boundary, {max: limits.parts + 1}) : [];
	const guessed = declared.length > 0 ? null : guessBoundary(content);
	const pieces = guessed === null ? declared : splitParts(content, guessed, {max: limits.parts + 1});
	const parts: Part[] = [];
	for (const piece of pieces) {
		if (depth >= maxDepth || limits.parts <= 0) {
			limits.fault = depth >= maxDepth ? 'parts are nested too deeply' : 'too many parts';
			break;
		}
		limits.parts--;
		parts.push(readPart(piece, depth + 1, limits));
	}
	return pieces.length > 0 ? parts : null;
}

/** Returns the first value of a field by its name in lower case. */
export function findField(fields: readonly Field[], name: string): string | null {
	return fields.find(field => field.name === name)?.value ?? null;
}

/** Returns the name of an attached file from either field that may hold it, or an empty string. */
export function fileNameOf({fields, parameters}: Part): string {
	const {filename} = readContentType(findField(fields, 'content-disposition')).parameters;
	return decodeWords(filename || parameters.name || '');
}

/** Returns every part without subparts, in order. */
export function collectLeaves(part: Part): Part[] {
	return part.parts.length === 0 ? [part] : part.parts.flatMap(collectLeaves);
}

/** Parses header fields from a block of text, such as a returned header. Other lines are skipped. */
export function readFields(bytes: Buffer, limits: FieldLimits = {fault: null}): Field[] {
	const fields: Array<{name: string; value: string}> = [];
	for (const line of parseLines(bytes)) {
		const last = fields.at(-1);
		if (line.startsWith(' ') || line.startsWith('\t')) {
			if (last && last.value.length < maxValueLength) {
				last.value += ` ${line.trim().slice(0, maxValueLength)}`;
			}
			continue;
		}
		const colon = line.indexOf(':');
		const name = colon > 0 && colon < 200 ? line.slice(0, colon).trimEnd() : '';
		if (!fieldName.test(name)) {
			continue;
		}
		if (fields.length >= maxFields) {
			limits.fault ??= 'too many header fields';
			break;
		}
		fields.push({
			name: name.toLowerCase(),
			value: line
				.slice(colon + 1)
				.trim()
				.slice(0, maxValueLength),
		});
	}
	return fields;
}

/** Decodes each line separately, because every program on the way may have added a field in another charset. */
function parseLines(bytes: Buffer): string[] {
	// UTF-16 cannot be split by octets.
	if (isAscii(bytes) || bytes.includes(0)) {
		return decodeText(bytes, undefined).split('\n');
	}
	const lines = bytes.toString('latin1').split('\n');
	return lines.map(line => decodeText(Buffer.from(line, 'latin1'), undefined));
}

// RFC 5322 §2.2.
const fieldName = /^[!-9;-~]+$/;

function once<Value>(compute: () => Value): () => Value {
	let cached: {readonly value: Value} | undefined;
	return () => {
		cached ??= {value: compute()};
		return cached.value;
	};
}

const maxGuessLength = 64 * 1024;

/** Guesses the boundary if the declared one is missing or wrong: the line before a part's header. */
function guessBoundary(content: Buffer): string | null {
	const text = content.toString('latin1', 0, Math.min(content.length, maxGuessLength));
	return (
		/^--([^\n]{1,200}?)[ \t]*\ncontent-(?:type|transfer-encoding|description|disposition)[ \t]*:/im.exec(
			text,
		)?.[1] ?? null
	);
}

/** A value with parameters (RFC 2045 §5.1), their names in lower case. */
type ContentType = {readonly value: string; readonly parameters: Readonly<Record<string, string>>};

const maxContentTypeLength = 4096;
const maxParameters = 40;

const parameter = /;[ \t]*([^\s=;*"()]{1,60})(?:\*(\d{1,2}))?(\*)?[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"?|([^\s;]*))/g;

/**
 * Parses `text/plain; charset="utf-8"`, with comments, continued parameters and parameters with a charset (RFC 2231). A
 * missing or invalid type becomes `text/plain`.
 */
export function readContentType(field: string | null): ContentType {
	const text = withoutComments((field ?? '').slice(0, maxContentTypeLength));
	const semicolon = text.indexOf(';');
	const value = (semicolon === -1 ? text : text.slice(0, semicolon)).replace(/\s+/g, '').toLowerCase();
	return {
		value: /^[^/]+\/[^/]+$/.test(value) ? value : 'text/plain',
		parameters: semicolon === -1 ? {} : readParameters(text.slice(semicolon)),
	};
}

function readParameters(text: string): Record<string, string> {
	const pieces = new Map<string, ParameterPiece[]>();
	for (const [, name, number, extended, quoted, plain] of text.matchAll(parameter)) {
		const key = (name as string).toLowerCase();
		const values = pieces.get(key) ?? [];
		if (pieces.size >= maxParameters) {
			break;
		}
		const value = quoted === undefined ? (plain ?? '') : quoted.replace(/\\(.)/g, '$1');
		values[Number(number ?? 0)] ??= {value, isExtended: extended !== undefined};
		pieces.set(key, values);
	}
	return Object.fromEntries([...pieces].map(([name, values]) => [name, joinedPieces(values)]));
}

type ParameterPiece = {readonly value: string; readonly isExtended: boolean};

/** Joins the pieces of `utf-8'de'%C3%A4` (RFC 2231 §3, §4). They may end inside a character or skip numbers. */
function joinedPieces(sparse: readonly ParameterPiece[]): string {
	const pieces = Object.values(sparse);
	if (!pieces.some(({isExtended}) => isExtended)) {
		return pieces.map(({value}) => value).join('');
	}
	const charset = /^([\w.:-]{0,40})'[\w-]{0,40}'/.exec(pieces[0]?.value ?? '');
	const bytes = pieces.map(({value, isExtended}, index) => {
		const content = isExtended && index === 0 ? value.slice(charset?.[0].length ?? 0) : value;
		return isExtended ? unescaped(content) : Buffer.from(content);
	});
	return decodeText(Buffer.concat(bytes), charset?.[1]);
}

function unescaped(value: string): Buffer {
	const octets = Buffer.from(value).toString('latin1');
	const text = octets.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
	return Buffer.from(text, 'latin1');
}

/** Removes comments, which may nest. Parentheses in quotes, as in a boundary, do not start one. */
function withoutComments(text: string): string {
	if (!text.includes('(')) {
		return text;
	}
	let remaining = '';
	let depth = 0;
	let isQuoted = false;
	for (let i = 0; i < text.length; i++) {
		const character = text[i] as string;
		if (character === '\\' && (isQuoted || depth > 0)) {
			remaining += depth === 0 ? text.slice(i, i + 2) : '';
			i++;
		} else if (character === '"' && depth === 0) {
			isQuoted = !isQuoted;
			remaining += character;
		} else if (character === '(' && !isQuoted && /[\s;(]|^$/.test(text[i - 1] ?? '')) {
			depth++;
		} else if (character === ')' && depth > 0) {
			depth--;
		} else if (depth === 0) {
			remaining += character;
		}
	}
	// A comment without its closing parenthesis is not a comment.
	return depth === 0 ? remaining : text;
}

const cr = 0x0d;
const lf = 0x0a;

/** Returns the first message in bytes with LF line endings, without what mbox files put before and after it. */
function firstMail(bytes: Buffer): Buffer {
	return withoutNextMail(withoutFromLine(bytes));
}

function withoutFromLine(bytes: Buffer): Buffer {
	let start = 0;
	while (start < 64 && bytes[start] === lf) {
		start++;
	}
	const mail = bytes.subarray(start);
	// With a colon it is a field, and fields may have spaces before the colon (RFC 5322 §4.5).
	const isFromLine = /^>?From (?![ \t]*:)/.test(mail.toString('latin1', 0, maxFromLineLength));
	return isFromLine ? mail.subarray(mail.indexOf(lf) + 1) : mail;
}

const maxFromLineLength = 1000;
const fromLine = Buffer.from('\n\nFrom ');
const maxFromLines = 100;

/** Cuts at the `From ` line of a second message. */
function withoutNextMail(bytes: Buffer): Buffer {
	let at = bytes.indexOf(fromLine);
	for (let attempts = 0; at !== -1 && attempts < maxFromLines; attempts++) {
		const lines = bytes.toString('latin1', at + 2, at + 600);
		if (/^From [^\n]{3,120}\d\d:\d\d[^\n]{0,30}\n[!-9;-~]{2,60}:[ \t]/.test(lines)) {
			return bytes.subarray(0, at + 1);
		}
		at = bytes.indexOf(fromLine, at + 1);
	}
	return bytes;
}

/** Converts line endings to LF: CRLF, CR before CRLF, and lone CR if most lines end with it. Other CRs stay. */
export function withLineFeeds(raw: Buffer): Buffer {
	if (raw.indexOf(cr) === -1) {
		return raw;
	}
	const isCrOnly = hasCrLineEnds(raw);
	const bytes = Buffer.allocUnsafe(raw.length);
	let length = 0;
	for (let i = 0; i < raw.length; i++) {
		const byte = raw[i] as number;
		if (byte !== cr) {
			bytes[length++] = byte;
			continue;
		}
		const next = raw[i + 1];
		if (next === lf || (next === cr && raw[i + 2] === lf)) {
			continue;
		}
		bytes[length++] = isCrOnly ? lf : cr;
	}
	return bytes.subarray(0, length);
}

function hasCrLineEnds(raw: Buffer): boolean {
	let crs = 0;
	let lfs = 0;
	for (let i = 0; i < raw.length; i++) {
		const byte = raw[i];
		if (byte === lf) {
			lfs++;
		} else if (byte === cr && raw[i + 1] !== lf) {
			crs++;
		}
	}
	return crs > lfs;
}

const commonField =
	/^(?:content-[a-z-]+|mime-version|received|return-path|from|to|subject|date|message-id|auto-submitted|delivered-to|x-[\w-]+)[ \t]*:/im;

/**
 * Returns where the header of a message or part ends: at the first blank line. If a line before it is not a field and
 * no field follows, the blank line is missing and that line starts the body. Looks at `maxLength` octets.
 */
function headerEnd(bytes: Buffer, maxLength: number): number {
	if (bytes[0] === lf) {
		return 0;
	}
	const blank = bytes.indexOf('\n\n');
	const end = blank === -1 ? bytes.length : blank + 1;
	const header = bytes.toString('latin1', 0, Math.min(end, maxLength));
	const stray = /^(?:--|(?![\t ]|[!-9;-~]{1,200}[ \t]*:)).*$/m.exec(
		header.endsWith('\n') ? header.slice(0, -1) : header,
	);
	if (stray === null) {
		return end;
	}
	const isBody = stray[0].startsWith('--') || !commonField.test(header.slice(stray.index + stray[0].length));
	return isBody ? stray.index : end;
}
