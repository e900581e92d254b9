import {domainToASCII} from 'node:url';
import type {AddressObject, ParsedMail} from 'mailparser';
import {cutText, withoutControls} from '../kit/text.ts';
import {verifySignatures} from '../mail/dkim-signatures.ts';
import {type FoundKeys, type ReadLetter, unreadLetter, type Verdict} from '../mail/received.ts';
import {addressesIn} from './addresses-in-text.ts';
import {decodeWords} from './decode.ts';
import {type Field, fieldOf, type Mail, readMail} from './mime.ts';

// Mail to people, taken apart in the reader's thread, whose limits of time and memory hold.

/** Characters of text and of html that are kept and posted. */
const longestText = 256 * 1024;
const longestSubject = 998;
const longestName = 255;
const longestValue = 4096;
const mostFields = 200;
const mostMailboxes = 50;
const mostAddresses = 1000;
const longestHeader = 256 * 1024;
const mostAnswers = 50;

/** Fields that a mail has once (RFC 5322 §3.6, RFC 2045): signatures cover the last of several, and people see the first. */
const single =
	/^(?:from|sender|reply-to|to|cc|date|subject|in-reply-to|references|content-(?:type|transfer-encoding))$/;

/** To load them takes a second of a slow machine, which is no time of a mail. */
export const loadLibraries = () => Promise.all([import('mailparser'), import('mailauth/lib/dkim/verify.js')]);

/** The library reads no mail that is beyond the limits of `readMail`; such a one has its fault, and is shown as it came. */
export async function readLetter(raw: Buffer, keys: FoundKeys): Promise<ReadLetter> {
	const mail = readMail(raw);
	const {fields} = mail.root;
	const unread = (fault: string): ReadLetter => ({...unreadLetter(fault), ...ofHeader(mail, raw)});
	if (mail.fault !== null) {
		return unread(mail.fault);
	}
	try {
		const {simpleParser} = await import('mailparser');
		const skip = {skipHtmlToText: true, skipTextToHtml: true, skipImageLinks: true, skipTextLinks: true};
		const parsed = await simpleParser(raw, skip);
		const froms = mailboxesOf(parsed.from, fieldOf(fields, 'from') ?? '');
		const names = fields.flatMap(({name}) => (single.test(name) ? [name] : []));
		const isDoubled = new Set(names).size < names.length;
		const signatures = await signaturesOf(raw, keys);
		const [text, html] = [parsed.text || null, parsed.html || null];
		if (text === null && html === null && parsed.attachments.length === 0 && isMultipart(fields)) {
			return unread('a multipart without parts');
		}
		return {
			...ofHeader(mail, raw),
			from: froms[0] ?? null,
			isAmbiguous: froms.length > 1 || isDoubled,
			text: text && cutText(text, longestText),
			html: html && cutText(html, longestText),
			cut: [text, html].some(one => one !== null && one.length > longestText) || fields.length > mostFields,
			files: parsed.attachments.map(fileOf),
			signatures: isDoubled ? signatures.map(one => ({...one, result: 'policy'})) : signatures,
			fault: null,
		};
	} catch (error) {
		return unread(`it cannot be parsed: ${withoutControls((error as Error).message).slice(0, longestName)}`);
	}
}

/** What its header alone says. */
function ofHeader({root: {fields}}: Mail, raw: Buffer) {
	const [header = ''] = raw.toString('utf8', 0, longestHeader).replaceAll(/\r\n?/g, '\n').split('\n\n', 1);
	const references = idsIn(fieldOf(fields, 'references')).reverse();
	return {
		subject: textOf(fieldOf(fields, 'subject') ?? '', longestSubject),
		automatic: isAutomatic(fields),
		senders: addressesOf(header, 'from|sender|reply-to'),
		addressees: addressesOf(header, 'to|cc'),
		answers: [...new Set([...idsIn(fieldOf(fields, 'in-reply-to')), ...references])].slice(0, mostAnswers),
		headers: fields.slice(0, mostFields).map(({name, value}) => ({name, value: textOf(value, longestValue)})),
	};
}

/** An encoded word may hold line ends, which programs would take for the end of a field. */
const textOf = (value: string, longest: number) => cutText(withoutControls(decodeWords(value)), longest);

/** All that fields of these names hold, beyond what is shown of them too: mail is found and erased by it. */
function addressesOf(header: string, names: string): string[] {
	const fields = header.matchAll(new RegExp(`^(?:${names})[ \\t]*:[^\\n]*(?:\\n[ \\t][^\\n]*)*`, 'gim'));
	return addressesIn([...fields].join('\n'), mostAddresses);
}

/** Angle brackets are often lost on the way. */
function idsIn(value: string | null): string[] {
	return [...(value ?? '').matchAll(/[^\s<>,;"()]{1,512}@[^\s<>,;"()]{1,255}/g)].map(([id]) => `<${id}>`);
}

/** Its boundary may be missing, or occur nowhere. */
function isMultipart(fields: readonly Field[]): boolean {
	return /^\s*multipart\//i.test(fieldOf(fields, 'content-type') ?? '');
}

/** RFC 3834 §5, and what mailing lists and responders set before it. */
function isAutomatic(fields: readonly Field[]): boolean {
	const submitted = fieldOf(fields, 'auto-submitted');
	return (
		(submitted !== null && !/^\s*no\b/i.test(submitted)) ||
		/bulk|list|junk|auto.?reply/i.test(fieldOf(fields, 'precedence') ?? '') ||
		['list-id', 'x-autoreply', 'x-autorespond', 'x-auto-response-suppress'].some(name => fieldOf(fields, name) !== null)
	);
}

/** @param written the field: the library shows domains in Unicode, in which one looks like another */
function mailboxesOf(header: AddressObject | AddressObject[] | undefined, written: string) {
	const found: Array<{readonly address: string; readonly name: string | null}> = [];
	const add = (each: AddressObject['value'][number]): void => {
		if (each.address && found.length < mostMailboxes) {
			const at = each.address.lastIndexOf('@') + 1;
			const ascii = each.address.slice(0, at) + domainToASCII(each.address.slice(at));
			const address = written.toLowerCase().includes(ascii.toLowerCase()) ? ascii : each.address;
			found.push({address: cutText(address, 320), name: cutText(withoutControls(each.name), longestName) || null});
		}
		each.group?.forEach(add);
	};
	for (const {value} of [header ?? []].flat()) {
		value.forEach(add);
	}
	return found;
}

function fileOf({filename, contentType, content, contentId}: ParsedMail['attachments'][number]) {
	const id = contentId?.replace(/^<|>$/g, '') ?? null;
	return {
		name: filename === undefined ? null : cutText(withoutControls(filename), longestName),
		type: /^[\w.+-]{1,127}\/[\w.+-]{1,127}$/.test(contentType) ? contentType.toLowerCase() : 'application/octet-stream',
		size: content.length,
		contentId: id && cutText(id, longestName),
		content,
	};
}

/** Without keys there are no signatures to verify: the time that it takes grows with the lines of the mail. */
async function signaturesOf(raw: Buffer, keys: FoundKeys): Promise<Verdict[]> {
	if (keys.length === 0) {
		return [];
	}
	const found = new Map(keys);
	return await verifySignatures(raw, async name => {
		const records = found.get(name.toLowerCase()) ?? 'ENOTFOUND';
		if (typeof records === 'string') {
			throw Object.assign(new Error(`no key at ${name}`), {code: records});
		}
		return records.map(record => [record]);
	});
}
