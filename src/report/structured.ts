import {type JsonObject, objectOf, parsedJson} from '../kit/exact-json.ts';
import {addressesIn, addressIn} from './addresses-in-text.ts';
import {type Field, leavesOf, type Mail, type Part, readFields} from './mime.ts';
import {isMailPart, isReturned, returnedHeaders} from './text/bounce-text.ts';

/** A report of more has no effect. */
const maxRecipients = 100;

/** What a mail says in fields that are made for programs. */
export type Structured = {
	/** RFC 3464; null if absent. */
	readonly status: DeliveryStatus | null;
	/** The fields of a feedback report, RFC 5965; null if absent. */
	readonly feedback: readonly Field[] | null;
	readonly ses: SesNotification | null;
	/** The header of each returned mail. */
	readonly returned: ReadonlyArray<readonly Field[]>;
};

export function readStructured(mail: Mail): Structured {
	const leaves = leavesOf(mail.root);
	const ses = readSesNotification(leaves);
	return {
		status: statusOf(leaves) ?? ses?.status ?? null,
		feedback: feedbackOf(leaves),
		ses,
		returned: [...returnedHeaders(leaves), ...(ses ? [ses.returned] : [])],
	};
}

const isStatus = ({type}: Part) => /^(?:message|text|application)\/(?:global-)?delivery-status$/.test(type);

/** A status behind the returned mail may belong to it: boundaries are used again. */
function statusOf(leaves: readonly Part[]): DeliveryStatus | null {
	const returned = leaves.findIndex(({type}) => isReturned(type));
	const before = returned === -1 ? leaves : leaves.slice(0, returned);
	const parts = before.some(isStatus) ? before.filter(isStatus) : leaves.filter(isStatus);
	const texts = parts.length > 0 ? parts.map(textOf) : textsOf(leaves).filter(looksLikeDeliveryStatus);
	const isCut = parts.some(part => part.body().length >= maxStatusLength);
	return texts.length > 0 ? readDeliveryStatus(texts.join('\n\n'), isCut) : null;
}

/** Blank lines between the fields part nothing here. */
function feedbackOf(leaves: readonly Part[]): Field[] | null {
	const part = leaves.find(({type}) => /^(?:message|text|application)\/feedback-report$/.test(type));
	const text = part ? textOf(part) : textsOf(leaves).find(looksLikeFeedback);
	return text === undefined ? null : readFields(Buffer.from(text.replace(/\n(?:[ \t]*\n)+/g, '\n')));
}

/** If the blank line after a part's header is missing, the header has its first fields. */
function textOf(part: Part): string {
	const strays = part.fields.filter(({name}) => !name.startsWith('content-'));
	return [...strays.map(({name, value}) => `${name}: ${value}`), part.text()].join('\n');
}

/** Where fields may be without a type of their own: some mailers call them a plain text, or know no type for them. */
function textsOf(leaves: readonly Part[]): string[] {
	const isText = ({type}: Part) => type === 'text/plain' || type === 'application/octet-stream';
	return leaves.filter((part, at) => isText(part) && !isMailPart(part, at)).map(part => part.text());
}

function looksLikeFeedback(text: string): boolean {
	const head = text.slice(0, 8192);
	return /^feedback-type[ \t]*:/im.test(head) && /^(?:user-agent|version)[ \t]*:/im.test(head);
}

/** What Amazon SES's notification service sends by mail (its "notification contents"): JSON in a plain text. */
type SesNotification = {
	/** A bounce, a delay or a delivery as the fields of a delivery status; null for other kinds. */
	readonly status: DeliveryStatus | null;
	/** Null: not a complaint. */
	readonly complaint: {readonly type: string; readonly recipients: readonly string[]} | null;
	/** Header fields of the mail that it is about. */
	readonly returned: readonly Field[];
};

const maxJsonLength = 256 * 1024;
/** One more than may have an effect. */
const most = maxRecipients + 1;

/** Null: not a notification of SES. */
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
		status: sesStatusOf(kind, notification),
		complaint:
			kind === 'Complaint'
				? {
						type: stringOf(complaint.complaintFeedbackType) ?? 'abuse',
						recipients: listOf(complaint.complainedRecipients).flatMap(each =>
							addressesIn(stringOf(each.emailAddress) ?? '', 1),
						),
					}
				: null,
		returned: listOf(objectOf(notification.mail).headers).flatMap(({name, value}) =>
			typeof name === 'string' && typeof value === 'string' ? [{name: name.toLowerCase(), value}] : [],
		),
	};
}

/** Bounces without a diagnostic say what they are in two words. */
const subTypes: ReadonlyMap<string, string> = new Map([
	['NoEmail', 'user unknown'],
	['MailboxFull', 'mailbox full'],
	['MessageTooLarge', 'message size exceeds limit'],
	['ContentRejected', 'content rejected'],
	['AttachmentRejected', 'attachment rejected'],
]);

function sesStatusOf(kind: string, notification: JsonObject): DeliveryStatus | null {
	const bounce = objectOf(notification.bounce);
	const recipients = recipientsOf(kind, notification).map(each => fieldsOf(each, bounce));
	const reporter = stringOf(bounce.reportingMTA);
	return recipients.length > 0
		? {
				message: reporter === null ? [] : [{name: 'reporting-mta', value: reporter}],
				recipients,
				cut: recipients.length >= most,
			}
		: null;
}

