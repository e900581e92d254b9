import {withoutControls} from '../kit/unprintable.ts';

/** 64 characters in all: with `Subject: ` before it a line keeps within the 76 of RFC 2047 §2. */
const bytesPerWord = 39;
/** A longer word could not be folded, so it is encoded. */
const longestPlainWord = 66;

/** RFC 2047 encoded words (base64), to be joined by folding space. No UTF-8 sequence is split between two words. */
export function encodedWords(text: string): string[] {
	const bytes = Buffer.from(text, 'utf8');
	const words: string[] = [];
	for (let start = 0; start < bytes.length; ) {
		let end = Math.min(start + bytesPerWord, bytes.length);
		while (end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) {
			end--;
		}
		words.push(`=?UTF-8?B?${bytes.toString('base64', start, end)}?=`);
		start = end;
	}
	return words;
}

/** The words of an unstructured field such as the subject: as they are where that is safe, else encoded. */
export function unstructured(text: string): string[] {
	const clean = withoutControls(text);
	if (clean === '') {
		return [];
	}

	return isPlain(clean) ? clean.split(' ') : encodedWords(clean);
}

/** The words of a display name (RFC 5322 phrase): atoms, one quoted string, or encoded words; none for an empty name. */
export function phrase(name: string): string[] {
	const clean = withoutControls(name).trim();
	if (clean === '') {
		return [];
	}

	if (!isPlain(clean) || clean.length > longestPlainWord) {
		return encodedWords(clean);
	}

	if (/^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~ ]+$/.test(clean)) {
		return clean.split(' ');
	}

	return [`"${clean.replace(/["\\]/g, '\\$&')}"`];
}

// Printable ASCII in words of foldable length with one space between, so that folding and unfolding change nothing;
// and nothing that a reader would take for an encoded word.
function isPlain(text: string): boolean {
	return (
		/^[\x21-\x7e]+(?: [\x21-\x7e]+)*$/.test(text) &&
		!text.includes('=?') &&
		text.split(' ').every(word => word.length <= longestPlainWord)
	);
}
