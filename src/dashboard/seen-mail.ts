import {extractLinks} from '../compose/links/rewrite.ts';
import {collectLeaves, type Field, fileNameOf, findField, type Part, readMail} from '../inbound/reports/mime.ts';
import {percentDecode} from '../kit/urlencoded.ts';
import {decodeWords} from '../mail/decode.ts';
import {defused, maxLinkLength} from './mail-frame.ts';

// What the pages of a mail show, found in its bytes. Only look-worker.ts runs this, in a thread: ten megabytes take a
// second.

/** A mail, taken apart to be looked at: no more of it than the pages show. */
export type SeenMail = {
	/** With their encoded words read. */
	readonly fields: readonly Field[];
	readonly html: SeenHtml | null;
	readonly text: string | null;
	/** All else that it holds. */
	readonly files: readonly SeenFile[];
	/** What was left out; null: nothing. */
	readonly fault: string | null;
};

export type SeenHtml = {
	/** For a frame: it can do nothing, and has the images that the mail brings along. */
	readonly framed: Uint8Array;
	/** Where its links lead, the first ones. A longer one than `maxLinkLength` is cut. */
	readonly links: readonly string[];
	readonly moreLinks: number;
	/** It asks for images of other hosts, as far as that is seen without a browser. */
	readonly hasRemoteImages: boolean;
};

type SeenFile = {readonly name: string; readonly type: string; readonly octets: number};

/** Octets of a part that are read. */
const maxPartLength = 8 * 1024 * 1024;
/**
 * Characters of html and text that are shown. Ours is shorter; with more, what is found in it could take the thread's
 * memory.
 */
const maxTextLength = 1024 * 1024;
const maxLinks = 200;

export function seenMail(raw: Buffer): SeenMail {
	const {root, fault, html, text, files} = takenApart(raw);
	const [markup, plain] = [html, text].map(part => part?.text());
	const isCut = [markup, plain].some(one => one !== undefined && one.length > maxTextLength);
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

/** A file of a mail, by its index; null: no such file. */
export function fileIn(raw: Buffer, index: number): {readonly name: string; readonly content: Uint8Array} | null {
	const part = takenApart(raw).files[index];
	return part ? {name: nameOfFile(part, index), content: part.body()} : null;
}

function takenApart(raw: Buffer) {
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
	// One run of blanks and quotes: two beside each other take the square of a long one's time.
	return /(?:(?:src|srcset|background|poster)\s*=|url\()[\s"']*(?:https?:)?\/\//i.test(html);
}

/** Types that run nothing and fetch nothing. */
const imageTypes: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif']);
/** Characters: an image may be named again and again. */
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
	return html.replace(/\bcid:([^\s"'()<>]{1,256})/gi, (whole, id: string) => {
		const file = images.get(id) ?? images.get(percentDecode(id));
		if (file === undefined) {
			return whole;
		}
		const url = urls.get(file) ?? `data:${file.type};base64,${file.body().toString('base64')}`;
		urls.set(file, url);
		length += url.length;
		return length > maxImagesLength ? whole : url;
	});
}

/** By which the html names it (RFC 2392). */
function toContentId({fields}: Part): string | null {
	return /^\s*<(.+)>\s*$/.exec(findField(fields, 'content-id') ?? '')?.[1] ?? null;
}

const nameOfFile = (part: Part, index: number): string => nameOf(part) ?? `part-${index + 1}`;

/** The name of a file; null: no name, or a body. */
function nameOf(part: Part): string | null {
	return fileNameOf(part) || null;
}
