import {hostName} from '../../net/host-name.ts';

// The header of a message, octet by octet, as signatures cover it. `readMail` is more lenient.

/** In octets. Real headers are shorter. */
const maxHeaderLength = 64 * 1024;
const maxAuthorDomains = 3;
const maxDomainLength = 253;

/** A field as written, with its folds and without its last CRLF. The name is in lower case. */
export type RawField = {readonly name: string; readonly line: string};

/** Converts line endings to CRLF, which is what signatures cover. */
export function withCrlf(raw: Buffer): Buffer {
	const text = raw.toString('latin1');
	return /(?:^|[^\r])\n/.test(text) ? Buffer.from(text.replaceAll(/\r?\n/g, '\r\n'), 'latin1') : raw;
}

/** Returns the header with a character per octet and CRLF line endings. Empty if it does not end within the limit. */
export function readHeader(raw: Buffer): string {
	const text = raw.toString('latin1', 0, maxHeaderLength);
	const end = text.search(/\r?\n\r?\n/);
	const header = text.slice(0, Math.max(0, end)).replaceAll(/\r?\n/g, '\r\n');
	// Remove the first line of an mbox. `From : x` is a field: spaces may precede the colon (RFC 5322 §4.5).
	return header.replace(/^>?From (?![ \t]*:)[^\r\n]*\r\n/, '');
}

/**
 * Returns `null` if a line is neither a field nor a continuation, or if a CR stands alone. Parsers disagree about such
 * headers, so no signature can be trusted.
 */
export function parseFields(header: string): RawField[] | null {
	const fields = header.split(/\r\n(?![ \t])/).map(line => ({
		name: /^([!-9;-~]+)[ \t]*:/.exec(line)?.[1]?.toLowerCase() ?? '',
		line,
	}));
	return /\r(?!\n)/.test(header) || fields.some(({name}) => name === '') ? null : fields;
}

/**
 * Fields that may occur only once (RFC 5322 §3.6, RFC 2045). If they repeat, signatures cover the last one, while
 * people see the first.
 */
const uniqueField =
	/^(?:from|sender|reply-to|to|cc|date|subject|in-reply-to|references|content-(?:type|transfer-encoding))$/;

export function hasRepeatedField(fields: ReadonlyArray<{readonly name: string}>): boolean {
	const names = fields.flatMap(({name}) => (uniqueField.test(name) ? [name] : []));
	return new Set(names).size < names.length;
}

/** Returns a domain as A-labels in lower case, or `undefined` if DNS cannot have it below a top-level domain. */
export function domainName(text: string): string | undefined {
	const name = text.length <= maxDomainLength ? hostName(text) : undefined;
	return name?.includes('.') ? name : undefined;
}

/** Returns candidates for the author's domain: a comment in the field may name another address. */
export function authorDomains(header: string): string[] {
	const field = /^from[ \t]*:[^\n]*(?:\n[ \t][^\n]*)*/im.exec(header)?.[0] ?? '';
	const matches = Buffer.from(field, 'latin1')
		.toString()
		.matchAll(/@([^\s<>,;:"()]+)/g);
	return [...new Set([...matches].slice(-maxAuthorDomains).flatMap(([, text = '']) => domainName(text) ?? []))];
}
