import {withoutControls} from '../kit/unprintable.ts';

/** One header field as in the mail, folded, without its final CRLF. */
export type HeaderField = {readonly name: string; readonly line: string};

const lineLength = 76;
const longestLine = 998;

/**
 * A header field, folded only between its words (RFC 5322 §2.2.3). A word of any length stays whole, as URLs and
 * encoded words must.
 *
 * @throws where a word does not fit in a line of 998 octets (RFC 5322 §2.1.1).
 */
export function headerField(name: string, words: readonly string[]): HeaderField {
	let line = `${name}:`;
	let column = line.length;
	for (const [index, word] of words.entries()) {
		const clean = withoutControls(word);
		// The first word stays beside the name: some readers take a first line without a word for an empty field.
		if (index > 0 && column + 1 + clean.length > lineLength) {
			line += '\r\n';
			column = 0;
		}
		line += ` ${clean}`;
		column += 1 + clean.length;
	}
	if (line.length > lineLength && line.split('\r\n').some(part => Buffer.byteLength(part) > longestLine)) {
		throw new Error(`A word of the header ${name} is longer than a line may be.`);
	}

	return {name, line};
}

/** A header field of words that we make ourselves (tokens, URLs). What is not printable ASCII becomes `_`. */
export function asciiField(name: string, ...words: readonly string[]): HeaderField {
	return headerField(
		name,
		words.map(word => word.replace(/[^\x20-\x7e]/g, '_')),
	);
}
