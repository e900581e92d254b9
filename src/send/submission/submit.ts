import {isAscii} from 'node:buffer';
import type {Knex} from 'knex';
import type {Caller} from '../../api/caller.ts';
import {repairField} from '../../compose/repair-field.ts';
import {sevenBitProblem} from '../../compose/seven-bit.ts';
import {inSlice} from '../../kit/turns.ts';
import {type Address, parseAddress} from '../../mail/address.ts';
import type {ApiErrorCode} from '../../mail/api-error.ts';
import {decodeWords} from '../../mail/decode.ts';
import {type ExtraFields, type Extras, extrasJson, isMessageId, submittedFile} from '../../mail/message.ts';
import {
	fieldValue,
	type HeaderLimits,
	isGoodLine,
	lineNumber,
	longLineIn,
	maxLineLength,
	octetProblem,
	type ReadSource,
	readAnySource,
	type Source,
	type SourceField,
} from '../../mail/source.ts';
import {suppresses} from '../../mail/suppression.ts';
import {isLooping} from '../../net/smtp-listener.ts';
import {type Field, listFields, parseField} from '../../resources/fields.ts';
import {readAddressees} from '../../resources/topics/store.ts';
import type {Send, SendResult} from '../draft.ts';
import {type SendBody, sendBody} from '../schema.ts';
import type {Accept} from '../send.ts';

/** A reply to a client: a code, and a text that begins with the enhanced code. */
type Reply = {readonly code: number; readonly text: string};

/** Why something is refused, as a label for metrics and the log. */
type RefusalReason =
	| ('key' | 'key_scope' | 'too_many_failures')
	| ('too_many_sessions' | 'session_over')
	| ('paused' | 'rate_limit' | 'quota')
	| ('address' | 'suppressed' | 'unsubscribed')
	| ('sender' | 'topic' | 'malformed' | 'looping' | 'too_large')
	| ('no_room' | 'no_disk' | 'store');

export type Refusal = Reply & {readonly reason: RefusalReason};

/** The send fields set by the parameters of MAIL. */
export type OfEnvelope = Pick<Extras, 'priority' | 'sendAt' | 'expiresAt'>;

/** A message as received. */
type Incoming = {
	readonly caller: Caller;
	readonly recipients: readonly Address[];
	readonly raw: Buffer;
	readonly envelope: OfEnvelope;
	/** The Received field to add. */
	readonly trace: string;
};

export type Submitted = Reply & {
	/** `null` if it was accepted for at least one recipient. */
	readonly reason: RefusalReason | null;
	/** The messages created from it, in the order of its recipients. */
	readonly ids: readonly string[];
	/** The recipients that were refused although others were accepted. */
	readonly left: ReadonlyArray<{readonly recipient: string; readonly reason: string}>;
	/** The reason for each of those. */
	readonly leftFor: readonly RefusalReason[];
};

type SubmissionOptions = {
	/** Returns the caller that a key belongs to, or `null` if the key is invalid. */
	readonly identify: (key: string) => Promise<Caller | null>;
	/** Counts an invalid key of a client. Returns `null` if the client may try again. */
	readonly countFailure: (client: string) => number | null;
	readonly accept: Accept;
	readonly reader: Knex;
	/** Returns the id of the workspace's template `submission`, and creates the template if it is missing. */
	readonly templateOf: (workspaceId: string) => Promise<string>;
	/** Takes one send from the key's rate limit. Returns `false` if none is left. */
	readonly takeRate: (caller: Caller) => Promise<boolean>;
	/** Returns `false` while outcomes cannot be stored, or while the daemon stops. */
	readonly mayAccept: () => boolean;
};

type Login = {readonly ok: true; readonly caller: Caller} | ({readonly ok: false} & Refusal);

/** A message is stored once per recipient: all of them together may not exceed a batch of sends. */
const maxStored = 32 * 1024 * 1024;
const maxReplyLength = 480;
/** A longer message takes long to parse, so it is parsed in a slice of its own. In octets. */
const minLargeLength = 32 * 1024;

