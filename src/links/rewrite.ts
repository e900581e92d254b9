type Tracked = {
	/** The URL of the pixel that reports an open; null: opens are not tracked. */
	readonly openUrl: string | null;
	/** Gives a link's tracked form, null where it stays as it is; null: clicks are not tracked. */
	readonly clickUrl: ((url: string) => string | null) | null;
};

type Rewritten = {
	readonly html: string;
	/** Where the first tracked link leads; null: none is tracked. */
	readonly firstLink: string | null;
	/** How many different links are tracked. */
	readonly links: number;
};

/** No more links of a mail than these are tracked: a tracked one is some hundred characters longer. */
export const maxTrackedLinks = 500;

type Edit = Span & {readonly text: string};

/**
 * Puts tracked URLs in the place of links, and a pixel at the end. All else stays byte for byte what it was: quotes,
 * spelling, white space, `data-notrack`.
 */
export function rewrite(html: string, {openUrl, clickUrl}: Tracked): Rewritten {
	if (openUrl === null && clickUrl === null) {
		return {html, firstLink: null, links: 0};
	}
	const {hrefs, end} = findLinks(html);
	const edits: Edit[] = [];
	let firstLink: string | null = null;
	let links = 0;
	if (clickUrl !== null) {
		const known = new Map<string, string | null>();
		for (const {start, end} of hrefs) {
			const link = linkOf(html.slice(start, end));
			const url = link === null ? null : (known.get(link) ?? clickUrl(link));
			if (link !== null && url !== null && edits.length < maxTrackedLinks) {
				known.set(link, url);
				edits.push({start, end, text: writeAttribute(url)});
				firstLink ??= link;
			}
		}
		links = known.size;
	}
	if (openUrl !== null) {
		edits.push({start: end, end, text: `<img src="${writeAttribute(openUrl)}" width="1" height="1" alt="">`});
	}
	return {html: applied(html, edits), firstLink, links};
}

/** Where the links of a mail lead, each once, in order; what no URL holds is left out. */
export function linksOf(html: string): string[] {
	const links = findLinks(html, {marked: true}).hrefs.map(({start, end}) => linkOf(html.slice(start, end)));
	return [...new Set(links.filter(link => link !== null))];
}

/** The URL in the value of an `href`; browsers drop line breaks in it, white space and controls around it. */
function linkOf(value: string): string | null {
	const text = readAttribute(value)?.replace(/[\t\n\r]/g, '');
	if (text === undefined) {
		return null;
	}
	let [start, end] = [0, text.length];
	while (text.charCodeAt(start) <= 0x20) {
		start++;
	}
	while (end > start && text.charCodeAt(end - 1) <= 0x20) {
		end--;
	}
	return text.slice(start, end);
}

function applied(html: string, edits: readonly Edit[]): string {
	const parts: string[] = [];
	let from = 0;
	for (const {start, end, text} of edits.toSorted((one, other) => one.start - other.start)) {
		parts.push(html.slice(from, start), text);
		from = end;
	}
	return parts.join('') + html.slice(from);
}

const known = new Map(
	Object.entries({amp: '&', AMP: '&', lt: '<', LT: '<', gt: '>', GT: '>', quot: '"', QUOT: '"', apos: "'"}),
);

/** Names that browsers take for a character even without a semicolon (HTML Standard §13.5). */
const withoutSemicolon = new Set(
	`AElig AMP Aacute Acirc Agrave Aring Atilde Auml COPY Ccedil ETH Eacute Ecirc Egrave Euml GT Iacute Icirc Igrave Iuml LT
	Ntilde Oacute Ocirc Ograve Oslash Otilde Ouml QUOT REG THORN Uacute Ucirc Ugrave Uuml Yacute aacute acirc acute aelig
	agrave amp aring atilde auml brvbar ccedil cedil cent copy curren deg divide eacute ecirc egrave eth euml frac12 frac14
	frac34 gt iacute icirc iexcl igrave iquest iuml laquo lt macr micro middot nbsp not ntilde oacute ocirc ograve ordf ordm
	oslash otilde ouml para plusmn pound quot raquo reg sect shy sup1 sup2 sup3 szlig thorn times uacute ucirc ugrave uml
	uuml yacute yen yuml`.split(/\s+/),
);

const reference = /&(?:#[xX]([0-9a-fA-F]+);?|#([0-9]+);?|([a-zA-Z][a-zA-Z0-9]*)(;|=)?)/g;

/**
 * What an attribute's value says, its character references read as browsers read them (HTML Standard §13.2.5.72). Null
 * where one stands for something that a URL hardly holds, such as `&eacute;`: it is not known here.
 */
export function readAttribute(value: string): string | null {
	if (!value.includes('&')) {
		return value;
	}
	let isKnown = true;
	const text = value.replace(reference, (whole, hex?: string, decimal?: string, name?: string, after?: string) => {
		// Before `=`, a name is that of the next query parameter.
		if (name !== undefined && after !== ';' && (after === '=' || !withoutSemicolon.has(name))) {
			return whole;
		}
		const character = name === undefined ? characterOf(hex, decimal) : known.get(name);
		isKnown &&= character !== undefined;
		return character ?? '';
	});
	return isKnown ? text : null;
}

/** Undefined for what browsers read otherwise: 128 to 159 by an old table, what is no character as U+FFFD. */
function characterOf(hex: string | undefined, decimal: string | undefined): string | undefined {
	const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
	const isPlain = (code > 0 && code < 0x80) || (code >= 0xa0 && code < 0xd800);
	return isPlain ? String.fromCharCode(code) : undefined;
}

const escapes: Readonly<Record<string, string>> = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;'};

/** The text as an attribute's value, in quotes of either kind or, if it has no space, in none. */
function writeAttribute(text: string): string {
	return text.replace(/[&<>"']/g, character => escapes[character] as string);
}

/** The place of a value in a text: `[start, end)`, without its quotes. */
type Span = {readonly start: number; readonly end: number};

type FoundLinks = {
	/**
	 * The `href` values of `<a>` and `<area>`, in order; none of those marked `data-notrack` unless they were asked
	 * for.
	 */
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
 * Finds the links that may be tracked, in one pass, by the rules by which browsers find tags (HTML Standard §13.2.5).
 * Not those in comments, including Outlook's conditional ones, in `<style>` and the like. Takes linear time for any
 * text.
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

/** The value after an attribute's name, empty if it has no value; null: its quote is never closed. */
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
