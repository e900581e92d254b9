import {createVerify, X509Certificate} from 'node:crypto';
import {parsedJson} from '../kit/exact-json.ts';
import {hourMs} from '../kit/time.ts';
import {isRecent} from './proofs.ts';
import {
	bare,
	type Fields,
	feedbackTypeOf,
	fieldsOf,
	isFields,
	listOf,
	none,
	type Provider,
	type ProviderEvent,
	refName,
	statusOf,
	textOf,
	textOrNull,
	texts,
} from './provider.ts';

/**
 * Amazon SES by SNS: its event publishing (`eventType`) and its feedback notifications (`notificationType`). A post is
 * an SNS message: its `Message` is the event, and `readSns` checks its signature.
 */
export const ses: Provider = {
	secret: 'none',
	proves: () => false,
	events(body) {
		const fields = fieldsOf(body);
		// An event by itself, as SNS's raw delivery has it, is only read from files: nothing signs it.
		const message = fields.mail === undefined ? parsedJson(wholeText(fields.Message)) : fields;
		// SES sends a text to a topic that it was given, to see that it may.
		return isFields(message) ? [message] : fields.Type === 'Notification' ? [] : null;
	},
	read(event) {
		const mail = fieldsOf(event.mail);
		const headers = listOf(mail.headers).map(fieldsOf);
		const valuesOf = (name: string) =>
			headers.filter(header => textOf(header.name).toLowerCase() === name).map(({value}) => value);
		const clues = {
			refs: texts(...listOf(fieldsOf(mail.tags)[refName]), ...valuesOf('x-mailctl-ref')),
			messageIds: texts(...valuesOf('message-id').map(bare), bare(fieldsOf(mail.commonHeaders).messageId)),
			providerIds: texts(mail.messageId),
		};
		return said(event).map(one => ({...none, ...one, ...clues}));
	},
	echo: ref => ['X-SES-MESSAGE-TAGS', `${refName}=${ref}`],
};

type Said = Pick<ProviderEvent, 'what' | 'text'> &
	Partial<Pick<ProviderEvent, 'verdict' | 'feedbackType' | 'recipient' | 'status' | 'host'>>;

/** One for each recipient that the event names; one without a recipient where it names none. */
function said(event: Fields): readonly Said[] {
	const kind = textOf(event.eventType) || textOf(event.notificationType);
	switch (kind) {
		case 'Delivery': {
			const {recipients, smtpResponse, remoteMtaIp} = fieldsOf(event.delivery);
			const text = textOf(smtpResponse);
			return named(recipients).map(recipient => ({
				what: 'delivered',
				text,
				recipient,
				host: textOrNull(remoteMtaIp),
			}));
		}
		case 'Bounce':
			return bounced(fieldsOf(event.bounce));
		case 'Complaint': {
			const {complainedRecipients, complaintFeedbackType, complaintSubType} = fieldsOf(event.complaint);
			// The address complained once before, so SES did not send this one.
			const what = complaintSubType === 'OnAccountSuppressionList' ? 'dropped' : 'complained';
			const feedbackType = feedbackTypeOf(complaintFeedbackType);
			return addressed(complainedRecipients).map(({recipient}) => ({
				what,
				text: feedbackType,
				recipient,
				feedbackType,
			}));
		}
		case 'DeliveryDelay': {
			const {delayedRecipients, delayType} = fieldsOf(event.deliveryDelay);
			return addressed(delayedRecipients).map(({recipient, diagnostic, status}) => ({
				...{what: 'deferred', recipient, status},
				text: diagnostic || textOf(delayType),
			}));
		}
		case 'Reject':
			return [{what: 'bounced', text: textOf(fieldsOf(event.reject).reason), verdict: 'transient'}];
		case 'Subscription':
			return [{what: 'unsubscribed', text: ''}];
		case 'Open':
			return [{what: 'opened', text: ''}];
		case 'Click':
			return [{what: 'clicked', text: textOf(fieldsOf(event.click).link)}];
		default:
			return [{what: 'other', text: kind}];
	}
}

const suppressed: ReadonlySet<unknown> = new Set(['Suppressed', 'OnAccountSuppressionList']);

function bounced({bounceType, bounceSubType, bouncedRecipients}: Fields): Said[] {
	const isGeneral = bounceType === 'Transient' && bounceSubType === 'General';
	return addressed(bouncedRecipients).map(({recipient, diagnostic, status}) => ({
		// SES calls an absence note a general bounce; only a delivery report has codes.
		what: suppressed.has(bounceSubType)
			? 'dropped'
			: isGeneral && diagnostic === '' && !status
				? 'other'
				: 'bounced',
		...{recipient, status},
		text: diagnostic || `${textOf(bounceType)} ${textOf(bounceSubType)}`,
		verdict: bounceType === 'Permanent' ? 'permanent' : 'transient',
	}));
}

