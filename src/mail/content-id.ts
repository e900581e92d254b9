import {percentDecode} from '../kit/urlencoded.ts';

/** Whether it can be the `contentId` of an attachment: what a URL and a Content-ID field hold as it is. */
export function isContentId(text: string): boolean {
	return /^[A-Za-z0-9._@+-]{1,128}$/.test(text);
}

/** The ids that an html names by `cid:` (RFC 2392 §2). */
export function idsIn(html: string): ReadonlySet<string> {
	return new Set(Array.from(html.matchAll(/\bcid:([\w.@+%-]{1,384})/gi), ([, id = '']) => percentDecode(id)));
}

const maxNamed = 20;

/** What the html names by `cid:` and no attachment has, a text for each. */
export function cidWarnings(html: string, contentIds: readonly string[]): string[] {
	const missing = [...idsIn(html)].filter(id => !contentIds.includes(id)).slice(0, maxNamed);
	return missing.map(id => `cid:${id} needs an attachment with the contentId ${id}`);
}
