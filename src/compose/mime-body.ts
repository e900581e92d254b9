import {isUtf8} from 'node:buffer';
import {type Pieces, withoutControls} from '../kit/text.ts';
import {readMediaType} from '../mail/media-type.ts';
import type {Attachment} from '../mail/message.ts';
import type {BodyPart} from './body-writer.ts';
import {encodedWords, type HeaderField, headerField} from './header-field.ts';
import type {Letter} from './letter.ts';

/** A MIME entity: its own fields, and its body in parts. */
type Entity = {readonly fields: readonly HeaderField[]; readonly body: readonly BodyPart[]};

/** The body of a letter and the fields that describe it: text and html as alternatives, attachments beside them. */
export function letterBody(letter: Letter): Entity {
	// A boundary with `=_` occurs in no quoted-printable and no base64 text (RFC 2045 §6.7), so none needs a search.
	const boundary = `=_${letter.ref.replace(/[^0-9A-Za-z]/g, '').slice(0, 45)}`;
	const html = textEntity('text/html', letter.html);
	const content =
		letter.text === null
			? html
			: multipart('alternative', `${boundary}_a`, [textEntity('text/plain', letter.text), html]);
	const {fields, body} =
		letter.attachments.length === 0
			? content
			: multipart('mixed', `${boundary}_m`, [content, ...letter.attachments.map(attachmentEntity)]);
	return {fields, body: [...body, {ascii: '\r\n'}]};
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

function attachmentEntity({contentType, filename, content}: Attachment): Entity {
	const named = disposition(filename);
	return {
		fields: [
			headerField('Content-Type', contentTypeWords(contentType, content, named.isEncoded ? oldName(filename) : [])),
			headerField('Content-Disposition', named.words),
			headerField('Content-Transfer-Encoding', ['base64']),
		],
		body: [{bytes: content}],
	};
}

/** A text of UTF-8 says so: readers take one without a charset for ASCII, or for the charset of their own system. */
function contentTypeWords(contentType: string, content: Uint8Array, name: readonly string[]): string[] {
	const {type, parameters} = readMediaType(contentType) ?? {type: 'application/octet-stream', parameters: new Map()};
	const all = new Map(parameters);
	if (!all.has('charset') && /^text\//i.test(type) && isUtf8(content)) {
		all.set('charset', 'utf-8');
	}
	const words = [type, ...[...all].map(([key, value]) => `${key}=${value}`)];
	return [...words.slice(0, -1).map(word => `${word};`), `${words.at(-1)}${name.length > 0 ? ';' : ''}`, ...name];
}

/** The name once more for readers that know no RFC 2231: encoded words in quotes, which RFC 2047 §5 forbids and they expect. */
function oldName(filename: string): string[] {
	const words = encodedWords(withoutControls(filename));
	return words.map((word, index) => `${index === 0 ? 'name="' : ''}${word}${index === words.length - 1 ? '"' : ''}`);
}

function multipart(subtype: string, boundary: string, parts: readonly Entity[]): Entity {
	return {
		fields: [headerField('Content-Type', [`multipart/${subtype};`, `boundary="${boundary}"`])],
		body: [
			...parts.flatMap(({fields, body}, index) => [
				{ascii: `${index === 0 ? '' : '\r\n'}--${boundary}\r\n${fields.map(({line}) => `${line}\r\n`).join('')}\r\n`},
				...body,
			]),
			{ascii: `\r\n--${boundary}--`},
		],
	};
}

const longestSegment = 60;

/** The words of a Content-Disposition field for an attachment; other than plain names are encoded by RFC 2231. */
function disposition(filename: string): {readonly words: readonly string[]; readonly isEncoded: boolean} {
	const name = withoutControls(filename);
	if (/^[A-Za-z0-9_-][A-Za-z0-9 ._-]*$/.test(name) && name.length <= longestSegment && !/ {2}| $/.test(name)) {
		return {words: ['attachment;', `filename="${name}"`], isEncoded: false};
	}

	const parts = extendedParameter('filename', name);
	const words = parts.map((part, index) => (index < parts.length - 1 ? `${part};` : part));
	return {words: ['attachment;', ...words], isEncoded: true};
}

/** A parameter with any text, in one piece or several (RFC 2231). */
export function extendedParameter(name: string, text: string): string[] {
	const segments = percentSegments(text);
	return segments.length === 1
		? [`${name}*=utf-8''${segments[0]}`]
		: segments.map((segment, index) => `${name}*${index}*=${index === 0 ? "utf-8''" : ''}${segment}`);
}

// Percent-encoded, in segments that no UTF-8 sequence spans: some readers decode each segment by itself.
function percentSegments(text: string): string[] {
	const segments: string[] = [];
	let segment = '';
	for (const character of text) {
		let encoded = '';
		for (const byte of Buffer.from(character, 'utf8')) {
			const ascii = String.fromCharCode(byte);
			encoded += /[A-Za-z0-9._-]/.test(ascii) ? ascii : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
		}
		if (segment.length + encoded.length > longestSegment) {
			segments.push(segment);
			segment = '';
		}
		segment += encoded;
	}
	return [...segments, segment];
}
