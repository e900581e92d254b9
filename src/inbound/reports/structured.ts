import {type JsonObject, objectOf, parsedJson} from '../../kit/exact-json.ts';
import {addressesIn, addressIn} from './addresses-in-text.ts';
import {collectLeaves, type Field, type Mail, type Part, readFields} from './mime.ts';
import {isMailPart, isReturned, returnedHeaders} from './text/bounce-text.ts';

/** A report with more recipients has no effect. */
const maxRecipients = 100;

/** The machine-readable fields of a message. */
export type Structured = {
	/** RFC 3464, or `null` if absent. */
	readonly status: DeliveryStatus | null;
	/** The fields of a feedback report (RFC 5965), or `null` if absent. */
	readonly feedback: readonly Field[] | null;
	readonly ses: SesNotification | null;
	/** The header of each returned message. */
	readonly returned: ReadonlyArray<readonly Field[]>;
};

export function readStructured(mail: Mail): Structured {
	const leaves = collectLeaves(mail.root);
	const ses = readSesNotification(leaves);
	return {
		status: findStatus(leaves) ?? ses?.status ?? null,
		feedback: findFeedback(leaves),
		ses,
		returned: [...returnedHeaders(leaves), ...(ses ? [ses.returned] : [])],
	};
}

const isStatus = ({type}: Part) => /^(?:message|text|application)\/(?:global-)?delivery-status$/.test(type);

/** Prefers a status before the returned message: as boundaries are reused, a later one may belong to that message. */
function findStatus(leaves: readonly Part[]): DeliveryStatus | null {
	const returned = leaves.findIndex(({type}) => isReturned(type));
	const before = returned === -1 ? leaves : leaves.slice(0, returned);
	const parts = before.some(isStatus) ? before.filter(isStatus) : leaves.filter(isStatus);
	const texts = parts.length > 0 ? parts.map(textOf) : collectTexts(leaves).filter(looksLikeDeliveryStatus);
	const isCut = parts.some(part => part.body().length >= maxStatusLength);
	return texts.length > 0 ? readDeliveryStatus(texts.join('\n\n'), isCut) : null;
}

/** Reads a feedback report. Blank lines between its fields mean nothing. */
function findFeedback(leaves: readonly Part[]): Field[] | null {
	const part = leaves.find(({type}) => /^(?:message|text|application)\/feedback-report$/.test(type));
	const text = part ? textOf(part) : collectTexts(leaves).find(looksLikeFeedback);
	return text === undefined ? null : readFields(Buffer.from(text.replace(/\n(?:[ \t]*\n)+/g, '\n')));
}

/** If the blank line after a part's header is missing, the header includes the first fields of the body. */
function textOf(part: Part): string {
	const strays = part.fields.filter(({name}) => !name.startsWith('content-'));
	return [...strays.map(({name, value}) => `${name}: ${value}`), part.text()].join('\n');
}

/** Returns texts that may contain fields: some mailers label them as plain text, or with no known type. */
function collectTexts(leaves: readonly Part[]): string[] {
	const isText = ({type}: Part) => type === 'text/plain' || type === 'application/octet-stream';
	return leaves.filter((part, index) => isText(part) && !isMailPart(part, index)).map(part => part.text());
}

function looksLikeFeedback(text: string): boolean {
	const head = text.slice(0, 8192);
	return /^feedback-type[ \t]*:/im.test(head) && /^(?:user-agent|version)[ \t]*:/im.test(head);
}

/** The JSON that Amazon SES sends by email as plain text (its "notification contents"). */
type SesNotification = {
	/** A bounce, delay or delivery as the fields of a delivery status, or `null` for other kinds. */
	readonly status: DeliveryStatus | null;
	/** `null` if it is not a complaint. */
	readonly complaint: {readonly type: string; readonly recipients: readonly string[]} | null;
	/** Header fields of the original message. */
	readonly returned: readonly Field[];
};

const maxJsonLength = 256 * 1024;
/** One more than may have an effect. */
const maxListed = maxRecipients + 1;

