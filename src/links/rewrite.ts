import {readAttribute, writeAttribute} from './attribute-value.ts';
import {findLinks, type Span} from './find-links.ts';

export type Tracked = {
	/** The address of the pixel that tells of an open; null: opens are not tracked. */
	readonly openUrl: string | null;
	/** Gives a link's tracked form, null where it stays as it is; null: clicks are not tracked. */
	readonly clickUrl: ((url: string) => string | null) | null;
};

export type Rewritten = {
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
