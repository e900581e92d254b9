import {cutText, withoutControls} from '../../kit/text.ts';
import {stripHtml} from '../../mail/decode.ts';
import type {ParsedMessage} from '../../mail/received.ts';
import {fileNameOf, findField, type Part, transferEncoding} from './mime.ts';

/** The parts of a message that people read. */
type Content = {readonly text: string | null; readonly html: string | null};
type LetterFile = ParsedMessage['files'][number];

const bodies: ReadonlySet<string> = new Set(['text/plain', 'text/html', 'message/delivery-status']);
const maxNameLength = 255;
/** Characters read from a part: twice what is stored, so that a longer text is still recognized as cut. */
const maxPartLength = 512 * 1024;

/**
 * Returns the text and HTML of a message. If some parts are text and others HTML, both results contain all of them:
 * mail programs mix both around pictures, and mailing lists append footers.
 */
export function readContent(part: Part): Content {
	if (part.parts.length > 0) {
		const contents = part.parts.map(readContent).filter(({text, html}) => text !== null || html !== null);
		return part.type === 'multipart/alternative' ? joinAlternatives(contents) : joinAll(contents);
	}
	if (!isBody(part)) {
		return {text: null, html: null};
	}
	return part.type === 'text/html'
		? {text: null, html: part.text().slice(0, maxPartLength) || null}
		: {text: plainText(part) || null, html: null};
}

/**
 * Returns the files of a message. `lineEnd` is the line ending of the original, because the parsed message has only LF.
 */
export function toFiles(leaves: readonly Part[], lineEnd: '\r\n' | '\n'): LetterFile[] {
	return leaves.filter(part => !isBody(part)).map(part => fileOf(part, lineEnd));
}

function isBody({type, fields}: Part): boolean {
	return bodies.has(type) && /^\s*(?:inline\b|$)/i.test(findField(fields, 'content-disposition') ?? '');
}

/** Joins alternative versions. A plain version is better than text derived from HTML. */
function joinAlternatives(contents: readonly Content[]): Content {
	const plain = contents.filter(({html}) => html === null);
	return {
		text: joined(plain.length > 0 ? plain.map(({text}) => text) : contents.map(({text}) => text), '\n'),
		html: joined(
			contents.map(({html}) => html),
			lineBreak,
		),
	};
}

function joinAll(contents: readonly Content[]): Content {
	const hasText = contents.some(({text}) => text !== null);
	const hasHtml = contents.some(({html}) => html !== null);
	const texts = contents.map(({text, html}) => text ?? stripHtml(html ?? ''));
	const htmls = contents.map(({text, html}) => html ?? htmlOf(text ?? ''));
	return {text: hasText ? joined(texts, '\n') : null, html: hasHtml ? joined(htmls, lineBreak) : null};
}

const lineBreak = '<br/>\n';

function joined(texts: ReadonlyArray<string | null>, separator: string): string | null {
	const present = texts.filter(text => text !== null);
	return present.length > 0 ? present.join(separator) : null;
}

const escapes: Readonly<Record<string, string>> = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'};

const htmlOf = (text: string): string =>
	text.replace(/[&<>"]/g, character => escapes[character] as string).replaceAll('\n', lineBreak);

function plainText(part: Part): string {
	const {format, delsp} = part.parameters;
	const text = part.text().slice(0, maxPartLength);
	return format?.toLowerCase() === 'flowed' ? unflowed(text, delsp?.toLowerCase() === 'yes') : text;
}

/** Joins the lines of `format=flowed` (RFC 3676 §4) into paragraphs, without the program's own line breaks. */
function unflowed(text: string, shouldDeleteSpace: boolean): string {
	const lines: string[] = [];
	/** The quote marks of a paragraph that continues, or `null` if none does. */
	let openQuote: string | null = null;
	for (const line of text.split('\n')) {
		const quote = /^>*/.exec(line)?.[0] ?? '';
		const content = line.slice(quote.length).replace(/^ /, '');
		const isSignature = content === '-- ';
		const isFlowed = content.endsWith(' ') && !isSignature;
		const words = isFlowed && shouldDeleteSpace ? content.slice(0, -1) : content;
		if (openQuote === quote && !isSignature) {
			lines.push(`${lines.pop()}${words}`);
		} else {
			lines.push(quote === '' ? words : `${quote} ${words}`);
		}
		openQuote = isFlowed ? quote : null;
	}
	return lines.join('\n');
}

function fileOf(part: Part, lineEnd: '\r\n' | '\n'): LetterFile {
	const name = fileNameOf(part);
	const id = withoutControls(findField(part.fields, 'content-id') ?? '').replace(/^\s*<|>\s*$/g, '');
	const content = fileContent(part, lineEnd);
	return {
		name: name === '' ? null : cutText(withoutControls(name), maxNameLength),
		type: /^[\w.+-]{1,127}\/[\w.+-]{1,127}$/.test(part.type) ? part.type : 'application/octet-stream',
		size: content.length,
		contentId: id === '' ? null : cutText(id, maxNameLength),
		content,
	};
}

/**
 * Restores the line endings of content without an encoding. Always returns a buffer of its own: a view would be
 * transferred together with the whole message.
 */
function fileContent({fields, body}: Part, lineEnd: '\r\n' | '\n'): Buffer {
	const isEncoded = transferEncoding(fields) !== null;
	return isEncoded ? body() : Buffer.from(body().toString('latin1').replaceAll('\n', lineEnd), 'latin1');
}
