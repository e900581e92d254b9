import {decodeWords, stripHtml} from '../../../mail/decode.ts';
import {exceptAddresses, findAddresses} from '../addresses-in-text.ts';
import {type Field, findField, type Mail, type Part, readFields, withLineFeeds} from '../mime.ts';

/** A message as the bounce readers see it. */
export type BounceText = {
	/** Returns a decoded header field by its name in lower case, or an empty string. */
	readonly field: (name: string) => string;
	/** The addresses that the bounce was sent to, which are the presumed senders of the original message. */
	readonly senders: readonly string[];
	/** The bounce's own text, without the message that it returns. */
	readonly ownText: string;
	/** The returned message or header. */
	readonly returned: string;
};

// Quoted lines belong to another message. Lines with `>>>` are SMTP transcripts, which are not removed.
const quoted = /^>(?!>>).*$/gm;
/** The maximum length of a bounce's own text. */
export const maxTextLength = 64 * 1024;
// Larger than that of plain text, because Exchange puts style sheets before the text.
const maxHtmlLength = 256 * 1024;
const maxReturnedLength = 32 * 1024;

/** Reads the text of a message: plain text, or HTML if it has no plain text. */
export function readBounceText({root}: Mail): BounceText {
	const field = (name: string) => decodeWords((findField(root.fields, name) ?? '').slice(0, 8192));
	const {parts, returned: returnedPart} = leavesBeforeReturned(root);
	const plain = textOf(
		parts.filter(part => part.type !== 'text/html'),
		maxTextLength,
	);
	const text = plain.trim() === '' ? stripHtml(textOf(parts, maxHtmlLength)) : plain;
	const {ownText, returned} = splitReturned(text.slice(0, maxTextLength));
	const attached = returnedPart?.body().subarray(0, maxReturnedLength).toString('utf8') ?? '';
	const senders = ['to', 'delivered-to', 'envelope-to'].flatMap(name => findAddresses(field(name)));
	return {
		field,
		senders: senders.map(({address}) => address),
		ownText,
		returned: `${returned}\n${attached}`.slice(0, maxReturnedLength),
	};
}

/** Returns the text parts before the returned message, and that message. All parts after it are ignored. */
function leavesBeforeReturned(root: Part): {parts: Part[]; returned: Part | null} {
	const parts: Part[] = [];
	const pending = [root];
	for (let part = pending.shift(); part !== undefined; part = pending.shift()) {
		if (endsOwnText(part)) {
			return {parts, returned: part};
		}
		if (part.parts.length > 0) {
			pending.unshift(...part.parts);
		} else if (/^text\/|^multipart\//.test(part.type)) {
			parts.push(part);
		}
	}
	return {parts, returned: null};
}

/** Whether the bounce's own text ends at this part. Unlike `isReturned`, excludes message/partial and text/rfc822. */
function endsOwnText({type}: Part): boolean {
	return /^message\/(?:rfc822|global)|^text\/rfc822-headers?$/.test(type);
}

function textOf(parts: readonly Part[], maxLength: number): string {
	let text = '';
	for (const part of parts) {
		text += text.length < maxLength ? `${part.text().slice(0, maxLength)}\n` : '';
	}
	return text.replace(/\r\n?/g, '\n').replaceAll('\u00a0', ' ').replace(quoted, '');
}

const recipientFields = ['x-failed-recipients', 'x-actual-recipient', 'original-recipient', 'x-original-to'];

/**
 * Finds the recipient that a bounce is about if its text does not name one. The bounce's own header fields come first.
 * Otherwise it is the only recipient of the returned message, or the first one whose domain occurs in the text.
 */
export function returnedRecipient({field, ownText, senders, returned}: BounceText): string | null {
	const candidates = recipientFields.flatMap(name => findAddresses(field(name)).map(({address}) => address));
	const [announced] = exceptAddresses(candidates, senders);
	if (announced !== undefined) {
		return announced;
	}
	const addresses = findRecipients(returned);
	const lowerText = ownText.toLowerCase();
	return addresses.length === 1
		? (addresses[0] as string)
		: (addresses.find(address => lowerText.includes(domainOf(address))) ?? null);
}

/** Returns the recipients in the header of a returned message. */
export function findRecipients(returned: string): string[] {
	const text = returned.slice(0, 16_384);
	const headerFields = readFields(Buffer.from(text.slice(Math.max(0, text.search(/^[\w-]+[ \t]?:/m)))));
	return headerFields
		.filter(({name}) => name === 'to' || name === 'cc')
		.flatMap(({value}) => findAddresses(decodeWords(value.slice(0, 4096))))
		.map(({address}) => address);
}

/** Returns the domain of an address, in lower case. */
export function domainOf(address: string): string {
	return address.slice(address.lastIndexOf('@') + 1).toLowerCase();
}

/** A bounce's text in two parts: what the mail server wrote, and the returned message or header below it. */
type Split = {readonly ownText: string; readonly returned: string};

