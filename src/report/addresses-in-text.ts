/** An address and its place in the text. */
type FoundAddress = {readonly address: string; readonly start: number; readonly end: number};

const mostAddresses = 200;
// Longer than RFC 5321 allows: return paths that wrap others are.
const longestLocal = 128;
const longestDomain = 253;
const localPart = /[^\s<>()[\]",;:@\\\p{C}]/u;
const spaceless = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;
const plain = /[a-z0-9]/i;
// No host has `_` in its name, yet people write to such.
const domainPart = /[\p{L}\p{N}._-]/u;

/**
 * Every address in a text, at most `most`, each with its place: bare, in angle brackets or quotes, after `rfc822;`, with punctuation
 * behind it. A local part may be quoted, a domain an address literal. Linear: nothing is looked at further than an address is long.
 */
export function findAddresses(text: string, most = mostAddresses): FoundAddress[] {
	const found: FoundAddress[] = [];
	for (let at = text.indexOf('@'); at !== -1 && found.length < most; at = text.indexOf('@', at + 1)) {
		const start = startOfLocal(text, at);
		const end = endOfDomain(text, at);
		if (start < at && end > at + 1 && (found.at(-1)?.end ?? 0) <= start) {
			found.push({address: text.slice(start, end), start, end});
		}
	}
	return found;
}

/** Every address in a text, as it is written there, at most `most` of them: `Neko <neko@example.org>`, `rfc822;neko@example.org`. */
export function addressesIn(text: string, most = 20): string[] {
	return findAddresses(text, most).map(({address}) => address);
}

/** The first address in a text; null if there is no address. */
export function addressIn(text: string): string | null {
	return addressesIn(text, 1)[0] ?? null;
}

/** Whether two spellings mean the same mailbox, as far as a third party can know. */
export function sameAddress(one: string, other: string): boolean {
	return one.toLowerCase() === other.toLowerCase();
}

/** Addresses of a text that are not the reader's own. */
export function strangersIn(addresses: readonly string[], own: readonly string[]): string[] {
	return addresses.filter(one => !own.some(other => sameAddress(one, other)));
}

function startOfLocal(text: string, at: number): number {
	if (text[at - 1] === '"') {
		const quote = text.lastIndexOf('"', at - 2);
		return quote === -1 || at - quote > longestLocal + 2 || /[\r\n]/.test(text.slice(quote, at)) ? at : quote;
	}
	let start = at;
	while (
		start > 0 &&
		at - start < longestLocal &&
		localPart.test(text[start - 1] as string) &&
		!isSeam(text, start - 1)
	) {
		start--;
	}
	// Typography before an address: `'neko@…'`, `*neko@…`, `=neko@…`, `mailto:neko@…`.
	while (start < at && /['`*=.|/]/.test(text[start] as string)) {
		start++;
	}
	return start + (/^(?:smtp|rfc-?822|mailto|addr)=/i.exec(text.slice(start, at))?.[0].length ?? 0);
}

function endOfDomain(text: string, at: number): number {
	if (text[at + 1] === '[') {
		const close = text.indexOf(']', at);
		return close !== -1 && close - at < longestLocal && /^[\w.:]+$/.test(text.slice(at + 2, close)) ? close + 1 : at;
	}
	let end = at + 1;
	while (
		end < text.length &&
		end - at <= longestDomain &&
		domainPart.test(text[end] as string) &&
		!isSeam(text, end - 1)
	) {
		end++;
	}
	while (end > at + 1 && /[._-]/.test(text[end - 1] as string)) {
		end--;
	}
	return end;
}

/** Whether words that are written without spaces and an address meet here: `宛先neko@example.jpに`. */
function isSeam(text: string, at: number): boolean {
	const [one, other] = [text[at] as string, text[at + 1] as string];
	return (spaceless.test(one) && plain.test(other)) || (plain.test(one) && spaceless.test(other));
}