const notNow: Refusal = {code: 451, text: '4.3.0 The message cannot be stored now, try again later', reason: 'store'};
const wrongKey: Refusal = {code: 535, text: '5.7.8 The password must be an API key', reason: 'key'};
const tooManyFailures: Refusal = {
	code: 454,
	text: '4.7.0 Too many invalid keys from this address, try again later',
	reason: 'too_many_failures',
};
const noScope: Refusal = {
	code: 535,
	text: '5.7.1 The key lacks the scope messages:submit: mailctl key create --name NAME --scope messages:submit',
	reason: 'key_scope',
};
const paused: Refusal = {code: 451, text: '4.7.1 Sending is paused for this workspace', reason: 'paused'};
const suppressed = ({wire}: Address): Refusal =>
	toRefusal('suppressed', 550, `5.7.1 ${wire} is on the suppression list`);

function toRefusal(reason: RefusalReason, code: number, text: string): Refusal {
	return {code, text, reason};
}

/** Accepts messages from programs. Each recipient gets its own message, with the same checks as an API send. */
export class Submission {
	readonly #options: SubmissionOptions;

	constructor(options: SubmissionOptions) {
		this.#options = options;
	}

	/** Authenticates by the password, which is the key. Any user name is accepted. */
	async logIn(password: string, client: string): Promise<Login> {
		const caller = await this.#options.identify(password);
		if (caller === null) {
			return {ok: false, ...(this.#options.countFailure(client) === null ? wrongKey : tooManyFailures)};
		}
		return caller.scopes.includes('messages:submit') ? {ok: true, caller} : {ok: false, ...noScope};
	}

	/** Returns why the caller cannot submit now, or `null`. */
	async refuse({workspaceId}: Caller): Promise<Refusal | null> {
		if (!this.#options.mayAccept()) {
			return notNow;
		}
		return (await this.#options.accept.isPaused(workspaceId)) ? paused : null;
	}

	/** Parses a recipient and checks whether it may be sent to. */
	async judge(
		caller: Caller,
		text: string,
	): Promise<{readonly ok: true; readonly address: Address} | ({readonly ok: false} & Refusal)> {
		const parsed = parseAddress(text, {allowsUtf8Local: false});
		if (!parsed.ok) {
			return {ok: false, ...toRefusal('address', 553, `5.1.3 The address ${parsed.problem}`)};
		}
		if (!(await this.#options.takeRate(caller))) {
			return {ok: false, ...toRefusal('rate_limit', 451, '4.7.1 Too many sends with this key, try again later')};
		}
		const {address} = parsed;
		const [entry] = (await readAddressees(this.#options.reader, [[caller.workspaceId, address.key]])).values();
		return suppresses(entry?.suppressed ?? undefined, caller.mode)
			? {ok: false, ...suppressed(address)}
			: {ok: true, address};
	}

	/** Resolves once the messages are on stable storage, or nothing was stored. */
	async submit({caller, recipients, raw, envelope, trace}: Incoming): Promise<Submitted> {
		if (isLooping(raw, [])) {
			return refuseAll(toRefusal('looping', 554, '5.4.6 Mail loop detected'));
		}
		const read =
			raw.length > minLargeLength ? await inSlice(() => readSubmitted(raw, trace)) : readSubmitted(raw, trace);
		if (!read.ok) {
			return refuseAll(toRefusal('malformed', 550, `5.6.0 The message is refused: ${read.problem}`));
		}
		const {mail} = read;
		if (mail.source.length * recipients.length > maxStored) {
			const text = '5.3.4 The message is too large for so many recipients: send it to fewer at once';
			return refuseAll(toRefusal('too_large', 552, text));
		}
		const templateId = await this.#options.templateOf(caller.workspaceId);
		const attachments = [submittedFile(mail.messageId, mail.source)];
		const {workspaceId, mode} = caller;
		const {from, replyTo, topicCode} = mail;
		const common = {workspaceId, mode, from, replyTo, templateId, topicCode, attachments};
		const sends = recipients.map(
			(to): Send => ({
				...common,
				to,
				cc: [],
				data: null,
				metadata: jsonOrNull(mail.metadata),
				tags: jsonOrNull(mail.tags),
				locale: null,
				timezone: null,
				tracking: null,
				extras: extrasJson({...envelope, ...mail.extras}),
				resentFrom: null,
			}),
		);
		const results = await this.#options.accept.batch(sends.map(send => ({send, idempotency: null})));
		return combineResults(sends, results);
	}
}

const jsonOrNull = (value: object): string | null => (Object.keys(value).length === 0 ? null : JSON.stringify(value));

/** Combines the results into SMTP's single reply: a refusal of all recipients, or the accepted messages. */
function combineResults(sends: readonly Send[], results: readonly SendResult[]): Submitted {
	const ids = results.flatMap(result => (result.ok ? [result.id] : []));
	const refused = sends.flatMap((send, index) => {
		const result = results[index] as SendResult;
		return result.ok ? [] : [{recipient: send.to.wire, reply: explainRefusal(result.code, send)}];
	});
	const [firstRefused] = refused;
	if (ids.length === 0 && firstRefused) {
		return refuseAll(firstRefused.reply);
	}
	const left = refused.map(({recipient, reply}) => ({recipient, reason: reply.text}));
	const moreText = ids.length > 1 ? ` and ${ids.length - 1} more` : '';
	const refusedText = firstRefused ? `; not sent to ${refused.length}: ${firstRefused.reply.text}` : '';
	const text = `2.0.0 Ok ${ids[0]}${moreText}${refusedText}`.slice(0, maxReplyLength);
	return {code: 250, text, reason: null, ids, left, leftFor: refused.map(({reply}) => reply.reason)};
}

function explainRefusal(code: ApiErrorCode, {from, to, topicCode}: Send): Refusal {
	switch (code) {
		case 'sending_paused':
			return paused;
		case 'sender_not_available':
			return toRefusal(
				'sender',
				550,
				`5.7.1 ${from.wire} is not an active, verified sender of the key's workspace`,
			);
		case 'recipient_suppressed':
			return suppressed(to);
		case 'recipient_unsubscribed':
			return toRefusal(
				'unsubscribed',
				550,
				`5.7.1 ${to.wire} has unsubscribed from ${topicCode === null ? 'mail of this kind' : `the topic ${topicCode}`}`,
			);
		case 'unknown_unsubscribe_group':
			return toRefusal('topic', 550, '5.7.1 X-Mailctl-Topic does not name a topic of the workspace');
		case 'quota_exceeded':
			return toRefusal('quota', 452, '4.7.1 The monthly quota of the workspace is used up');
		default:
			return notNow;
	}
}

const refuseAll = (refusal: Refusal): Submitted => ({...refusal, ids: [], left: [], leftFor: []});

/** The header of a submitted message, and the message as stored. */
type SubmittedMail = {
	readonly from: Address;
	/** `null` if there is none, or more than one. */
	readonly replyTo: Address | null;
	/** `null` if the field is missing or not a Message-ID. */
	readonly messageId: string | null;
	readonly topicCode: string | null;
	/** The other fields of a send that header fields set. */
	readonly extras: ExtraFields;
	readonly metadata: Readonly<Record<string, string>>;
	readonly tags: readonly string[];
	/** Starts with a trace field, and lacks the fields that are only for mailctl. Its body may have long lines. */
	readonly source: Buffer;
};

type ReadMail = {readonly ok: true; readonly mail: SubmittedMail} | Problem;

// RFC 5322 §3.6.
const singleFields: ReadonlySet<string> = new Set([
	'from',
	'to',
	'cc',
	'reply-to',
	'date',
	'message-id',
	'subject',
	'in-reply-to',
	'references',
	'mime-version',
	'content-type',
	'content-transfer-encoding',
]);
/** Hidden recipients, and senders: only the verified From is the sender. */
const droppedFields: ReadonlySet<string> = new Set(['bcc', 'resent-bcc', 'return-path', 'sender', 'resent-sender']);

/** The limits for the submitted header; fields that mailctl adds do not count. */
const headerLimits: HeaderLimits = {octets: 256 * 1024, fields: 1000};
const prefix = 'x-mailctl-';
/** The fields of a send, by the header field that sets them. */
const sendFields: ReadonlyMap<string, Field> = new Map(
	listFields(sendBody).flatMap(field => (field.header === undefined ? [] : [[`${prefix}${field.header}`, field]])),
);
const metadataField = /^x-mailctl-metadata-([a-z0-9][a-z0-9_-]{0,39})$/;
const maxMetadata = 50;
const maxValueLength = 500;
const maxTagLength = 64;

/** Parses a message's header and checks it. `trace` is the Received field to add (RFC 5321 §4.4). */
export function readSubmitted(raw: Buffer, trace: string): ReadMail {
	const octets = octetProblem(raw);
	const decoded = octets === null ? readAnySource(raw, headerLimits) : problem(octets);
	const read = decoded.ok ? repaired(decoded.source) : decoded;
	if (!read.ok) {
		return read;
	}
	const {fields, body} = read.source;
	const counts = new Map<string, number>();
	for (const {name} of fields) {
		counts.set(name, (counts.get(name) ?? 0) + 1);
	}
	const isSingle = (name: string) => singleFields.has(name) || name.startsWith(prefix);
	const repeatedName = [...counts].find(([name, n]) => n > 1 && isSingle(name))?.[0];
	if (repeatedName !== undefined) {
		return problem(`the header has more than one ${repeatedName} field`);
	}
	const value = (name: string) => fields.filter(field => field.name === name).map(fieldValue)[0] ?? null;
	const from = onlyMailbox(value('from') ?? '');
	if (from === null) {
		return problem('the header needs a From field with one plain address');
	}
	const parsed = readControlFields(fields.filter(({name}) => name.startsWith(prefix)));
	if (!parsed.ok) {
		return parsed;
	}
	const retained = fields.filter(({name}) => !droppedFields.has(name) && !name.startsWith(prefix));
	const source = toMail([{line: trace}, ...retained], body);
	const messageId = value('message-id');
	return {
		ok: true,
		mail: {
			from,
			replyTo: onlyMailbox(value('reply-to') ?? ''),
			messageId: messageId !== null && isMessageId(messageId) ? messageId : null,
			...parsed.controls,
			source,
		},
	};
}

/**
 * Makes the repairs that RFC 6409 §8 allows: encodes and folds fields. (The renderer encodes parts of the body if
 * needed.) Refuses a repair that would break the program's own signature.
 */
function repaired({fields: originalFields, body}: Source): ReadSource {
	const isSigned = originalFields.some(({name}) => name === 'dkim-signature');
	const fields: SourceField[] = [];
	for (const field of originalFields) {
		if (isSigned && !isGoodLine(field.line)) {
			const [flaw, remedy] = /^[\t\r\n\x20-\x7e]*$/.test(field.line)
				? [longLine, 'fold it']
				: ['characters that are not ASCII', 'encode them (RFC 2047)'];
			return problem(
				`the ${field.line.split(':', 1)[0]} field has ${flaw}, ${signedAlready}: ${remedy} before you sign`,
			);
		}
		const result = repairField(field);
		if (!result.ok) {
			return result;
		}
		fields.push({name: field.name, line: result.line});
	}
	const start = longLineIn(body);
	if (isSigned && start !== -1) {
		const line = lineNumber(body, start);
		return problem(
			`the body has ${longLine} (line ${line}), ${signedAlready}: use quoted-printable before you sign`,
		);
	}
	const remainingProblem = start === -1 && isAscii(body) ? null : sevenBitProblem(toMail(fields, body));
	return remainingProblem === null ? {ok: true, source: {fields, body}} : problem(remainingProblem);
}

const longLine = `a line of more than ${maxLineLength} octets`;
const signedAlready = 'which cannot be repaired because of the DKIM-Signature';

function toMail(fields: readonly Pick<SourceField, 'line'>[], body: Buffer): Buffer {
	return Buffer.concat([Buffer.from(`${fields.map(({line}) => `${line}\r\n`).join('')}\r\n`, 'latin1'), body]);
}

type Controls = Pick<SubmittedMail, 'topicCode' | 'extras' | 'metadata' | 'tags'>;

/** Reads the `X-Mailctl-…` fields. An unknown one is refused, because a misspelled field would lose its effect. */
function readControlFields(fields: readonly SourceField[]): {ok: true; controls: Controls} | Problem {
	const values: Record<string, unknown> = {};
	const metadata: Record<string, string> = {};
	const tags: string[] = [];
	for (const field of fields) {
		const value = decodeWords(fieldValue(field));
		const key = metadataField.exec(field.name)?.[1]?.replaceAll('-', '_');
		if (value === '' || value.length > maxValueLength || /[\p{Cc}\ufffd]/u.test(value)) {
			return problem(`${field.name} must have 1 to ${maxValueLength} characters`);
		}
		const sendField = sendFields.get(field.name);
		if (sendField) {
			const parsed = parseField(sendField, sendField.kind === 'choice' ? value.toLowerCase() : value);
			if (!parsed.ok) {
				return problem(`${field.name} ${parsed.problem}`);
			}
			values[sendField.name] = parsed.value;
		} else if (field.name === `${prefix}tag` && value.length <= maxTagLength) {
			tags.push(value);
			metadata.tag = value;
		} else if (field.name === `${prefix}tag`) {
			return problem(`${field.name} must have 1 to ${maxTagLength} characters`);
		} else if (key !== undefined) {
			metadata[key] = value;
		} else if (field.name !== `${prefix}ref`) {
			return problem(`${field.name} is not a field that mailctl supports`);
		}
	}
	const {unsubscribeGroup: topicCode = null, ...extras} = values as Pick<SendBody, 'unsubscribeGroup'> & ExtraFields;
	return Object.keys(metadata).length > maxMetadata
		? problem(`the header has more than ${maxMetadata} metadata fields`)
		: {ok: true, controls: {topicCode, extras, metadata, tags}};
}

/** `problem` is a clause for people. */
type Problem = {readonly ok: false; readonly problem: string};

function problem(text: string): Problem {
	return {ok: false, problem: text};
}

/**
 * Returns the address of a field with one mailbox (RFC 5322 §3.4): `Name <name@example.com>` or a bare address,
 * possibly with comments. Returns `null` for lists, groups, routes, and a backslash outside of quotes.
 */
export function onlyMailbox(value: string): Address | null {
	const plain = withoutQuotes(value);
	const address =
		plain === null
			? null
			: (/^[^<>@,;:\\]*<([^<>\s]*)>\s*$/.exec(plain)?.[1] ?? /^\s*([^<>\s]+)\s*$/.exec(plain)?.[1]);
	const parsed = address ? parseAddress(address, {allowsUtf8Local: false}) : null;
	return parsed?.ok ? parsed.address : null;
}

/** Replaces a quoted name with `"`, which no address has, and a comment with a space. `null` if one never ends. */
function withoutQuotes(value: string): string | null {
	let plain = '';
	let depth = 0;
	let isQuoted = false;
	for (let index = 0; index < value.length; index++) {
		const character = value[index] as string;
		if (character === '\\' && (isQuoted || depth > 0)) {
			index++;
		} else if (character === '"' && depth === 0) {
			isQuoted = !isQuoted;
			plain += isQuoted ? '"' : '';
		} else if (isQuoted) {
		} else if (character === '(') {
			depth++;
		} else if (character === ')' && depth > 0) {
			depth--;
			plain += ' ';
		} else if (depth === 0) {
			plain += character;
		}
	}
	return isQuoted || depth > 0 ? null : plain;
}