// Lines that mail servers put before the returned message (R3.12).
const marker = new RegExp(
	[
		'^[ \\t>]{0,8}[-=_*#][-=_*# ]{1,80}(?:' +
			[
				'below (?:this line )?is a copy',
				'this is (?:a copy of|the body of)',
				'included is a copy',
				'original (?:mail|message)',
				'the (?:original message|header of the original|body of the message|returned message)',
				'(?:undelivered|unsent|returned|undeliverable|rejected|failed|bounced) (?:mail|message)',
				'message (?:header|text|body|non-deliverable)',
				'headers? (?:of the original|follow)',
				'(?:returned|original|undelivered) mail follows',
				'non-delivered message',
				'copy of (?:the|your) (?:original )?message',
				'your (?:original )?message',
				'message d.origine',
				'ursprüngliche nachricht',
				'originalnachricht',
				'mensaje original',
				'messaggio originale',
				'mensagem original',
				'元のメッセージ',
			].join('|') +
			').{0,80}$',
		'^[ \\t]*(?:' +
			[
				'original message (?:headers?|follows|as follows|text).{0,20}',
				'original (?:message|mail):',
				'message headers? follow.{0,10}',
				'(?:the )?(?:original|returned|undelivered|rejected) message (?:follows|is below|was|reads as follows).{0,20}',
				'below (?:this line )?is (?:a copy of|the) .{0,60}',
				'this is a copy of the (?:original )?(?:message|headers).{0,60}',
				'a copy of (?:the|your) (?:original )?message .{0,60}',
				'(?:included|attached|reproduced) (?:below )?is (?:a copy of )?(?:the|your) (?:original )?message.{0,60}',
				'the (?:first|following) .{0,40} of (?:the|your) (?:original )?message (?:follow|are).{0,40}',
				'your original message (?:is|was|reads|headers|follows).{0,60}',
				'here is (?:a copy|your) .{0,60}',
				'en-t[êe]tes? (?:du|de) message d.origine.{0,20}',
				'urspr[üu]ngliche nachrichtenk[öo]pfzeilen.{0,20}',
				'intestazioni originali del messaggio.{0,20}',
				'encabezados (?:del mensaje )?originales.{0,20}',
				'cabeçalhos (?:da mensagem )?originais.{0,20}',
				'ursprungliga meddelandehuvuden.{0,20}',
				'oorspronkelijke berichtkoppen.{0,20}',
				'元のメッセージ.{0,20}',
			].join('|') +
			')[ \\t]*$',
	].join('|'),
	'imu',
);

// Every message that was delivered has one of these fields, and no bounce text has a line that begins with one.
const trace = /^(?:Return-Path|Received|DKIM-Signature|DomainKey-Signature|ARC-Seal|X-Received|Delivered-To)[ \t]?:/im;
const unquotedField = /^(?:Message-ID|MIME-Version|Content-Type|X-Mailer|X-[\w-]{1,40})[ \t]?:/i;
const anyField =
	/^(?:From|To|Cc|Subject|Date|Reply-To|Sender|Message-ID|MIME-Version|Content-Type|Content-Transfer-Encoding|References|In-Reply-To|X-[\w-]{1,40})[ \t]?:/i;

/** Cuts off the returned message, so that its text is not mistaken for the mail server's. */
export function splitReturned(text: string): Split {
	const cuts = [marker.exec(text)?.index, trace.exec(text)?.index, headerAt(text)].filter(cut => cut !== undefined);
	const end = Math.min(text.length, ...cuts);
	// If nothing precedes the returned message, the whole text is read as the bounce's own.
	return text.slice(0, end).trim() === ''
		? {ownText: text, returned: ''}
		: {ownText: text.slice(0, end), returned: text.slice(end)};
}

/**
 * Returns where a returned header starts: a block of at least three fields. At least one must be an `unquotedField`,
 * because a bounce text may also quote a few fields for people, such as To, Subject and Sent.
 */
function headerAt(text: string): number | undefined {
	let start = 0;
	let fieldCount = 0;
	let hasUnquotedField = false;
	let lineStart = 0;
	for (const line of text.split('\n')) {
		if (anyField.test(line)) {
			start = fieldCount === 0 ? lineStart : start;
			fieldCount++;
			hasUnquotedField ||= unquotedField.test(line);
			if (fieldCount >= 3 && hasUnquotedField) {
				return start;
			}
		} else if (!/^[ \t]+\S/.test(line) || fieldCount === 0) {
			fieldCount = 0;
			hasUnquotedField = false;
		}
		lineStart += line.length + 1;
	}
	return undefined;
}

const maxHeaderLength = 64 * 1024;
const maxReturnedMessages = 5;

/** Whether a part of this type is the message that a report is about, or the header of that message. */
export function isReturned(type: string): boolean {
	return /^(?:message\/(?:rfc822|global|global-headers|rfc822-headers|partial)|text\/rfc822(?:-headers?)?)$/.test(
		type,
	);
}

/**
 * Returns the header fields of each message that a report returns, never the body (R3.9). See `returnedParts` for how
 * these messages are found.
 */
export function returnedHeaders(leaves: readonly Part[]): Field[][] {
	return returnedParts(leaves).slice(0, maxReturnedMessages).map(parseHeader);
}

/** Returns the parts whose type is that of a message. If there are none, returns those that begin like a message. */
export function returnedParts(leaves: readonly Part[]): Part[] {
	const typed = leaves.filter(({type}) => isReturned(type));
	return typed.length > 0 ? typed : leaves.filter(isMailPart);
}

/** Whether a part is a message attached as a file, or as text after the first part. `index` is its position. */
export function isMailPart(part: Part, index: number): boolean {
	return (part.type.startsWith('application/') || (index > 0 && part.type === 'text/plain')) && looksLikeMail(part);
}

function looksLikeMail(part: Part): boolean {
	return new Set(parseHeader(part).flatMap(({name}) => (commonFields.has(name) ? [name] : []))).size >= 2;
}

const commonFields: ReadonlySet<string> = new Set([
	'from',
	'to',
	'date',
	'subject',
	'message-id',
	'received',
	'mime-version',
]);

function parseHeader(part: Part): Field[] {
	const bytes = withLineFeeds(part.body().subarray(0, maxHeaderLength));
	const start = bytes.findIndex(byte => byte > 0x20);
	const header = bytes.subarray(Math.max(0, start));
	const end = header.indexOf('\n\n');
	return readFields(end === -1 ? header : header.subarray(0, end));
}