function recipientsOf(kind: string, notification: JsonObject): JsonObject[] {
	const {recipients, smtpResponse} = objectOf(notification.delivery);
	switch (kind) {
		case 'Bounce':
			return listOf(objectOf(notification.bounce).bouncedRecipients).map(each => ({action: 'failed', ...each}));
		case 'DeliveryDelay':
			return listOf(objectOf(notification.deliveryDelay).delayedRecipients).map(each => ({
				...each,
				action: 'delayed',
			}));
		case 'Delivery':
			return (Array.isArray(recipients) ? recipients.slice(0, most) : []).map(emailAddress => ({
				emailAddress,
				action: 'delivered',
				diagnosticCode: smtpResponse,
			}));
		default:
			return [];
	}
}

function fieldsOf({emailAddress, action, status, diagnosticCode}: JsonObject, {bounceSubType}: JsonObject): Field[] {
	const values = {
		'final-recipient': stringOf(emailAddress),
		action: stringOf(action),
		status: stringOf(status),
		'diagnostic-code': stringOf(diagnosticCode) ?? subTypes.get(stringOf(bounceSubType) ?? '') ?? null,
	};
	return Object.entries(values).flatMap(([name, value]) => (value === null ? [] : [{name, value}]));
}

/** The object in a text, also where it is the message of another one, and where a mailer broke its long line. */
function jsonIn(text: string): JsonObject | null {
	const start = text.indexOf('{');
	const whole = text.slice(start, start + maxJsonLength);
	const end = whole.search(/\n[ \t]*\n--[ \t]*(?:\n|$)/);
	const json = (end === -1 ? whole : whole.slice(0, end)).replace(/!?\n[ \t]?/g, '').trim();
	const outer = parse(json);
	const message = stringOf(outer?.Message);
	return message === null ? outer : parse(message);
}

function parse(json: string): JsonObject | null {
	const parsed = parsedJson(json);
	return parsed === undefined ? null : objectOf(parsed);
}

function listOf(value: unknown): JsonObject[] {
	return Array.isArray(value) ? value.slice(0, most).map(objectOf) : [];
}

function stringOf(value: unknown): string | null {
	return typeof value === 'string' && value !== '' ? value.slice(0, 8192) : null;
}

/** The fields of a delivery status (RFC 3464 §2.1): of the message, and of each recipient. */
export type DeliveryStatus = {
	readonly message: readonly Field[];
	readonly recipients: ReadonlyArray<readonly Field[]>;
	/** Something was left out because it is too long or has too many recipients. */
	readonly cut: boolean;
};

const maxFields = 40;
const maxValueLength = 8192;
/** Octets; a part is cut there. */
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
/** Seen twice, they begin another recipient. */
const onceEach: ReadonlySet<string> = new Set(['final-recipient', 'original-recipient', 'action']);

const field = /^([A-Za-z][A-Za-z0-9-]{1,60})[ \t]*:[ \t]*(.*)$/;
const indentedField = new RegExp(
	`^[ \\t>]+((?:${[...recipientFields, 'reporting-mta', 'arrival-date'].join('|')})[ \\t]*:.*)$`,
	'i',
);

/** Whether a text holds the fields of a delivery status: some mailers put them into a plain text. */
function looksLikeDeliveryStatus(text: string): boolean {
	return (
		/^(?:final|original)-recipient[ \t]*:/im.test(text) && /^(?:action|status|diagnostic-code)[ \t]*:/im.test(text)
	);
}

/**
 * Reads a delivery status: blocks with blank lines between them, one block that holds all, blank lines where none
 * belong, folded lines that are not indented. `isCut`: something is missing already.
 */
export function readDeliveryStatus(text: string, isCut = false): DeliveryStatus {
	const message: Field[] = [];
	const recipients: Field[][] = [];
	for (const block of blocksOf(text.slice(0, maxStatusLength))) {
		const last = recipients.at(-1);
		if (last && completes(block, last)) {
			last.push(...block);
			continue;
		}
		let current: Field[] | undefined;
		for (const one of block) {
			const begins =
				recipientFields.has(one.name) && (!current || (onceEach.has(one.name) && hasField(current, one.name)));
			if (begins) {
				if (recipients.length >= maxRecipients) {
					return {message, recipients, cut: true};
				}
				current = [];
				recipients.push(current);
			}
			if ((current ?? message).length < maxFields) {
				(current ?? message).push(one);
			}
		}
	}
	return {
		message,
		recipients: recipients.map(fields => fields.slice(0, maxFields)),
		cut: isCut || text.length > maxStatusLength,
	};
}

/** The value of a `type; value` field without its type: `smtp; 550 …`. */
export function withoutType(value: string): string {
	return value.replace(/^[ \t]*[A-Za-z][\w-]{0,40}[ \t]*;[ \t]*/, '').trim();
}

/**
 * The address of a recipient field: any case of type, angle brackets, comments, RFC 6533 `\x{..}`. Null: no address.
 */
export function addressOf(value: string | null): string | null {
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
					.replace(/^[^\s<>"]{1,320}$/, '<$&>'), // Alone in a field it needs no brackets to be whole.
			);
}

/** The name in a recipient field that has no domain: `local; <\\neko>` → `neko`. Null: it has one, or none is there. */
export function localPartOf(value: string | null): string | null {
	return /^<?\\?([^\s<>()@;,/]{1,64})>?$/.exec(withoutType(value ?? ''))?.[1] ?? null;
}

/**
 * Whether a block without an address says what the recipient before it lacks: a blank line stood where none belongs.
 */
function completes(block: readonly Field[], last: readonly Field[]): boolean {
	return block.every(({name}) => !addressFields.has(name) && !(onceEach.has(name) && hasField(last, name)));
}

function hasField(fields: readonly Field[], name: string): boolean {
	return fields.some(field => field.name === name);
}

function* blocksOf(text: string): Generator<Field[]> {
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
