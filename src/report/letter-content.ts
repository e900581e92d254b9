import {cutText, withoutControls} from '../kit/text.ts';
import type {ReadLetter} from '../mail/received.ts';
import {stripHtml} from './decode.ts';
import {fieldOf, fileNameOf, type Part, transferEncoding} from './mime.ts';

/** What people read of a mail. */
type Content = {readonly text: string | null; readonly html: string | null};
type LetterFile = ReadLetter['files'][number];

const bodies: ReadonlySet<string> = new Set(['text/plain', 'text/html', 'message/delivery-status']);
const maxNameLength = 255;
/**
 * Characters of a part that are read: twice what is kept of a whole field, so that a longer one is still seen to be
 * cut.
 */
const maxPartLength = 512 * 1024;

/**
 * The text and html of a mail. Where some parts are text and others html, as mail programs mix them around pictures and
 * mailing lists at the end, both hold all of it.
 */
export function contentOf(part: Part): Content {
	if (part.parts.length > 0) {
		const contents = part.parts.map(contentOf).filter(({text, html}) => text !== null || html !== null);
		return part.type === 'multipart/alternative' ? oneOf(contents) : allOf(contents);
	}
	if (!isBody(part)) {
		return {text: null, html: null};
	}
	return part.type === 'text/html'
		? {text: null, html: part.text().slice(0, maxPartLength) || null}
		: {text: plainText(part) || null, html: null};
}

/** The files of a mail. `lineEnd`: that of the mail as it came, whose reader knows LF alone. */
export function filesOf(leaves: readonly Part[], lineEnd: '\r\n' | '\n'): LetterFile[] {
	return leaves.filter(part => !isBody(part)).map(part => fileOf(part, lineEnd));
}

function isBody({type, fields}: Part): boolean {
	return bodies.has(type) && /^\s*(?:inline\b|$)/i.test(fieldOf(fields, 'content-disposition') ?? '');
}

/** Versions of the same: a plain one is better than what could be made of one with html. */
function oneOf(contents: readonly Content[]): Content {
	const plain = contents.filter(({html}) => html === null);
	return {
		text: joined(plain.length > 0 ? plain.map(({text}) => text) : contents.map(({text}) => text), '\n'),
		html: joined(
			contents.map(({html}) => html),
			lineBreak,
		),
	};
}

function allOf(contents: readonly Content[]): Content {
	const hasText = contents.some(({text}) => text !== null);
	const hasHtml = contents.some(({html}) => html !== null);
	const texts = contents.map(({text, html}) => text ?? stripHtml(html ?? ''));
	const htmls = contents.map(({text, html}) => html ?? htmlOf(text ?? ''));
	return {text: hasText ? joined(texts, '\n') : null, html: hasHtml ? joined(htmls, lineBreak) : null};
}

const lineBreak = '<br/>\n';

function joined(texts: ReadonlyArray<string | null>, separator: string): string | null {
	const there = texts.filter(text => text !== null);
	return there.length > 0 ? there.join(separator) : null;
}

const escapes: Readonly<Record<string, string>> = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'};

const htmlOf = (text: string): string =>
	text.replace(/[&<>"]/g, character => escapes[character] as string).replaceAll('\n', lineBreak);

function plainText(part: Part): string {
	const {format, delsp} = part.parameters;
	const text = part.text().slice(0, maxPartLength);
	return format?.toLowerCase() === 'flowed' ? unflowed(text, delsp?.toLowerCase() === 'yes') : text;
}

/** Paragraphs of `format=flowed` (RFC 3676 §4) without the line ends that only their program put in. */
function unflowed(text: string, deletesSpace: boolean): string {
	const lines: string[] = [];
	/** The quote marks of a paragraph that goes on. */
	let open: string | null = null;
	for (const line of text.split('\n')) {
		const quote = /^>*/.exec(line)?.[0] ?? '';
		const content = line.slice(quote.length).replace(/^ /, '');
		const isSignature = content === '-- ';
		const flows = content.endsWith(' ') && !isSignature;
		const said = flows && deletesSpace ? content.slice(0, -1) : content;
		if (open === quote && !isSignature) {
			lines.push(`${lines.pop()}${said}`);
		} else {
			lines.push(quote === '' ? said : `${quote} ${said}`);
		}
		open = flows ? quote : null;
	}
	return lines.join('\n');
}

function fileOf(part: Part, lineEnd: '\r\n' | '\n'): LetterFile {
	const name = fileNameOf(part);
	const id = withoutControls(fieldOf(part.fields, 'content-id') ?? '').replace(/^\s*<|>\s*$/g, '');
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
 * What is not encoded gets its line ends back. Always bytes of their own: a view would be handed over with the whole
 * mail.
 */
function fileContent({fields, body}: Part, lineEnd: '\r\n' | '\n'): Buffer {
	const isEncoded = transferEncoding(fields) !== null;
	return isEncoded ? body() : Buffer.from(body().toString('latin1').replaceAll('\n', lineEnd), 'latin1');
}
