import {percentDecode} from '../kit/urlencoded.ts';

/** Whether the text can be an attachment's `contentId`, that is, needs no encoding in a URL and a Content-ID field. */
export function isContentId(text: string): boolean {
	return /^[A-Za-z0-9._@+-]{1,128}$/.test(text);
}

/** Returns the ids that the HTML references by `cid:` (RFC 2392 §2). */
export function idsIn(html: string): ReadonlySet<string> {
	return new Set(Array.from(html.matchAll(/\bcid:([\w.@+%-]{1,384})/gi), ([, id = '']) => percentDecode(id)));
}

const maxNamed = 20;

/** Returns a warning for each `cid:` reference in the HTML without an attachment. */
export function cidWarnings(html: string, contentIds: readonly string[]): string[] {
	const missing = [...idsIn(html)].filter(id => !contentIds.includes(id)).slice(0, maxNamed);
	return missing.map(id => `cid:${id} needs an attachment with the contentId ${id}`);
}
