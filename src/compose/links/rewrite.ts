type Tracked = {
	/** The URL of the pixel that reports an open, or `null` if opens are not tracked. */
	readonly openUrl: string | null;
	/** Returns a link's tracked form, or `null` to leave it unchanged. Itself `null` if clicks are not tracked. */
	readonly clickUrl: ((url: string) => string | null) | null;
};

type Rewritten = {
	readonly html: string;
	/** The target of the first tracked link, or `null` if none is tracked. */
	readonly firstLink: string | null;
	/** The number of distinct tracked links. */
	readonly links: number;
};

/** The maximum number of tracked links per message, since each becomes some hundred characters longer. */
export const maxTrackedLinks = 500;

type Edit = Span & {readonly text: string};

/**
 * Replaces links with tracked URLs, and adds a pixel at the end. Everything else stays byte for byte the same: quotes,
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
		const tracked = new Map<string, string | null>();
		for (const {start, end} of hrefs) {
			const link = parseLink(html.slice(start, end));
			const url = link === null ? null : (tracked.get(link) ?? clickUrl(link));
			if (link !== null && url !== null && edits.length < maxTrackedLinks) {
				tracked.set(link, url);
				edits.push({start, end, text: writeAttribute(url)});
				firstLink ??= link;
			}
		}
		links = tracked.size;
	}
	if (openUrl !== null) {
		edits.push({start: end, end, text: `<img src="${writeAttribute(openUrl)}" width="1" height="1" alt="">`});
	}
	return {html: applyEdits(html, edits), firstLink, links};
}

/** Returns the distinct link targets of an HTML text in order, without those that cannot be URLs. */
export function extractLinks(html: string): string[] {
	const links = findLinks(html, {marked: true}).hrefs.map(({start, end}) => parseLink(html.slice(start, end)));
	return [...new Set(links.filter(link => link !== null))];
}

