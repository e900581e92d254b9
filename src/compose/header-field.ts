import {domainToASCII} from 'node:url';
import {type Pieces, withoutControls} from '../kit/text.ts';
import type {Attachment, Extras} from '../mail/message.ts';

/** One header field as in the mail, folded, without its final CRLF. */
export type HeaderField = {readonly name: string; readonly line: string};

const lineLength = 76;
const maxLineLength = 998;

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
	if (line.length > lineLength && line.split('\r\n').some(part => Buffer.byteLength(part) > maxLineLength)) {
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

/** 64 characters in all: with `Subject: ` before it a line keeps within the 76 of RFC 2047 §2. */
const bytesPerWord = 39;
/** A longer word could not be folded, so it is encoded. */
const maxPlainWordLength = 66;

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

/** A field that a send adds. Its words stay as they are where they fit in a line: programs read them. */
export function addedField(name: string, value: string): HeaderField {
	const isAsIs = !/^x-/i.test(name) || isPlain(value, maxLineLength - name.length - 2);
	return isAsIs ? asciiField(name, ...value.split(' ')) : headerField(name, encodedWords(value));
}

/**
 * The words of a display name (RFC 5322 phrase): atoms, one quoted string, or encoded words; none for an empty name.
 */
function phrase(name: string): string[] {
	const clean = withoutControls(name).trim();
	if (clean === '') {
		return [];
	}

	if (!isPlain(clean) || clean.length > maxPlainWordLength) {
		return encodedWords(clean);
	}

	if (/^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~ ]+$/.test(clean)) {
		return clean.split(' ');
	}

	return [`"${clean.replace(/["\\]/g, '\\$&')}"`];
}

// Printable ASCII in words of foldable length with one space between, so that folding and unfolding change nothing;
// and nothing that a reader would take for an encoded word.
function isPlain(text: string, maxWordLength = maxPlainWordLength): boolean {
	return (
		/^[\x21-\x7e]+(?: [\x21-\x7e]+)*$/.test(text) &&
		!text.includes('=?') &&
		text.split(' ').every(word => word.length <= maxWordLength)
	);
}

const bareAddress =
	/^[^\s\u0000-\u0020\u007f-\u00a0\u2028\u2029<>()[\]\\,;:"@]+@[^\s\u0000-\u0020\u007f-\u00a0\u2028\u2029<>()[\]\\,;:"@]+$/;

/** The words of a mailbox (RFC 5322 §3.4): `Name <address>` or the bare address. */
export function mailbox(address: string, name: string | null): string[] {
	const words = phrase(name ?? '');
	const spec = addrSpec(address);
	return words.length > 0 ? [...words, `<${spec}>`] : [spec];
}

/** The words of an address list. */
export function addressList(addresses: readonly string[]): string[] {
	return addresses.map((address, index) => addrSpec(address) + (index < addresses.length - 1 ? ',' : ''));
}

/** Whether a header has an address that ASCII cannot spell, so that the mail needs SMTPUTF8 (RFC 6531, RFC 6532). */
export function needsSmtputf8(letter: Letter): boolean {
	return [letter.from.address, letter.to, ...letter.cc, letter.replyTo ?? ''].some(address =>
		/[^\x00-\x7f]/.test(address.slice(0, Math.max(0, address.lastIndexOf('@')))),
	);
}

// The domain as A-labels; the local part has no ASCII form, so it stays as it is (RFC 6532 §3.2).
function addrSpec(address: string): string {
	if (!bareAddress.test(address)) {
		throw new Error('An address in a header is no bare addr-spec.');
	}

	const at = address.lastIndexOf('@') + 1;
	const domain = address.slice(at);
	const ascii = /^[\x21-\x7e]+$/.test(domain) ? domain : domainToASCII(domain);
	if (ascii === '') {
		throw new Error('The domain of an address in a header has no A-label form.');
	}

	return address.slice(0, at) + ascii;
}

/** The rendered mail of one recipient. Addresses are validated, bare addr-specs. */
export type Letter = {
	/** Without the angle brackets. The same for every recipient and every try. */
	readonly messageIdHeader: string;
	/** Milliseconds since the epoch. The same at every try. */
	readonly date: number;
	readonly from: {readonly address: string; readonly name: string | null};
	readonly to: string;
	readonly cc: readonly string[];
	readonly replyTo: string | null;
	readonly subject: string;
	readonly html: string | Pieces;
	readonly text: string | Pieces | null;
	readonly attachments: readonly Attachment[];
	readonly extras: Pick<Extras, 'toName' | 'replyToName' | 'headers'>;
	/** `url` acts on a POST (RFC 8058); `mailto` is the address that unsubscribes by mail, without the scheme. */
	readonly listUnsubscribe: {readonly url: string; readonly mailto: string | null};
	/** This recipient's token: the value of X-Mailctl-Ref, and the source of the boundaries. */
	readonly ref: string;
	/** The whole value of Feedback-ID (R3.20). */
	readonly feedbackId: string | null;
	/**
	 * Where a receiver may send complaints of this mail; null: nowhere. Its domain fits the signatures (RFC 9477 §3.1).
	 */
	readonly cfblAddress: string | null;
};
