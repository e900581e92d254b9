import {type ContentType, readContentType} from './content-type.ts';
import {decodeBody, decodeText} from './decode.ts';
import {guessBoundary, splitParts} from './multipart.ts';
import {firstMail, headerEnd, withLineFeeds} from './raw-mail.ts';

/** A header field: its name in lower case, its value unfolded and not decoded. */
export type Field = {readonly name: string; readonly value: string};

/** A part of a mail, or the mail itself. Bodies are decoded when they are asked for. */
export type Part = {
	readonly fields: readonly Field[];
	/** `text/plain`, in lower case. A `multipart/*` in which no part is found is a `text/plain`. */
	readonly type: string;
	/** Parameters of the content type, names in lower case. */
	readonly parameters: Readonly<Record<string, string>>;
	/** The parts of a `multipart/*`. A `message/rfc822` is not descended into (R3.9). */
	readonly parts: readonly Part[];
	/** The body without its transfer encoding, at most `longestBody` octets; empty where there are parts. */
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
const longestValue = 16 * 1024;
const longestBody = 256 * 1024;

/**
 * Reads a mail's structure (RFC 5322, RFC 2045): any line ends, a `From ` line first, boundaries that are never closed or
 * not the announced ones, missing blank lines. Time and memory are bounded whatever the bytes; what goes beyond a limit is
 * left out and said.
 */
export function readMail(raw: Buffer): Mail {
	const limits: Limits = {parts: mostParts, fault: null};
	const root = readPart(firstMail(withLineFeeds(raw)), 0, limits);
	return {root, fault: limits.fault};
}

type Limits = {parts: number; fault: string | null};

function readPart(bytes: Buffer, depth: number, limits: Limits): Part {
	const end = headerEnd(bytes, longestHeader);
	if (end > longestHeader) {
		limits.fault ??= 'a header is too long';
	}
	const fields = readFields(bytes.subarray(0, Math.min(end, longestHeader)), limits);
	const content = bytes.subarray(bytes[end] === 0x0a ? end + 1 : end);
	const announced = readContentType(fieldOf(fields, 'content-type'));
	const parts = partsOf(content, announced, depth, limits);
	const isLeaf = parts === null;
	const encoding = fieldOf(fields, 'content-transfer-encoding') ?? '';
	const body = once(() => (isLeaf ? decodeBody(content, encoding, longestBody) : Buffer.alloc(0)));
	return {
		fields,
		type: isLeaf && announced.value.startsWith('multipart/') ? 'text/plain' : announced.value,
		parameters: announced.parameters,
		parts: parts ?? [],
		body,
		text: once(() => decodeText(body(), announced.parameters.charset)),
	};
}

/** Null: it has no parts. */
function partsOf(content: Buffer, {value, parameters}: ContentType, depth: number, limits: Limits): Part[] | null {
	if (!value.startsWith('multipart/')) {
		return null;
	}
	const announced = parameters.boundary ? splitParts(content, parameters.boundary, limits.parts + 1) : [];
	const guessed = announced.length > 0 ? null : guessBoundary(content);
	const pieces = guessed === null ? announced : splitParts(content, guessed, limits.parts + 1);
	const parts: Part[] = [];
	for (const piece of pieces) {
		if (depth >= deepest || limits.parts <= 0) {
			limits.fault = depth >= deepest ? 'parts lie too deep in each other' : 'too many parts';
			break;
		}
		limits.parts--;
		parts.push(readPart(piece, depth + 1, limits));
	}
	return pieces.length > 0 ? parts : null;
}

/** The first value of a field, by its name in lower case. */
export function fieldOf(fields: readonly Field[], name: string): string | null {
	return fields.find(field => field.name === name)?.value ?? null;
}

/** Every part that has no parts, in order. */
export function leavesOf(part: Part): Part[] {
	return part.parts.length === 0 ? [part] : part.parts.flatMap(leavesOf);
}

/** Header fields of a block of text, such as a returned header; lines that are none are passed over. */
export function readFields(bytes: Buffer, limits: Limits = {parts: 0, fault: null}): Field[] {
	const fields: Array<{name: string; value: string}> = [];
	for (const line of decodeText(bytes, undefined).split('\n')) {
		const last = fields.at(-1);
		if (line.startsWith(' ') || line.startsWith('\t')) {
			if (last && last.value.length < longestValue) {
				last.value += ` ${line.trim().slice(0, longestValue)}`;
			}
			continue;
		}
		const colon = line.indexOf(':');
		const name = colon > 0 && colon < 200 ? line.slice(0, colon).trimEnd() : '';
		if (!fieldName.test(name)) {
			continue;
		}
		if (fields.length >= mostFields) {
			limits.fault ??= 'too many header fields';
			break;
		}
		fields.push({
			name: name.toLowerCase(),
			value: line
				.slice(colon + 1)
				.trim()
				.slice(0, longestValue),
		});
	}
	return fields;
}

// RFC 5322 §2.2.
const fieldName = /^[!-9;-~]+$/;

function once<Value>(make: () => Value): () => Value {
	let made: {readonly value: Value} | undefined;
	return () => {
		made ??= {value: make()};
		return made.value;
	};
}
