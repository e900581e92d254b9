import {isAscii} from 'node:buffer';
import {repairField} from '../compose/repair-field.ts';
import {sevenBitFault} from '../compose/seven-bit.ts';
import {type Address, parseAddress} from '../mail/address.ts';
import {isMessageId} from '../mail/message.ts';
import {
	fieldValue,
	type HeaderLimits,
	isGoodLine,
	lineNumber,
	longestLine,
	longLineIn,
	octetFault,
	type ReadSource,
	readAnySource,
	type Source,
	type SourceField,
} from '../mail/source.ts';
import {decodeWords} from '../report/decode.ts';

/** What a submitted mail says in its header, and the mail as it is kept. */
type SubmittedMail = {
	readonly from: Address;
	/** Null: none, or several. */
	readonly replyTo: Address | null;
	/** Null if the field is missing or not a Message-ID. */
	readonly messageId: string | null;
	readonly topicCode: string | null;
	readonly metadata: Readonly<Record<string, string>>;
	readonly tags: readonly string[];
	/** Without the fields that are for us alone, with a trace field before the others; its body may have long lines. */
	readonly source: Buffer;
};

type ReadMail =
	| {readonly ok: true; readonly mail: SubmittedMail}
	/** A clause for people. */
	| {readonly ok: false; readonly fault: string};

// RFC 5322 §3.6.
const once: ReadonlySet<string> = new Set([
	...['from', 'to', 'cc', 'reply-to', 'date', 'message-id', 'subject', 'in-reply-to', 'references'],
	...['mime-version', 'content-type', 'content-transfer-encoding'],
]);
/** Hidden recipients, and who sends: that is the verified From alone. */
const dropped: ReadonlySet<string> = new Set(['bcc', 'resent-bcc', 'return-path', 'sender', 'resent-sender']);

/** Of what a program wrote: what we add comes on top. */
const headerLimits: HeaderLimits = {octets: 256 * 1024, fields: 1000};
const own = 'x-mailctl-';
const metadataField = /^x-mailctl-metadata-([a-z0-9][a-z0-9_-]{0,39})$/;
const mostMetadata = 50;
const longestValue = 500;
const longestTag = 64;

/** Reads a mail's header and checks what it may hold. `trace` is our Received field (RFC 5321 §4.4). */
export function readSubmitted(raw: Buffer, trace: string): ReadMail {
	const octets = octetFault(raw);
	const given = octets === null ? readAnySource(raw, headerLimits) : fault(octets);
	const read = given.ok ? repaired(given.source) : given;
	if (!read.ok) {
		return read;
	}
	const {fields, body} = read.source;
	const counts = new Map<string, number>();
	for (const {name} of fields) {
		counts.set(name, (counts.get(name) ?? 0) + 1);
	}
	const repeated = [...counts].find(([name, n]) => n > 1 && (once.has(name) || name.startsWith(own)))?.[0];
	if (repeated !== undefined) {
		return fault(`the header has more than one ${repeated} field`);
	}
	const value = (name: string) => fields.filter(field => field.name === name).map(fieldValue)[0] ?? null;
	const from = onlyMailbox(value('from') ?? '');
	if (from === null) {
		return fault('the header needs a From field with one plain address');
	}
	const wishes = readWishes(fields.filter(({name}) => name.startsWith(own)));
	if (!wishes.ok) {
		return wishes;
	}
	const kept = fields.filter(({name}) => !dropped.has(name) && !name.startsWith(own));
	const source = mailOf([{line: trace}, ...kept], body);
	const messageId = value('message-id');
	return {
		ok: true,
		mail: {
			...{from, replyTo: onlyMailbox(value('reply-to') ?? '')},
			messageId: messageId !== null && isMessageId(messageId) ? messageId : null,
			...wishes.wishes,
			source,
		},
	};
}

/**
 * What RFC 6409 §8 allows: fields are encoded and folded, and a renderer will encode the parts of the body that need it. A signature
 * of the program's own would break by that.
 */