/** Returns `null` if no part is a notification of SES. */
function readSesNotification(leaves: readonly Part[]): SesNotification | null {
	const text = leaves
		.filter(({type}) => type === 'text/plain' || type === 'application/json')
		.map(part => part.text())
		.find(text => /"(?:notification|event)Type\\?"/.test(text.slice(0, maxJsonLength)));
	const notification = text === undefined ? null : jsonIn(text);
	const kind = notification?.notificationType ?? notification?.eventType;
	if (!notification || typeof kind !== 'string') {
		return null;
	}
	const complaint = objectOf(notification.complaint);
	return {
		status: toSesStatus(kind, notification),
		complaint:
			kind === 'Complaint'
				? {
						type: parseString(complaint.complaintFeedbackType) ?? 'abuse',
						recipients: listOf(complaint.complainedRecipients).flatMap(({emailAddress}) =>
							addressesIn(parseString(emailAddress) ?? '', 1),
						),
					}
				: null,
		returned: listOf(objectOf(notification.mail).headers).flatMap(({name, value}) =>
			typeof name === 'string' && typeof value === 'string' ? [{name: name.toLowerCase(), value}] : [],
		),
	};
}

/** The meaning of bounces that have only a subtype and no diagnostic. */
const subTypes: ReadonlyMap<string, string> = new Map([
	['NoEmail', 'user unknown'],
	['MailboxFull', 'mailbox full'],
	['MessageTooLarge', 'message size exceeds limit'],
	['ContentRejected', 'content rejected'],
	['AttachmentRejected', 'attachment rejected'],
]);

function toSesStatus(kind: string, notification: JsonObject): DeliveryStatus | null {
	const bounce = objectOf(notification.bounce);
	const recipients = toRecipients(kind, notification).map(recipient => toFields(recipient, bounce));
	const reporter = parseString(bounce.reportingMTA);
	return recipients.length > 0
		? {
				message: reporter === null ? [] : [{name: 'reporting-mta', value: reporter}],
				recipients,
				isCut: recipients.length >= maxListed,
			}
		: null;
}

function toRecipients(kind: string, notification: JsonObject): JsonObject[] {
	const {recipients, smtpResponse} = objectOf(notification.delivery);
	switch (kind) {
		case 'Bounce':
			return listOf(objectOf(notification.bounce).bouncedRecipients).map(entry => ({action: 'failed', ...entry}));
		case 'DeliveryDelay':
			return listOf(objectOf(notification.deliveryDelay).delayedRecipients).map(entry => ({
				...entry,
				action: 'delayed',
			}));
		case 'Delivery':
			return (Array.isArray(recipients) ? recipients.slice(0, maxListed) : []).map(emailAddress => ({
				emailAddress,
				action: 'delivered',
				diagnosticCode: smtpResponse,
			}));
		default:
			return [];
	}
}

function toFields({emailAddress, action, status, diagnosticCode}: JsonObject, {bounceSubType}: JsonObject): Field[] {
	const values = {
		'final-recipient': parseString(emailAddress),
		action: parseString(action),
		status: parseString(status),
		'diagnostic-code': parseString(diagnosticCode) ?? subTypes.get(parseString(bounceSubType) ?? '') ?? null,
	};
	return Object.entries(values).flatMap(([name, value]) => (value === null ? [] : [{name, value}]));
}

/** Parses the object in a text, even if it is nested as the message of another one, or a mailer broke its long line. */
function jsonIn(text: string): JsonObject | null {
	const start = text.indexOf('{');
	const input = text.slice(start, start + maxJsonLength);
	const end = input.search(/\n[ \t]*\n--[ \t]*(?:\n|$)/);
	const json = (end === -1 ? input : input.slice(0, end)).replace(/!?\n[ \t]?/g, '').trim();
	const outer = parse(json);
	const message = parseString(outer?.Message);
	return message === null ? outer : parse(message);
}

function parse(json: string): JsonObject | null {
	const parsed = parsedJson(json);
	return parsed === undefined ? null : objectOf(parsed);
}

function listOf(value: unknown): JsonObject[] {
	return Array.isArray(value) ? value.slice(0, maxListed).map(objectOf) : [];
}

function parseString(value: unknown): string | null {
	return typeof value === 'string' && value !== '' ? value.slice(0, 8192) : null;
}

/** The fields of a delivery status (RFC 3464 §2.1), per message and per recipient. */
export type DeliveryStatus = {
	readonly message: readonly Field[];
	readonly recipients: ReadonlyArray<readonly Field[]>;
	/** Something was omitted because the status is too long or has too many recipients. */
	readonly isCut: boolean;
};

const maxFields = 40;
const maxValueLength = 8192;
/** In octets. A longer part is cut. */
const maxStatusLength = 256 * 1024;

const addressFields: ReadonlySet<string> = new Set(['final-recipient', 'original-recipient', 'x-actual-recipient']);
const recipientFields: ReadonlySet<string> = new Set([
	...addressFields,
	'action',
	'status',
	'remote-mta',
	'diagnostic-code',
	'last-attempt-date',
	'final-log-id',
	'will-retry-until',
	'x-supplementary-info',
]);
/** A second one of these fields starts another recipient. */
const uniqueFields: ReadonlySet<string> = new Set(['final-recipient', 'original-recipient', 'action']);

