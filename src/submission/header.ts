import type {Address} from '../mail/address.ts';
import {isMessageId} from '../mail/message.ts';
import {fieldValue, type HeaderLimits, octetFault, readSource, type SourceField} from '../mail/source.ts';
import {decodeWords} from '../report/decode.ts';
import {onlyMailbox} from './mailbox.ts';

/** What a submitted mail says in its header, and the mail as it is kept. */
export type SubmittedMail = {
	readonly from: Address;
	/** Null: none, or several. */
	readonly replyTo: Address | null;
	/** Null: it has none, or nothing that is one. */
	readonly messageId: string | null;
	readonly topicCode: string | null;
	readonly metadata: Readonly<Record<string, string>>;
	readonly tags: readonly string[];
	/** Without the fields that are for us alone, with a trace field before the others. */
	readonly source: Buffer;
};

export type ReadMail =
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
	const read = octets === null ? readSource(raw, headerLimits) : {ok: false as const, fault: octets};
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
	const header = [trace, ...kept.map(({line}) => line)].map(line => `${line}\r\n`).join('');
	const source = Buffer.concat([Buffer.from(`${header}\r\n`, 'latin1'), body]);
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
