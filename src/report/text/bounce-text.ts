import {findAddresses, strangersIn} from '../addresses-in-text.ts';
import {decodeWords, stripHtml} from '../decode.ts';
import {fieldOf, type Mail, type Part, readFields} from '../mime.ts';
import {splitReturned} from './returned.ts';

/** A mail as a reader of bounces sees it. */
export type BounceText = {
	/** A header field by its name in lower case, decoded; empty if absent. */
	readonly field: (name: string) => string;
	/** To whom the mail came: who sent the mail that it may be about. */
	readonly senders: readonly string[];
	/** What it says, without what it gives back. */
	readonly said: string;
	/** The mail or header that it gives back. */
	readonly returned: string;
};

// Quotes are the words of another mail. Transcripts have `>>>`.
const quoted = /^>(?!>>).*$/gm;
/** Of what a mail says. */
export const longestText = 64 * 1024;
// Exchange puts its style sheets before its words.
const longestHtml = 256 * 1024;
const longestReturned = 32 * 1024;

/** The text of a mail: its plain text, or its HTML if it has no plain text. */
export function bounceTextOf({root}: Mail): BounceText {
	const field = (name: string) => decodeWords((fieldOf(root.fields, name) ?? '').slice(0, 8192));
	const leaves = leavesBeforeReturned(root);
	const plain = textOf(
		leaves.parts.filter(part => part.type !== 'text/html'),
		longestText,
	);
	const text = plain.trim() === '' ? stripHtml(textOf(leaves.parts, longestHtml)) : plain;
	const {said, returned} = splitReturned(text.slice(0, longestText));
	const back = leaves.returned?.body().subarray(0, longestReturned).toString('utf8') ?? '';
	const senders = ['to', 'delivered-to', 'envelope-to'].flatMap(name => findAddresses(field(name)));
	return {
		field,
		senders: senders.map(({address}) => address),
		said,
		returned: `${returned}\n${back}`.slice(0, longestReturned),
	};
}

/** The texts of a mail up to the mail that it gives back; what comes after that one belongs to it. */
function leavesBeforeReturned(root: Part): {parts: Part[]; returned: Part | null} {
	const parts: Part[] = [];
	const open = [root];
	for (let part = open.shift(); part !== undefined; part = open.shift()) {
		if (isReturned(part)) {
			return {parts, returned: part};
		}
		if (part.parts.length > 0) {
			open.unshift(...part.parts);
		} else if (/^text\/|^multipart\//.test(part.type)) {
			parts.push(part);
		}
	}
	return {parts, returned: null};
}

function isReturned({type}: Part): boolean {
	return /^message\/(?:rfc822|global)|^text\/rfc822-headers?$/.test(type);
}

function textOf(parts: readonly Part[], most: number): string {
	let text = '';
	for (const part of parts) {
		text += text.length < most ? `${part.text().slice(0, most)}\n` : '';
	}
	return text.replace(/\r\n?/g, '\n').replaceAll('\u00a0', ' ').replace(quoted, '');
}

const fields = ['x-failed-recipients', 'x-actual-recipient', 'original-recipient', 'x-original-to'];

/**
 * The recipient of a bounce that names no recipient in its words: from the bounce's own fields, or from the returned mail if
 * that had one recipient, or one in the domain that the words name.
 */
export function returnedRecipient({field, said, senders, returned}: BounceText): string | null {
	const named = fields.flatMap(name => findAddresses(field(name)).map(({address}) => address));
	const [own] = strangersIn(named, senders);
	if (own !== undefined) {
		return own;
	}
	const addresses = recipientsOf(returned);
	const spoken = said.toLowerCase();
	return addresses.length === 1
		? (addresses[0] as string)
		: (addresses.find(address => spoken.includes(domainOf(address))) ?? null);
}

/** For whom a mail that was given back is, by its header. */
export function recipientsOf(returned: string): string[] {
	const text = returned.slice(0, 16_384);
	const fields = readFields(Buffer.from(text.slice(Math.max(0, text.search(/^[\w-]+[ \t]?:/m)))));
	return fields
		.filter(({name}) => name === 'to' || name === 'cc')
		.flatMap(({value}) => findAddresses(decodeWords(value.slice(0, 4096))))
		.map(({address}) => address);
}

/** The domain of an address, in lower case. */
export function domainOf(address: string): string {
	return address.slice(address.lastIndexOf('@') + 1).toLowerCase();
}
