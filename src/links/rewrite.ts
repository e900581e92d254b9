import {findLinks, type Span} from './find-links.ts';

type Tracked = {
	/** The address of the pixel that tells of an open; null: opens are not tracked. */
	readonly openUrl: string | null;
	/** Gives a link's tracked form, null where it stays as it is; null: clicks are not tracked. */
	readonly clickUrl: ((url: string) => string | null) | null;
};

type Rewritten = {
	readonly html: string;
	/** Where the first tracked link leads; null: none is tracked. */
	readonly firstLink: string | null;
};

/** No more links of a mail than these are tracked: a tracked one is some hundred characters longer. */
export const mostTrackedLinks = 500;

type Edit = Span & {readonly text: string};

/**
 * Puts tracked URLs in the place of links, and a pixel at the end. All else stays byte for byte what it was: quotes,
 * spelling, white space, `data-notrack`.
 */
export function rewrite(html: string, {openUrl, clickUrl}: Tracked): Rewritten {
	if (openUrl === null && clickUrl === null) {
		return {html, firstLink: null};
	}
	const {hrefs, end} = findLinks(html);
	const edits: Edit[] = [];
	let firstLink: string | null = null;
	if (clickUrl !== null) {
		const known = new Map<string, string | null>();
		for (const {start, end} of hrefs) {
			const link = linkOf(html.slice(start, end));
			const url = link === null ? null : (known.get(link) ?? clickUrl(link));
			if (link !== null && url !== null && edits.length < mostTrackedLinks) {
				known.set(link, url);
				edits.push({start, end, text: writeAttribute(url)});
				firstLink ??= link;
			}
		}
	}
	if (openUrl !== null) {
		edits.push({start: end, end, text: `<img src="${writeAttribute(openUrl)}" width="1" height="1" alt="">`});
	}
	return {html: applied(html, edits), firstLink};
}

/** Where the links of a mail lead, each once, in order; what no URL holds is left out. */
export function linksOf(html: string): string[] {
	const links = findLinks(html, {marked: true}).hrefs.map(({start, end}) => linkOf(html.slice(start, end)));
	return [...new Set(links.filter(link => link !== null))];
}

/** What the value of a `href` leads to; browsers drop line breaks in it, white space and controls around it. */
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