function named(recipients: unknown): ReadonlyArray<string | null> {
	const all = listOf(recipients).map(textOrNull);
	return all.length > 0 ? all : [null];
}

function addressed(recipients: unknown) {
	const all = listOf(recipients).map(fieldsOf);
	return (all.length > 0 ? all : [{}]).map(({emailAddress, diagnosticCode, status}: Fields) => ({
		recipient: textOrNull(emailAddress),
		diagnostic: textOf(diagnosticCode),
		status: statusOf(status),
	}));
}

/** Whole: `textOf` would cut it, and an event has all headers of its mail. */
function wholeText(value: unknown): string {
	return typeof value === 'string' ? value : '';
}

/** An SNS message, as far as it is needed. */
export type SnsMessage = {
	readonly type: 'Notification' | 'SubscriptionConfirmation' | 'UnsubscribeConfirmation';
	readonly topic: string;
	/** Where the certificate of its signature is. */
	readonly certificateUrl: URL;
	/** The URL that confirms a subscription; null: the message asks for none. */
	readonly subscribeUrl: URL | null;
	/** Whether SNS wrote it within the last hour: an older one is a replay. Asked before the certificate is fetched. */
	readonly isRecent: (now: number) => boolean;
	/** Whether the certificate's key signed it. */
	readonly isSignedBy: (certificatePem: string, now: number) => boolean;
};

/**
 * The hosts of SNS, with a region such as us-east-1, us-gov-west-1 or cn-north-1. `sns.s3.amazonaws.com` and
 * `sns.s3-us-west-2.amazonaws.com` belong to whoever has the bucket `sns`.
 */
const snsHost =
	/^sns\.[a-z]{2,4}(?:-[a-z]{2,4})?-(?:central|(?:north|south)(?:east|west)?|east|west)-\d{1,2}\.amazonaws\.com(?:\.cn)?$/;
const certificatePath = /^\/SimpleNotificationService-[\w-]{1,64}\.pem$/;
/** SNS gives up posting a message after an hour. */
const snsMs = hourMs;
const digests = new Map([
	['1', 'sha1'],
	['2', 'sha256'],
]);
const signedFields = {
	Notification: ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type'],
	SubscriptionConfirmation: ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'],
	UnsubscribeConfirmation: ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'],
} as const;

/**
 * Reads the envelope of an SNS post; null: it is not one that could be proven. URLs of other hosts than SNS's are not
 * taken: anyone may hold a certificate.
 */
export function readSns(body: unknown): SnsMessage | null {
	const fields = fieldsOf(body);
	const type = fields.Type;
	if (type !== 'Notification' && type !== 'SubscriptionConfirmation' && type !== 'UnsubscribeConfirmation') {
		return null;
	}
	const digest = digests.get(textOf(fields.SignatureVersion));
	const certificateUrl = snsUrl(fields.SigningCertURL);
	const subscribeUrl = type === 'SubscriptionConfirmation' ? snsUrl(fields.SubscribeURL) : null;
	if (
		digest === undefined ||
		!certificateUrl ||
		!certificatePath.test(certificateUrl.pathname) ||
		certificateUrl.search !== '' ||
		(type === 'SubscriptionConfirmation' && subscribeUrl === null)
	) {
		return null;
	}
	return {
		...{type, topic: textOf(fields.TopicArn), certificateUrl, subscribeUrl},
		isRecent: now => isRecent(Date.parse(textOf(fields.Timestamp)), now, snsMs),
		isSignedBy(pem, now) {
			try {
				const certificate = new X509Certificate(pem);
				const verify = createVerify(digest);
				for (const name of signedFields[type]) {
					const value = fields[name];
					if (typeof value === 'string') {
						verify.update(`${name}\n${value}\n`);
					}
				}
				const isValid = Date.parse(certificate.validFrom) <= now && now <= Date.parse(certificate.validTo);
				return isValid && verify.verify(certificate.publicKey, textOf(fields.Signature), 'base64');
			} catch {
				return false; // Not a certificate, or not a signature.
			}
		},
	};
}

function snsUrl(value: unknown): URL | null {
	const url = URL.canParse(textOf(value)) ? new URL(textOf(value)) : null;
	const isPlain = url?.port === '' && url.username === '' && url.password === '' && url.hash === '';
	return isPlain && url.protocol === 'https:' && snsHost.test(url.hostname) ? url : null;
}
