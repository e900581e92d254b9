import {hostName} from '../net/host-name.ts';

// The header of a mail octet by octet, as signatures see it. `readMail` accepts more.

/** Octets. Nobody's header is longer. */
const maxHeaderLength = 64 * 1024;
const maxAuthorDomains = 3;
const maxDomainLength = 253;

/** A field as it was written, with its folds and without its last CRLF. The name is in lower case. */
export type RawField = {readonly name: string; readonly line: string};

/** A mail with CRLF as its only line end, which is what signatures cover. */
export function withCrlf(raw: Buffer): Buffer {
	const text = raw.toString('latin1');
	return /(?:^|[^\r])\n/.test(text) ? Buffer.from(text.replaceAll(/\r?\n/g, '\r\n'), 'latin1') : raw;
}

/** Its header, each octet as a character, with CRLF as line end. Empty where it does not end within the limit. */
export function headerOf(raw: Buffer): string {
	const text = raw.toString('latin1', 0, maxHeaderLength);
	const end = text.search(/\r?\n\r?\n/);
	const header = text.slice(0, Math.max(0, end)).replaceAll(/\r?\n/g, '\r\n');
	// The first line of an mbox. `From : x` is a field: blanks may stand before a colon (RFC 5322 §4.5).
	return header.replace(/^>?From (?![ \t]*:)[^\r\n]*\r\n/, '');
}

/**
 * Null: some line is neither a field nor the continuation of one, or a CR stands alone. Readers differ in what they
 * make of such a header.
 */
export function fieldsOf(header: string): RawField[] | null {
	const fields = header.split(/\r\n(?![ \t])/).map(line => ({
		name: /^([!-9;-~]+)[ \t]*:/.exec(line)?.[1]?.toLowerCase() ?? '',
		line,
	}));
	return /\r(?!\n)/.test(header) || fields.some(({name}) => name === '') ? null : fields;
}

/**
 * Fields that a mail has once (RFC 5322 §3.6, RFC 2045): signatures cover the last of several, and people see the
 * first.
 */
const single =
	/^(?:from|sender|reply-to|to|cc|date|subject|in-reply-to|references|content-(?:type|transfer-encoding))$/;

export function hasRepeatedField(fields: ReadonlyArray<{readonly name: string}>): boolean {
	const names = fields.flatMap(({name}) => (single.test(name) ? [name] : []));
	return new Set(names).size < names.length;
}

/** A domain as A-labels in lower case; undefined where DNS cannot have it below a top-level domain. */
export function domainName(text: string): string | undefined {
	const name = text.length <= maxDomainLength ? hostName(text) : undefined;
	return name?.includes('.') ? name : undefined;
}

/** What may be the author's domain: a comment of the field may name another address. */
export function authorDomains(header: string): string[] {
	const field = /^from[ \t]*:[^\n]*(?:\n[ \t][^\n]*)*/im.exec(header)?.[0] ?? '';
	const found = Buffer.from(field, 'latin1')
		.toString()
		.matchAll(/@([^\s<>,;:"()]+)/g);
	return [...new Set([...found].slice(-maxAuthorDomains).flatMap(([, text = '']) => domainName(text) ?? []))];
}