function repaired({fields: given, body}: Source): ReadSource {
	const isSigned = given.some(({name}) => name === 'dkim-signature');
	const fields: SourceField[] = [];
	for (const field of given) {
		if (isSigned && !isGoodLine(field.line)) {
			const [what, remedy] = /^[\t\r\n\x20-\x7e]*$/.test(field.line)
				? [longLine, 'fold it']
				: ['characters that are not ASCII', 'encode them (RFC 2047)'];
			return fault(`the ${field.line.split(':', 1)[0]} field has ${what}, ${signedAlready}: ${remedy} before you sign`);
		}
		const made = repairField(field);
		if (!made.ok) {
			return made;
		}
		fields.push({name: field.name, line: made.line});
	}
	const start = longLineIn(body);
	if (isSigned && start !== -1) {
		const line = lineNumber(body, start);
		return fault(`the body has ${longLine} (its line ${line}), ${signedAlready}: use quoted-printable before you sign`);
	}
	const left = start === -1 && isAscii(body) ? null : sevenBitFault(mailOf(fields, body));
	return left === null ? {ok: true, source: {fields, body}} : fault(left);
}

const longLine = `a line of more than ${longestLine} octets`;
const signedAlready = 'which the DKIM-Signature of the mail forbids to repair';

function mailOf(fields: readonly Pick<SourceField, 'line'>[], body: Buffer): Buffer {
	return Buffer.concat([Buffer.from(`${fields.map(({line}) => `${line}\r\n`).join('')}\r\n`, 'latin1'), body]);
}

type Wishes = Pick<SubmittedMail, 'topicCode' | 'metadata' | 'tags'>;

/** The fields `X-Mailctl-…`. One that is not known is refused: a misspelt one would lose what it says. */
function readWishes(fields: readonly SourceField[]): {ok: true; wishes: Wishes} | {ok: false; fault: string} {
	let topicCode: string | null = null;
	const metadata: Record<string, string> = {};
	const tags: string[] = [];
	for (const field of fields) {
		const value = decodeWords(fieldValue(field));
		const key = metadataField.exec(field.name)?.[1]?.replaceAll('-', '_');
		if (value === '' || value.length > longestValue || /[\p{Cc}\ufffd]/u.test(value)) {
			return fault(`${field.name} must have 1 to ${longestValue} characters`);
		}
		if (field.name === `${own}topic`) {
			topicCode = value;
		} else if (field.name === `${own}tag` && value.length <= longestTag) {
			tags.push(value);
			metadata.tag = value;
		} else if (field.name === `${own}tag`) {
			return fault(`${field.name} must have 1 to ${longestTag} characters`);
		} else if (key !== undefined) {
			metadata[key] = value;
		} else if (field.name !== `${own}ref`) {
			return fault(`${field.name} is not a field that mailctl knows`);
		}
	}
	return Object.keys(metadata).length > mostMetadata
		? fault(`the header has more than ${mostMetadata} fields of metadata`)
		: {ok: true, wishes: {topicCode, metadata, tags}};
}

function fault(text: string): {readonly ok: false; readonly fault: string} {
	return {ok: false, fault: text};
}

/**
 * The address of a field that holds one mailbox (RFC 5322 §3.4): `Name <name@example.com>` or the bare address, comments
 * and quoted names among them. Null for anything else: lists, groups, routes, two addresses, a
 * backslash outside of quotes.
 */
export function onlyMailbox(value: string): Address | null {
	const plain = withoutQuotes(value);
	const address =
		plain === null ? null : (/^[^<>@,;:\\]*<([^<>\s]*)>\s*$/.exec(plain)?.[1] ?? /^\s*([^<>\s]+)\s*$/.exec(plain)?.[1]);
	const parsed = address ? parseAddress(address, {utf8Local: false}) : null;
	return parsed?.ok ? parsed.address : null;
}

/** A quoted name becomes `"`, which no address may have; a comment a space. Null: one of them has no end. */
function withoutQuotes(value: string): string | null {
	let plain = '';
	let depth = 0;
	let quoted = false;
	for (let index = 0; index < value.length; index++) {
		const character = value[index] as string;
		if (character === '\\' && (quoted || depth > 0)) {
			index++;
		} else if (character === '"' && depth === 0) {
			quoted = !quoted;
			plain += quoted ? '"' : '';
		} else if (quoted) {
		} else if (character === '(') {
			depth++;
		} else if (character === ')' && depth > 0) {
			depth--;
			plain += ' ';
		} else if (depth === 0) {
			plain += character;
		}
	}
	return quoted || depth > 0 ? null : plain;
}