/** Returns the URL in an `href` value, without line breaks and surrounding white space, as browsers do. */
function parseLink(value: string): string | null {
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

function applyEdits(html: string, edits: readonly Edit[]): string {
	const parts: string[] = [];
	let from = 0;
	for (const {start, end, text} of edits.toSorted((left, right) => left.start - right.start)) {
		parts.push(html.slice(from, start), text);
		from = end;
	}
	return parts.join('') + html.slice(from);
}

const knownReferences = new Map(
	Object.entries({amp: '&', AMP: '&', lt: '<', LT: '<', gt: '>', GT: '>', quot: '"', QUOT: '"', apos: "'"}),
);

/** Names that browsers recognize even without a semicolon (HTML Standard §13.5). */
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
 * Decodes an attribute's character references as browsers do (HTML Standard §13.2.5.72). Returns `null` if one stands
 * for a character that is unlikely in a URL, such as `&eacute;`, because this function does not know it.
 */
export function readAttribute(value: string): string | null {
	if (!value.includes('&')) {
		return value;
	}
	let isKnown = true;
	const text = value.replace(reference, (match, hex?: string, decimal?: string, name?: string, after?: string) => {
		// Before `=`, the name is that of the next query parameter.
		if (name !== undefined && after !== ';' && (after === '=' || !withoutSemicolon.has(name))) {
			return match;
		}
		const character = name === undefined ? toCharacter(hex, decimal) : knownReferences.get(name);
		isKnown &&= character !== undefined;
		return character ?? '';
	});
	return isKnown ? text : null;
}

/** Returns `undefined` for codes that browsers replace: 128 to 159 by an old table, and invalid ones by U+FFFD. */
function toCharacter(hex: string | undefined, decimal: string | undefined): string | undefined {
	const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
	const isPlain = (code > 0 && code < 0x80) || (code >= 0xa0 && code < 0xd800);
	return isPlain ? String.fromCharCode(code) : undefined;
}

const escapes: Readonly<Record<string, string>> = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;'};

/** Encodes a text as an attribute's value, for either kind of quotes or, if it has no space, for none. */
function writeAttribute(text: string): string {
	return text.replace(/[&<>"']/g, character => escapes[character] as string);
}

/** The position of a value in a text: `[start, end)`, without its quotes. */
type Span = {readonly start: number; readonly end: number};

type FoundLinks = {
	/** The `href` values of `<a>` and `<area>` in order, without those marked `data-notrack` unless `marked` is set. */
	readonly hrefs: readonly Span[];
	/** Where more HTML can be added: before the last `</body>`, or at the end of what is complete. */
	readonly end: number;
};

/** The relevant parts of a tag. `next` is the position after its `>`. */
type Tag = {readonly name: string; readonly isClosing: boolean; readonly href: Span | null; readonly next: number};

// HTML Standard §13.2.6: the content of these elements is not HTML, up to the closing tag.
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
const noTrack = 'data-notrack';
const notFound = -1;

const [slash, greater, equals, a, z] = [0x2f, 0x3e, 0x3d, 0x61, 0x7a];
const isSpace = (character: number) =>
	character === 0x20 || (character >= 0x09 && character <= 0x0d && character !== 0x0b);

/**
 * Finds trackable links in one pass, by the rules by which browsers find tags (HTML Standard §13.2.5). Skips those in
 * comments, including Outlook's conditional ones, and in elements like `<style>`. Takes linear time for any text.
 */
export function findLinks(html: string, {marked = false} = {}): FoundLinks {
	const hrefs: Span[] = [];
	let bodyEnd = notFound;
	for (let tagStart = html.indexOf('<'); tagStart !== notFound; ) {
		let next = notFound;
		if (isTagAt(html, tagStart)) {
			const tag = readTag(html, tagStart, marked);
			if (tag) {
				next = !tag.isClosing && rawElements.has(tag.name) ? endOfRaw(html, tag) : tag.next;
				bodyEnd = tag.isClosing && tag.name === 'body' ? tagStart : bodyEnd;
				if (tag.href) {
					hrefs.push(tag.href);
				}
			}
		} else {
			next = endOfNonTag(html, tagStart);
		}
		if (next === notFound) {
			// Anything added after an unclosed construct would become part of it.
			return {hrefs, end: bodyEnd === notFound ? tagStart : bodyEnd};
		}
		tagStart = html.indexOf('<', next);
	}
	return {hrefs, end: bodyEnd === notFound ? html.length : bodyEnd};
}

function isTagAt(html: string, at: number): boolean {
	const letter = html.charCodeAt(html.charCodeAt(at + 1) === slash ? at + 2 : at + 1) | 0x20;
	return letter >= a && letter <= z;
}

/** Returns the end of a comment, a doctype or the like, or of a `<` that is plain text. */
function endOfNonTag(html: string, at: number): number {
	if (html.startsWith('<!--', at)) {
		if (html.startsWith('>', at + 4) || html.startsWith('->', at + 4)) {
			return html.indexOf('>', at + 4) + 1;
		}
		const close = /--!?>/g;
		close.lastIndex = at + 4;
		return close.test(html) ? close.lastIndex : notFound;
	}
	if (/[!?/]/.test(html.charAt(at + 1))) {
		const close = html.indexOf('>', at + 2);
		return close === notFound ? notFound : close + 1;
	}
	return at + 1;
}

function endOfRaw(html: string, {name, next}: Tag): number {
	const close = new RegExp(`</${name}[\\s/>]`, 'gi');
	close.lastIndex = next;
	return name === 'plaintext' ? notFound : (close.exec(html)?.index ?? notFound);
}

/** Returns `null` if the tag never ends. */
function readTag(html: string, at: number, includesMarked: boolean): Tag | null {
	const isClosing = html.charCodeAt(at + 1) === slash;
	const nameStart = at + (isClosing ? 2 : 1);
	let position = endOfWord(html, nameStart, notFound);
	const name = html.slice(nameStart, position).toLowerCase();
	const isLink = !isClosing && (name === 'a' || name === 'area');
	let href: Span | null = null;
	let isMarked = false;
	for (;;) {
		while (isSpace(html.charCodeAt(position)) || html.charCodeAt(position) === slash) {
			position++;
		}
		if (position >= html.length) {
			return null;
		}
		if (html.charCodeAt(position) === greater) {
			return {name, isClosing, href: isMarked && !includesMarked ? null : href, next: position + 1};
		}
		// A `=` at the start of a name belongs to the name.
		const nameEnd = endOfWord(html, position + 1, equals);
		const value = readValue(html, nameEnd);
		if (value === null) {
			return null;
		}
		if (isLink) {
			const attribute = html.slice(position, Math.min(nameEnd, position + noTrack.length + 1)).toLowerCase();
			isMarked ||= attribute === noTrack;
			// Of duplicate attributes, the first one counts.
			href ??= attribute === 'href' ? value : null;
		}
		position = value.next;
	}
}

/** Returns the end of a name: white space, `/`, `>` or the given character. */
function endOfWord(html: string, from: number, stop: number): number {
	for (let position = from; position < html.length; position++) {
		const character = html.charCodeAt(position);
		if (isSpace(character) || character === slash || character === greater || character === stop) {
			return position;
		}
	}
	return html.length;
}

/** Returns the value after an attribute's name, empty if it has none, or `null` if its quote is never closed. */
function readValue(html: string, from: number): (Span & {readonly next: number}) | null {
	const equalsAt = skipSpace(html, from);
	if (html.charCodeAt(equalsAt) !== equals) {
		return {start: from, end: from, next: equalsAt};
	}
	const start = skipSpace(html, equalsAt + 1);
	const quote = html.charAt(start);
	if (quote === '"' || quote === "'") {
		const end = html.indexOf(quote, start + 1);
		return end === notFound ? null : {start: start + 1, end, next: end + 1};
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
