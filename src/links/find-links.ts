/** Where a value stands in a text: `[start, end)`, without its quotes. */
export type Span = {readonly start: number; readonly end: number};

type FoundLinks = {
	/** The `href` values of `<a>` and `<area>`, in order; none of those marked `data-notrack` unless they were asked for. */
	readonly hrefs: readonly Span[];
	/** Where more html may be added: before the last `</body>`, else at the end of what is complete. */
	readonly end: number;
};

/** A tag as far as it matters here; `next` is after its `>`. */
type Tag = {readonly name: string; readonly closes: boolean; readonly href: Span | null; readonly next: number};

// HTML Standard §13.2.6: what these hold is no html, up to their own end.
const rawElements = new Set([
	'style',
	'script',
	'title',
	'textarea',
	'xmp',
	'iframe',
	'noembed',
	'noframes',
	'plaintext',
]);
const mark = 'data-notrack';
const never = -1;

const [slash, greater, equals, a, z] = [0x2f, 0x3e, 0x3d, 0x61, 0x7a];
const isSpace = (character: number) =>
	character === 0x20 || (character >= 0x09 && character <= 0x0d && character !== 0x0b);

/**
 * Finds the links that may be tracked, once through the text, by the rules by which browsers find tags (HTML Standard
 * §13.2.5). What stands in comments, also in Outlook's conditional ones, in `<style>` and the like is none. Takes linear
 * time for any text.
 */
export function findLinks(html: string, {marked = false} = {}): FoundLinks {
	const hrefs: Span[] = [];
	let bodyEnd = never;
	for (let at = html.indexOf('<'); at !== never; ) {
		let next = never;
		if (isTagAt(html, at)) {
			const tag = readTag(html, at, marked);
			if (tag) {
				next = !tag.closes && rawElements.has(tag.name) ? endOfRaw(html, tag) : tag.next;
				bodyEnd = tag.closes && tag.name === 'body' ? at : bodyEnd;
				if (tag.href) {
					hrefs.push(tag.href);
				}
			}
		} else {
			next = endOfOther(html, at);
		}
		if (next === never) {
			// What is added behind something that never ends would become a part of it.
			return {hrefs, end: bodyEnd === never ? at : bodyEnd};
		}
		at = html.indexOf('<', next);
	}
	return {hrefs, end: bodyEnd === never ? html.length : bodyEnd};
}

function isTagAt(html: string, at: number): boolean {
	const first = html.charCodeAt(html.charCodeAt(at + 1) === slash ? at + 2 : at + 1) | 0x20;
	return first >= a && first <= z;
}

/** The end of a comment, of a doctype and the like, or of a `<` that is only text. */
function endOfOther(html: string, at: number): number {
	if (html.startsWith('<!--', at)) {
		if (html.startsWith('>', at + 4) || html.startsWith('->', at + 4)) {
			return html.indexOf('>', at + 4) + 1;
		}
		const close = /--!?>/g;
		close.lastIndex = at + 4;
		return close.test(html) ? close.lastIndex : never;
	}
	if (/[!?/]/.test(html.charAt(at + 1))) {
		const close = html.indexOf('>', at + 2);
		return close === never ? never : close + 1;
	}
	return at + 1;
}

function endOfRaw(html: string, {name, next}: Tag): number {
	const close = new RegExp(`</${name}[\\s/>]`, 'gi');
	close.lastIndex = next;
	return name === 'plaintext' ? never : (close.exec(html)?.index ?? never);
}

/** Null: the tag never ends. */
function readTag(html: string, at: number, withMarked: boolean): Tag | null {
	const closes = html.charCodeAt(at + 1) === slash;
	const nameStart = at + (closes ? 2 : 1);
	let position = endOfWord(html, nameStart, never);
	const name = html.slice(nameStart, position).toLowerCase();
	const isLink = !closes && (name === 'a' || name === 'area');
	let href: Span | null = null;
	let marked = false;
	for (;;) {
		while (isSpace(html.charCodeAt(position)) || html.charCodeAt(position) === slash) {
			position++;
		}
		if (position >= html.length) {
			return null;
		}
		if (html.charCodeAt(position) === greater) {
			return {name, closes, href: marked && !withMarked ? null : href, next: position + 1};
		}
		// A `=` where a name should begin is its first character.
		const nameEnd = endOfWord(html, position + 1, equals);
		const value = readValue(html, nameEnd);
		if (value === null) {
			return null;
		}
		if (isLink) {
			const attribute = html.slice(position, Math.min(nameEnd, position + mark.length + 1)).toLowerCase();
			marked ||= attribute === mark;
			// Of two the first one counts.
			href ??= attribute === 'href' ? value : null;
		}
		position = value.next;
	}
}

/** The end of a name: at white space, `/`, `>` or the given character. */
function endOfWord(html: string, from: number, stop: number): number {
	for (let position = from; position < html.length; position++) {
		const character = html.charCodeAt(position);
		if (isSpace(character) || character === slash || character === greater || character === stop) {
			return position;
		}
	}
	return html.length;
}

/** The value after an attribute's name, empty where it has none; null: its quote is never closed. */
function readValue(html: string, from: number): (Span & {readonly next: number}) | null {
	const sign = skipSpace(html, from);
	if (html.charCodeAt(sign) !== equals) {
		return {start: from, end: from, next: sign};
	}
	const start = skipSpace(html, sign + 1);
	const quote = html.charAt(start);
	if (quote === '"' || quote === "'") {
		const end = html.indexOf(quote, start + 1);
		return end === never ? null : {start: start + 1, end, next: end + 1};
	}
	let end = start;
	while (end < html.length && !isSpace(html.charCodeAt(end)) && html.charCodeAt(end) !== greater) {
		end++;
	}
	return {start, end, next: end};
}

function skipSpace(html: string, from: number): number {
	let position = from;
	while (isSpace(html.charCodeAt(position))) {
		position++;
	}
	return position;
}
