import {addressesIn} from './addresses.ts';
import type {DeliveryStatus} from './delivery-status.ts';
import type {Field, Part} from './mime.ts';

/** What Amazon SES tells by a mail of its notification service (its "notification contents"): JSON in a plain text. */
export type SesNotification = {
	/** A bounce, a delay or a delivery, as the fields of a delivery status; null: it is none of them. */
	readonly status: DeliveryStatus | null;
	/** A complaint; null: it is none. */
	readonly complaint: {readonly type: string; readonly recipients: readonly string[]} | null;
	/** Header fields of the mail that it is about. */
	readonly returned: readonly Field[];
};

const longestJson = 256 * 1024;
const most = 100;

/** Null: the mail is none. */
export function readSesNotification(leaves: readonly Part[]): SesNotification | null {
	const text = leaves
		.filter(({type}) => type === 'text/plain' || type === 'application/json')
		.map(part => part.text())
		.find(text => /"(?:notification|event)Type\\?"/.test(text.slice(0, longestJson)));
	const told = text === undefined ? null : jsonIn(text);
	const kind = told?.notificationType ?? told?.eventType;
	if (!told || typeof kind !== 'string') {
		return null;
	}
	const complaint = objectOf(told.complaint);
	return {
		status: statusOf(kind, told),
		complaint:
			kind === 'Complaint'
				? {
						type: textOf(complaint.complaintFeedbackType) ?? 'abuse',
						recipients: listOf(complaint.complainedRecipients).flatMap(each =>
							addressesIn(textOf(each.emailAddress) ?? '', 1),
						),
					}
				: null,
		returned: listOf(objectOf(told.mail).headers).flatMap(({name, value}) =>
			typeof name === 'string' && typeof value === 'string' ? [{name: name.toLowerCase(), value}] : [],
		),
	};
}

type Json = Readonly<Record<string, unknown>>;

/** Bounces without a diagnostic say what they are in two words. */
const subTypes: ReadonlyMap<string, string> = new Map([
	['NoEmail', 'user unknown'],
	['MailboxFull', 'mailbox full'],
	['MessageTooLarge', 'message size exceeds limit'],
	['ContentRejected', 'content rejected'],
	['AttachmentRejected', 'attachment rejected'],
]);

function statusOf(kind: string, told: Json): DeliveryStatus | null {
	const bounce = objectOf(told.bounce);
	const recipients = recipientsOf(kind, told).map(each => fieldsOf(each, bounce));
	const reporter = textOf(bounce.reportingMTA);
	return recipients.length > 0
		? {message: reporter === null ? [] : [{name: 'reporting-mta', value: reporter}], recipients, cut: false}
		: null;
}

function recipientsOf(kind: string, told: Json): Json[] {
	const {recipients, smtpResponse} = objectOf(told.delivery);
	switch (kind) {
		case 'Bounce':
			return listOf(objectOf(told.bounce).bouncedRecipients).map(each => ({action: 'failed', ...each}));
		case 'DeliveryDelay':
			return listOf(objectOf(told.deliveryDelay).delayedRecipients).map(each => ({...each, action: 'delayed'}));
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

function fieldsOf({emailAddress, action, status, diagnosticCode}: Json, {bounceSubType}: Json): Field[] {
	const values = {
		'final-recipient': textOf(emailAddress),
		action: textOf(action),
		status: textOf(status),
		'diagnostic-code': textOf(diagnosticCode) ?? subTypes.get(textOf(bounceSubType) ?? '') ?? null,
	};
	return Object.entries(values).flatMap(([name, value]) => (value === null ? [] : [{name, value}]));
}

/** The object in a text, also where it is the message of another one, and where a mailer broke its long line. */
function jsonIn(text: string): Json | null {
	const start = text.indexOf('{');
	const whole = text.slice(start, start + longestJson);
	const end = whole.search(/\n[ \t]*\n--[ \t]*(?:\n|$)/);
	const json = (end === -1 ? whole : whole.slice(0, end)).replace(/!?\n[ \t]?/g, '').trim();
	const outer = parse(json);
	const message = textOf(outer?.Message);
	return message === null ? outer : parse(message);
}

function parse(json: string): Json | null {
	try {
		return objectOf(JSON.parse(json));
	} catch {
		return null;
	}
}

function objectOf(value: unknown): Json {
	return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function listOf(value: unknown): Json[] {
	return Array.isArray(value) ? value.slice(0, most).map(objectOf) : [];
}

function textOf(value: unknown): string | null {
	return typeof value === 'string' && value !== '' ? value.slice(0, 8192) : null;
}
