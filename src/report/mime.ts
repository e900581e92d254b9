import {decodeBody, decodeText} from './decode.ts';

/** A header field: its name in lower case, its value unfolded and not decoded. */
export type Field = {readonly name: string; readonly value: string};

/** A part of a mail, or the mail itself. Bodies are decoded when they are asked for. */
export type Part = {
	readonly fields: readonly Field[];
	/** `text/plain`, in lower case. */
	readonly type: string;
	/** Parameters of the content type, names in lower case. */
	readonly parameters: Readonly<Record<string, string>>;
	/** The parts of a `multipart/*`. A `message/rfc822` is not descended into (delivery.md R3.9). */
	readonly parts: readonly Part[];
	/** The body without its transfer encoding, at most `longestBody` octets. */
	readonly body: () => Buffer;
	/** The same as text, in its charset. */
	readonly text: () => string;
};

export type Mail = {
	readonly root: Part;
	/** What was left out because it went beyond a limit; null: nothing. */
	readonly fault: string | null;
};

const deepest = 10;
const mostParts = 200;
const mostFields = 1000;
const longestHeader = 256 * 1024;
const longestBody = 512 * 1024;

/**
 * Reads a mail's structure (RFC 5322, RFC 2045): any line endings, a `From ` line first, boundaries that are never closed. Time
 * and memory are bounded whatever the bytes; what goes beyond a limit is left out and said.
 */
export function readMail(raw: Buffer): Mail {
	const bytes = withoutFromLine(withLineFeeds(raw));
	const limits = {parts: mostParts, fault: null as string | null};
	return {root: readPart(bytes, 0, limits), fault: limits.fault};
}

type Limits = {parts: number; fault: string | null};

const nothing = Buffer.alloc(0);

function readPart(bytes: Buffer, depth: number, limits: Limits): Part {
	const end = headerEnd(bytes);
	const fields = readFields(bytes.subarray(0, Math.min(end, longestHeader)), limits);
	const content = bytes.subarray(end);
	const {value: type, parameters} = readContentType(fieldOf(fields, 'content-type'));
	const parts = type.startsWith('multipart/') && parameters.boundary ? split(content, parameters.boundary) : [];
	const children: Part[] = [];
	for (const part of parts) {
		if (depth >= deepest || limits.parts <= 0) {
			limits.fault = depth >= deepest ? 'parts lie too deep in each other' : 'too many parts';
			break;
		}
		limits.parts--;
		children.push(readPart(part, depth + 1, limits));
	}
	const encoding = fieldOf(fields, 'content-transfer-encoding') ?? '';
	const body = () => decodeBody(parts.length > 0 ? nothing : content.subarray(0, longestBody), encoding);
	return {fields, type, parameters, parts: children, body, text: () => decodeText(body(), parameters.charset)};
}

/** The first value of a field, by its name in lower case. */
export function fieldOf(fields: readonly Field[], name: string): string | null {
	return fields.find(field => field.name === name)?.value ?? null;
}

/** Every part that has no parts, in order. */
export function leavesOf(part: Part): Part[] {
	return part.parts.length === 0 ? [part] : part.parts.flatMap(leavesOf);
}

/** Header fields of a block of text, such as a returned header or a delivery status. */
export function readFields(bytes: Buffer, limits: Limits = {parts: 0, fault: null}): Field[] {
	const fields: Array<{name: string; value: string}> = [];
	for (const line of bytes.toString('utf8').split('\n')) {
		const last = fields.at(-1);
		if (/^[ \t]/.test(line)) {
			if (last && last.value.length < longestHeader) {
				last.value += ` ${line.trim()}`;
			}
			continue;
		}
		const colon = line.indexOf(':');
		const name = line.slice(0, colon).trim().toLowerCase();
		if (colon > 0 && /^[\u0021-\u0039\u003b-\u007e]+$/.test(name)) {
			if (fields.length >= mostFields) {
				limits.fault = 'too many header fields';
				break;
			}
			fields.push({name, value: line.slice(colon + 1).trim()});
		}
	}
	return fields;
}

/** A value with parameters: `text/plain; charset="utf-8"`; a missing one is `text/plain`. */
export function readContentType(value: string | null): {value: string; parameters: Record<string, string>} {
	const text = (value ?? 'text/plain').slice(0, 4096);
	const parameters: Record<string, string> = {};
	for (const [, name, quoted, plain] of text.matchAll(/;\s*([^\s=;]+)\s*=\s*(?:"([^"]*)"|([^\s;]*))/g)) {
		parameters[(name as string).toLowerCase()] = quoted ?? plain ?? '';
	}
	const type = (text.split(';')[0] as string)
		.replace(/\([^)]*\)/g, '')
		.trim()
		.toLowerCase();
	return {value: type.includes('/') ? type : 'text/plain', parameters};
}

function headerEnd(bytes: Buffer): number {
	if (bytes[0] === 0x0a) {
		return 1;
	}
	const at = bytes.indexOf('\n\n');
	return at === -1 ? bytes.length : at + 2;
}

function split(content: Buffer, boundary: string): Buffer[] {
	const parts: Buffer[] = [];
	const delimiter = `--${boundary}`;
	let start = -1;
	for (let at = content.indexOf(delimiter); at !== -1; at = content.indexOf(delimiter, at + delimiter.length)) {
		if (at > 0 && content[at - 1] !== 0x0a) {
			continue;
		}
		const line = content.indexOf('\n', at);
		const rest = content.toString('latin1', at + delimiter.length, line === -1 ? content.length : line).trim();
		if (rest !== '' && rest !== '--') {
			continue; // Another boundary that begins alike.
		}
		if (start !== -1) {
			parts.push(content.subarray(start, Math.max(start, at - 1)));
		}
		start = rest === '--' || line === -1 ? -1 : line + 1;
		if (rest === '--' || parts.length > mostParts) {
			return parts;
		}
	}
	if (start !== -1) {
		parts.push(content.subarray(start));
	}
	return parts;
}

/** CRLF, and CR alone where there is no LF at all, as LF: the rest then has one line end. */
function withLineFeeds(raw: Buffer): Buffer {
	if (raw.indexOf(0x0d) === -1) {
		return raw;
	}
	const alone = raw.indexOf(0x0a) === -1;
	const bytes = Buffer.allocUnsafe(raw.length);
	let length = 0;
	for (let i = 0; i < raw.length; i++) {
		const byte = raw[i] as number;
		if (byte !== 0x0d) {
			bytes[length++] = byte;
		} else if (alone) {
			bytes[length++] = 0x0a;
		} else if (raw[i + 1] !== 0x0a) {
			bytes[length++] = byte;
		}
	}
	return bytes.subarray(0, length);
}

function withoutFromLine(bytes: Buffer): Buffer {
	return bytes.subarray(0, 5).toString('latin1') === 'From ' ? bytes.subarray(bytes.indexOf(0x0a) + 1) : bytes;
}
