import {extractLinks} from '../compose/links/rewrite.ts';
import {collectLeaves, type Field, fileNameOf, findField, type Part, readMail} from '../inbound/reports/mime.ts';
import {percentDecode} from '../kit/urlencoded.ts';
import {decodeWords} from '../mail/decode.ts';
import {defused, maxLinkLength} from './mail-frame.ts';

// Parses a message for the pages that show it. Only look-worker.ts runs this, in a thread: ten megabytes take a second.

/** The parts of a message that the pages show. */
export type SeenMail = {
	/** The header fields, with their encoded words decoded. */
	readonly fields: readonly Field[];
	readonly html: SeenHtml | null;
	readonly text: string | null;
	/** All other parts. */
	readonly files: readonly SeenFile[];
	/** What was omitted, or `null` if nothing was. */
	readonly fault: string | null;
};

export type SeenHtml = {
	/** Harmless HTML for a frame, with the embedded images of the message. */
	readonly framed: Uint8Array;
	/** The targets of its first links. One longer than `maxLinkLength` is cut. */
	readonly links: readonly string[];
	readonly moreLinks: number;
	/** Whether it contains remote images, as far as that can be found out without a browser. */
	readonly hasRemoteImages: boolean;
};

type SeenFile = {readonly name: string; readonly type: string; readonly octets: number};

/** At most this many octets of a part are read. */
const maxPartLength = 8 * 1024 * 1024;
/** At most this many characters of HTML or text are shown: a longer text could exhaust the thread's memory. */
const maxTextLength = 1024 * 1024;
const maxLinks = 200;

export function seenMail(raw: Buffer): SeenMail {
	const {root, fault, html, text, files} = splitParts(raw);
	const [markup, plain] = [html, text].map(part => part?.text());
	const isCut = [markup, plain].some(body => body !== undefined && body.length > maxTextLength);
	return {
		fields: root.fields.map(({name, value}) => ({name, value: decodeWords(value)})),
		html: markup === undefined ? null : seenHtml(markup.slice(0, maxTextLength), files),
		text: plain?.slice(0, maxTextLength) ?? null,
		files: files.map((part, index) => ({
			name: nameOfFile(part, index),
			type: part.type,
			octets: part.body().length,
		})),
		fault: fault ?? (isCut ? `a part has more than ${maxTextLength} characters` : null),
	};
}

/** Returns a file of a message by its index, or `null` if it does not exist. */
export function fileIn(raw: Buffer, index: number): {readonly name: string; readonly content: Uint8Array} | null {
	const part = splitParts(raw).files[index];
	return part ? {name: nameOfFile(part, index), content: part.body()} : null;
}

function splitParts(raw: Buffer) {
	const {root, fault} = readMail(raw, maxPartLength);
	const leaves = collectLeaves(root);
	const bodyOf = (type: string) => leaves.find(leaf => leaf.type === type && nameOf(leaf) === null);
	const [html, text] = [bodyOf('text/html'), bodyOf('text/plain')];
	return {root, fault, html, text, files: leaves.filter(leaf => leaf !== html && leaf !== text)};
}

function seenHtml(html: string, files: readonly Part[]): SeenHtml {
	const links = extractLinks(html).filter(link => link !== '' && !link.startsWith('#'));
	return {
		framed: Buffer.from(withImages(defused(html), files)),
		links: links
			.slice(0, maxLinks)
			.map(link => (link.length > maxLinkLength ? `${link.slice(0, maxLinkLength)}…` : link)),
		moreLinks: Math.max(0, links.length - maxLinks),
		hasRemoteImages: hasRemoteImages(html),
	};
}

function hasRemoteImages(html: string): boolean {
	// Blanks and quotes are one class: two adjacent repetitions would take quadratic time.
	return /(?:(?:src|srcset|background|poster)\s*=|url\()[\s"']*(?:https?:)?\/\//i.test(html);
}

/** Image types that cannot run scripts or load other files. */
const imageTypes: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif']);
/** The maximum length of all embedded images: HTML may refer to the same image any number of times. */
const maxImagesLength = 32 * 1024 * 1024;

function withImages(html: string, files: readonly Part[]): string {
	const images = new Map(
		files.flatMap(file => {
			const id = toContentId(file);
			return id !== null && imageTypes.has(file.type) ? [[id, file]] : [];
		}),
	);
	const urls = new Map<Part, string>();
	let length = 0;
	return html.replace(/\bcid:([^\s"'()<>]{1,256})/gi, (reference, id: string) => {
		const file = images.get(id) ?? images.get(percentDecode(id));
		if (file === undefined) {
			return reference;
		}
		const url = urls.get(file) ?? `data:${file.type};base64,${file.body().toString('base64')}`;
		urls.set(file, url);
		length += url.length;
		return length > maxImagesLength ? reference : url;
	});
}

/** Returns the content id by which HTML refers to a part (RFC 2392). */
function toContentId({fields}: Part): string | null {
	return /^\s*<(.+)>\s*$/.exec(findField(fields, 'content-id') ?? '')?.[1] ?? null;
}

const nameOfFile = (part: Part, index: number): string => nameOf(part) ?? `part-${index + 1}`;

/** Returns the file name of a part, or `null` if it has none, as a body. */
function nameOf(part: Part): string | null {
	return fileNameOf(part) || null;
}
