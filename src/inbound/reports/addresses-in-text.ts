/** An address and its position in the text. */
type FoundAddress = {readonly address: string; readonly start: number; readonly end: number};

const maxAddresses = 200;
// Longer than RFC 5321 allows, because return paths that embed another address exceed its limit.
const maxLocalPartLength = 128;
const maxDomainLength = 253;
// A local part may contain surrogate halves of characters beyond the BMP, and the joiner used in emoji.
const localPart = /\u200d|[^\s<>()[\]",;:@\\\p{Cc}\p{Cf}\p{Co}\p{Cn}]/u;
const spacelessScript = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;
const alphanumeric = /[a-z0-9]/i;
// Host names have no `_`, yet mail is addressed to domains that do.
const domainPart = /[\p{L}\p{N}\p{M}\p{Cs}._-]/u;
const openedAddress = /<[^\s<>()[\]",;:@\\\p{Cc}]{1,128}$/u;
const closedDomain = /^@((?:(?![<>])[\p{L}\p{N}\p{M}\p{S}._-]){1,253}?)[.-]{0,4}>/u;
// The rest of this label and the start of another one. A host name may mix scripts; a sentence does not go on so.
const labelContinues = /^[\p{L}\p{N}\p{M}_-]{1,62}\.[\p{L}\p{N}]/u;

/**
 * Returns the addresses in a text with their positions, at most `max`. Addresses may be bare, in angle brackets or
 * quotes, after `rfc822;`, or followed by punctuation. A local part may be quoted, and a domain may be an address
 * literal. Takes linear time: it never looks further than an address can be long.
 */
export function findAddresses(text: string, max = maxAddresses): FoundAddress[] {
	const addresses: FoundAddress[] = [];
	for (let at = text.indexOf('@'); at !== -1 && addresses.length < max; at = text.indexOf('@', at + 1)) {
		const [start, end] = bracketed(text, at) ?? [startOfLocal(text, at), endOfDomain(text, at)];
		if (start < at && end > at + 1 && (addresses.at(-1)?.end ?? 0) <= start) {
			addresses.push({address: text.slice(start, end), start, end});
		}
	}
	return addresses;
}

/** Returns the addresses in a text as written, at most `max`: `Neko <neko@example.org>`, `rfc822;neko@example.org`. */
export function addressesIn(text: string, max = 20): string[] {
	return findAddresses(text, max).map(({address}) => address);
}

/** Returns the first address in a text, or `null` if it has none. */
export function addressIn(text: string): string | null {
	return addressesIn(text, 1)[0] ?? null;
}

/** Whether two spellings name the same mailbox, as far as a third party can tell. */
export function isSameAddress(a: string, b: string): boolean {
	return a.toLowerCase() === b.toLowerCase();
}

/** Returns the addresses except the reader's own. */
export function exceptAddresses(addresses: readonly string[], own: readonly string[]): string[] {
	return addresses.filter(address => !own.some(ownAddress => isSameAddress(address, ownAddress)));
}

/**
 * Finds an address in angle brackets. Everything inside the brackets belongs to it, as in `<=neko@…>` and `<'neko@…>`.
 */
function bracketed(text: string, at: number): [start: number, end: number] | null {
	const local = openedAddress.exec(text.slice(Math.max(0, at - maxLocalPartLength - 1), at));
	const domain = closedDomain.exec(text.slice(at, at + maxDomainLength + 2));
	return local === null || domain === null
		? null
		: [withoutScheme(text, at - local[0].length + 1, at), at + 1 + (domain[1] as string).length];
}

/** Returns where `neko` begins in `SMTP=neko@…`. */
function withoutScheme(text: string, start: number, at: number): number {
	return start + (/^(?:smtp|rfc-?822|mailto|addr)=/i.exec(text.slice(start, at))?.[0].length ?? 0);
}

function startOfLocal(text: string, at: number): number {
	if (text[at - 1] === '"') {
		const quote = text.lastIndexOf('"', at - 2);
		return quote === -1 || at - quote > maxLocalPartLength + 2 || /[\r\n]/.test(text.slice(quote, at)) ? at : quote;
	}
	let start = at;
	while (
		start > 0 &&
		at - start < maxLocalPartLength &&
		localPart.test(text[start - 1] as string) &&
		!isSeam(text, start - 1)
	) {
		start--;
	}
	// Skip typography before an address: `'neko@…'`, `*neko@…`, `=neko@…`, `mailto:neko@…`.
	while (start < at && /['`*=.|/]/.test(text[start] as string)) {
		start++;
	}
	return withoutScheme(text, start, at);
}

function endOfDomain(text: string, at: number): number {
	if (text[at + 1] === '[') {
		const close = text.indexOf(']', at);
		return close !== -1 && close - at < maxLocalPartLength && /^[\w.:]+$/.test(text.slice(at + 2, close))
			? close + 1
			: at;
	}
	let end = at + 1;
	while (
		end < text.length &&
		end - at <= maxDomainLength &&
		domainPart.test(text[end] as string) &&
		(!isSeam(text, end - 1) || labelContinues.test(text.slice(end, end + 64)))
	) {
		end++;
	}
	while (end > at + 1 && /[._-]/.test(text[end - 1] as string)) {
		end--;
	}
	return end;
}

/** Whether an address borders on text of a language written without spaces: `宛先neko@example.jpに`. */
function isSeam(text: string, index: number): boolean {
	const [a, b] = [text[index] as string, text[index + 1] as string];
	return (spacelessScript.test(a) && alphanumeric.test(b)) || (alphanumeric.test(a) && spacelessScript.test(b));
}