const field = /^([A-Za-z][A-Za-z0-9-]{1,60})[ \t]*:[ \t]*(.*)$/;
const indentedField = new RegExp(
	`^[ \\t>]+((?:${[...recipientFields, 'reporting-mta', 'arrival-date'].join('|')})[ \\t]*:.*)$`,
	'i',
);

/** Whether a text contains the fields of a delivery status, which some mailers send as plain text. */
function looksLikeDeliveryStatus(text: string): boolean {
	return (
		/^(?:final|original)-recipient[ \t]*:/im.test(text) && /^(?:action|status|diagnostic-code)[ \t]*:/im.test(text)
	);
}

/**
 * Parses a delivery status. It accepts blocks separated by blank lines, a single block for everything, misplaced blank
 * lines, and folded lines without indentation. `isCut` means that part of the text is already missing.
 */
export function readDeliveryStatus(text: string, isCut = false): DeliveryStatus {
	const message: Field[] = [];
	const recipients: Field[][] = [];
	for (const block of iterateBlocks(text.slice(0, maxStatusLength))) {
		const previous = recipients.at(-1);
		if (previous && isContinuation(block, previous)) {
			previous.push(...block);
			continue;
		}
		let current: Field[] | undefined;
		for (const blockField of block) {
			const {name} = blockField;
			const isNewRecipient =
				recipientFields.has(name) && (!current || (uniqueFields.has(name) && hasField(current, name)));
			if (isNewRecipient) {
				if (recipients.length >= maxRecipients) {
					return {message, recipients, isCut: true};
				}
				current = [];
				recipients.push(current);
			}
			if ((current ?? message).length < maxFields) {
				(current ?? message).push(blockField);
			}
		}
	}
	return {
		message,
		recipients: recipients.map(fields => fields.slice(0, maxFields)),
		isCut: isCut || text.length > maxStatusLength,
	};
}

/** Returns the value of a `type; value` field without its type: `smtp; 550 …`. */
export function withoutType(value: string): string {
	return value.replace(/^[ \t]*[A-Za-z][\w-]{0,40}[ \t]*;[ \t]*/, '').trim();
}

/** Returns the address in a recipient field, or `null`. Accepts brackets, comments, and RFC 6533 `\x{..}`. */
export function parseAddress(value: string | null): string | null {
	if (value === null) {
		return null;
	}
	const plain = withoutType(value).replace(/\\x\{([0-9a-f]{1,6})\}/gi, (all, hex: string) => {
		const code = Number.parseInt(hex, 16);
		return code <= 0x10ffff && code >= 0x20 ? String.fromCodePoint(code) : all;
	});
	return plain.includes('\\x{')
		? null
		: addressIn(
				plain
					.replace(/\+(2B|3D)(?=[^@]*@)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
					.replace(/^[^\s<>"]{1,320}$/, '<$&>'), // Brackets mark a bare value as one address.
			);
}

/** Returns the local part in a recipient field without a domain, or `null`: `local; <\\neko>` → `neko`. */
export function localPartOf(value: string | null): string | null {
	return /^<?\\?([^\s<>()@;,/]{1,64})>?$/.exec(withoutType(value ?? ''))?.[1] ?? null;
}

/** Whether a block without an address completes the recipient before it, because of a misplaced blank line. */
function isContinuation(block: readonly Field[], previous: readonly Field[]): boolean {
	return block.every(({name}) => !addressFields.has(name) && !(uniqueFields.has(name) && hasField(previous, name)));
}

function hasField(fields: readonly Field[], name: string): boolean {
	return fields.some(field => field.name === name);
}

function* iterateBlocks(text: string): Generator<Field[]> {
	let block: Array<{name: string; value: string}> = [];
	for (const line of text.split('\n')) {
		if (line.trim() === '') {
			if (block.length > 0) {
				yield block;
				block = [];
			}
			continue;
		}
		const [, name, value] = field.exec(line.replace(indentedField, '$1')) ?? [];
		const last = block.at(-1);
		if (name !== undefined && value !== undefined) {
			block.push({name: name.toLowerCase(), value: value.trim().slice(0, maxValueLength)});
		} else if (last && last.value.length < maxValueLength) {
			last.value += ` ${line.trim().slice(0, maxValueLength)}`;
		}
	}
	if (block.length > 0) {
		yield block;
	}
}
