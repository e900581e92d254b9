import addressparser, {type AddressOrGroup} from 'nodemailer/lib/addressparser';
import {cutText, withoutControls} from '../../kit/text.ts';
import {decodeWords} from '../../mail/decode.ts';
import {type ParsedMessage, unreadableMessage, type Verdict} from '../../mail/received.ts';
import {addressesIn} from './addresses-in-text.ts';
import {readContent, toFiles} from './letter-content.ts';
import {collectLeaves, type Field, findField, type Mail, type Part, readContentType, readMail} from './mime.ts';
import {hasRepeatedField} from './raw-header.ts';

// Parses messages to people. It runs in the reader's thread, which limits time and memory.

/** Characters of text and of HTML that are stored and posted. */
const maxTextLength = 256 * 1024;
const maxSubjectLength = 998;
const maxNameLength = 255;
const maxValueLength = 4096;
const maxFields = 200;
const maxMailboxes = 50;
const maxAddresses = 1000;
const maxHeaderLength = 256 * 1024;
const maxRepliedTo = 50;

/** Parses a message. If it exceeds the limits of `readMail`, the result has only its header and a `fault`. */
export async function readLetter(raw: Buffer, signatures: readonly Verdict[]): Promise<ParsedMessage> {
	const mail = readMail(raw, raw.length);
	const {fields, parts} = mail.root;
	const unread = (fault: string): ParsedMessage => ({...unreadableMessage(fault), ...readHeaderOnly(mail, raw)});
	if (mail.fault !== null) {
		return unread(mail.fault);
	}
	if (parts.length === 0 && isMultipart(fields)) {
		return unread('a multipart without parts');
	}
	try {
		const froms = parseMailboxes(findField(fields, 'from') ?? '');
		const hasRepeated = hasRepeatedField(fields);
		const {text, html} = readContent(mail.root);
		return {
			...readHeaderOnly(mail, raw),
			from: froms[0] ?? null,
			isAmbiguous: froms.length > 1 || hasRepeated,
			text: text && cutText(text, maxTextLength),
			html: html && cutText(html, maxTextLength),
			cut: [text, html].some(body => body !== null && body.length > maxTextLength) || fields.length > maxFields,
			files: toFiles(collectLeaves(mail.root), raw.includes('\r\n') ? '\r\n' : '\n'),
			signatures: hasRepeated ? signatures.map(signature => ({...signature, result: 'policy'})) : signatures,
			fault: null,
		};
	} catch (error) {
		return unread(`it cannot be parsed: ${withoutControls((error as Error).message).slice(0, maxNameLength)}`);
	}
}

/** Reads what the header alone contains. */
function readHeaderOnly({root}: Mail, raw: Buffer) {
	const {fields} = root;
	const [header = ''] = raw.toString('utf8', 0, maxHeaderLength).replaceAll(/\r\n?/g, '\n').split('\n\n', 1);
	const references = idsIn(findField(fields, 'references')).reverse();
	return {
		subject: textOf(findField(fields, 'subject') ?? '', maxSubjectLength),
		automatic: isAutomatic(root),
		senders: parseAddresses(header, 'from|sender|reply-to'),
		addressees: parseAddresses(header, 'to|cc'),
		repliedTo: [...new Set([...idsIn(findField(fields, 'in-reply-to')), ...references])].slice(0, maxRepliedTo),
		headers: fields.slice(0, maxFields).map(({name, value}) => ({name, value: textOf(value, maxValueLength)})),
	};
}

/** Removes controls: an encoded word may contain line breaks, which programs mistake for the end of a field. */
const textOf = (value: string, maxLength: number) => cutText(withoutControls(decodeWords(value)), maxLength);

/**
 * Returns every address in the fields of these names, even beyond what is shown: messages are found and erased by them.
 */
function parseAddresses(header: string, names: string): string[] {
	const fields = header.matchAll(new RegExp(`^(?:${names})[ \\t]*:[^\\n]*(?:\\n[ \\t][^\\n]*)*`, 'gim'));
	return addressesIn([...fields].join('\n'), maxAddresses);
}

/** Finds message ids. Angle brackets are often lost in transit, and long ids get encoded. */
function idsIn(value: string | null): string[] {
	const ids = decodeWords(value ?? '').matchAll(/[^\s\p{Cc}<>,;"()]{1,512}@[^\s\p{Cc}<>,;"()]{1,255}/gu);
	return [...ids].map(([id]) => `<${id}>`);
}

/** True even if the boundary is missing or never occurs. */
function isMultipart(fields: readonly Field[]): boolean {
	return /^\s*multipart\//i.test(findField(fields, 'content-type') ?? '');
}

/**
 * Whether a message is automatic: by RFC 3834 §5, by what mailing lists and responders set before it, or because it is
 * a report (RFC 6522, RFC 8098). `X-Auto-Response-Suppress` does not count, because Exchange sets it in personal mail,
 * too.
 */
function isAutomatic({fields, parts}: Part): boolean {
	const submitted = findField(fields, 'auto-submitted');
	// A multipart whose parts cannot be found still has its declared type.
	const {value: declaredType} = readContentType(findField(fields, 'content-type'));
	// People attach parts of a report to their questions, while a gateway wraps a whole report to add its footer.
	const isReport = reportType.test(declaredType) || parts.some(({type}) => type === 'multipart/report');
	return (
		(submitted !== null && !/^\s*no\b/i.test(submitted)) ||
		/bulk|list|junk|auto.?reply/i.test(findField(fields, 'precedence') ?? '') ||
		['list-id', 'x-autoreply', 'x-autorespond'].some(name => findField(fields, name) !== null) ||
		isReport ||
		/(?:^|[\s<"'(])mailer[-_ ]daemon(?:[\s@+>"')]|$)/i.test(decodeWords(findField(fields, 'from') ?? ''))
	);
}

const reportType =
	/^(?:multipart\/report|message\/(?:(?:global-)?(?:delivery-status|disposition-notification)|feedback-report))$/;

function parseMailboxes(field: string) {
	const mailboxes: Array<{readonly address: string; readonly name: string | null}> = [];
	const add = ({address, name, group}: AddressOrGroup): void => {
		const mailbox = mailboxIn(address ?? '');
		if (mailbox !== '' && mailboxes.length < maxMailboxes) {
			mailboxes.push({
				address: mailbox,
				name: cutText(withoutControls(decodeWords(name)), maxNameLength) || null,
			});
		}
		group?.forEach(add);
	};
	addressparser(field).forEach(add);
	// Some programs encode the whole field. Then only text in angle brackets counts as an address.
	const decoded = mailboxes.length === 0 ? decodeWords(field) : '';
	if (/<[^<>\s]+@[^<>\s]+>/.test(decoded)) {
		addressparser(decoded).forEach(add);
	}
	return mailboxes;
}

/** Returns an address as written. An encoded word cannot stand for one (RFC 2047 §5), except for a plain one. */
function mailboxIn(encoded: string): string {
	const address = decodeWords(encoded);
	return address === encoded || /^[^\s@=]+@[^\s@]+$/.test(address) ? cutText(withoutControls(address), 320) : '';
}
