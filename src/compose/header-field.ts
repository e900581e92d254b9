import {domainToASCII} from 'node:url';
import {type Pieces, withoutControls} from '../kit/text.ts';
import type {Attachment, Extras} from '../mail/message.ts';

/** One folded header field, without its final CRLF. */
export type HeaderField = {readonly name: string; readonly line: string};

const lineLength = 76;
const maxLineLength = 998;

/**
 * Returns a header field, folded only between words (RFC 5322 §2.2.3). Words of any length stay whole, as URLs and
 * encoded words must.
 *
 * @throws if a word does not fit into a line of 998 octets (RFC 5322 §2.1.1).
 */
export function headerField(name: string, words: readonly string[]): HeaderField {
	let line = `${name}:`;
	let column = line.length;
	for (const [index, word] of words.entries()) {
		const clean = withoutControls(word);
		// Keep the first word beside the name: some readers treat a field whose first line has no word as empty.
		if (index > 0 && column + 1 + clean.length > lineLength) {
			line += '\r\n';
			column = 0;
		}
		line += ` ${clean}`;
		column += 1 + clean.length;
	}
	if (line.length > lineLength && line.split('\r\n').some(part => Buffer.byteLength(part) > maxLineLength)) {
		throw new Error(`A word in the ${name} header is too long for a line.`);
	}

	return {name, line};
}

/** Returns a header field of words that mailctl generates (tokens, URLs). Anything but printable ASCII becomes `_`. */
export function asciiField(name: string, ...words: readonly string[]): HeaderField {
	return headerField(
		name,
		words.map(word => word.replace(/[^\x20-\x7e]/g, '_')),
	);
}

/** Results in encoded words of 64 characters. With `Subject: `, a line stays within the 76 of RFC 2047 §2. */
const bytesPerWord = 39;
/** A longer word is encoded, because it could not be folded. */
const maxPlainWordLength = 66;

/** Returns RFC 2047 encoded words (base64), to be joined by folding space. No UTF-8 sequence is split between words. */
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

/** Returns the words of an unstructured field such as the subject, encoded unless they are safe as they are. */
export function unstructured(text: string): string[] {
	const clean = withoutControls(text);
	if (clean === '') {
		return [];
	}

	return isPlain(clean) ? clean.split(' ') : encodedWords(clean);
}

/** Returns a field that a send adds. Words that fit into a line stay unencoded, because programs read them. */
export function addedField(name: string, value: string): HeaderField {
	const isUnencoded = !/^x-/i.test(name) || isPlain(value, maxLineLength - name.length - 2);
	return isUnencoded ? asciiField(name, ...value.split(' ')) : headerField(name, encodedWords(value));
}

/** Returns the words of a display name (RFC 5322 phrase), if any: atoms, one quoted string, or encoded words. */
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

// Whether the text is printable ASCII in words that can be folded and do not look encoded. Single spaces between them
// ensure that folding can be undone.
function isPlain(text: string, maxWordLength = maxPlainWordLength): boolean {
	return (
		/^[\x21-\x7e]+(?: [\x21-\x7e]+)*$/.test(text) &&
		!text.includes('=?') &&
		text.split(' ').every(word => word.length <= maxWordLength)
	);
}

const bareAddress =
	/^[^\s\u0000-\u0020\u007f-\u00a0\u2028\u2029<>()[\]\\,;:"@]+@[^\s\u0000-\u0020\u007f-\u00a0\u2028\u2029<>()[\]\\,;:"@]+$/;

/** Returns the words of a mailbox (RFC 5322 §3.4): `Name <address>` or the bare address. */
export function mailbox(address: string, name: string | null): string[] {
	const words = phrase(name ?? '');
	const spec = addrSpec(address);
	return words.length > 0 ? [...words, `<${spec}>`] : [spec];
}

/** Returns the words of an address list. */
export function addressList(addresses: readonly string[]): string[] {
	return addresses.map((address, index) => addrSpec(address) + (index < addresses.length - 1 ? ',' : ''));
}

/** Whether a header has an address that ASCII cannot represent, so the message needs SMTPUTF8 (RFC 6531, RFC 6532). */
export function needsSmtputf8(message: RenderedMessage): boolean {
	return [message.from.address, message.to, ...message.cc, message.replyTo ?? ''].some(address =>
		/[^\x00-\x7f]/.test(address.slice(0, Math.max(0, address.lastIndexOf('@')))),
	);
}

// The domain becomes A-labels. The local part has no ASCII form, so it is unchanged (RFC 6532 §3.2).
function addrSpec(address: string): string {
	if (!bareAddress.test(address)) {
		throw new Error('An address in a header is not a bare addr-spec.');
	}

	const domainStart = address.lastIndexOf('@') + 1;
	const domain = address.slice(domainStart);
	const ascii = /^[\x21-\x7e]+$/.test(domain) ? domain : domainToASCII(domain);
	if (ascii === '') {
		throw new Error('The domain of an address in a header has no A-label form.');
	}

	return address.slice(0, domainStart) + ascii;
}

/** The rendered message for one recipient. Addresses are validated bare addr-specs. */
export type RenderedMessage = {
	/** Without angle brackets. The same for every recipient and every attempt. */
	readonly messageIdHeader: string;
	/** In milliseconds since the epoch. The same in every attempt. */
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
	/** `url` accepts a POST (RFC 8058). `mailto` is the address for unsubscribing by mail, without the scheme. */
	readonly listUnsubscribe: {readonly url: string; readonly mailto: string | null};
	/** The recipient's token: the value of X-Mailctl-Ref, from which the boundaries are derived. */
	readonly ref: string;
	/** The full value of Feedback-ID (R3.20). */
	readonly feedbackId: string | null;
	/** The address for complaints, or `null`. Its domain matches the signatures (RFC 9477 §3.1). */
	readonly cfblAddress: string | null;
};
