import {createVerify, X509Certificate} from 'node:crypto';
import {parsedJson} from '../../kit/exact-json.ts';
import {hourMs} from '../../kit/time.ts';
import {isRecent} from './proofs.ts';
import {
	bare,
	emptyEvent,
	type Fields,
	fieldsOf,
	isFields,
	listOf,
	type Provider,
	type ProviderEvent,
	parseFeedbackType,
	parseStatus,
	refName,
	textOf,
	textOrNull,
	texts,
} from './provider.ts';

/**
 * Amazon SES over SNS: event publishing (`eventType`) and feedback notifications (`notificationType`). A post is an SNS
 * message whose `Message` is the event. `readSns` verifies its signature.
 */
export const ses: Provider = {
	secret: 'none',
	isFromProvider: () => false,
	events(body) {
		const fields = fieldsOf(body);
		// A bare event, as SNS delivers it raw, is unsigned and therefore only read from files.
		const message = fields.mail === undefined ? parsedJson(wholeText(fields.Message)) : fields;
		// SES sends a plain text to a new topic to check that it may publish there.
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
		return toSesEvents(event).map(sesEvent => ({...emptyEvent, ...sesEvent, ...clues}));
	},
	echo: ref => ['X-SES-MESSAGE-TAGS', `${refName}=${ref}`],
};

type SesEvent = Pick<ProviderEvent, 'kind' | 'text'> &
	Partial<Pick<ProviderEvent, 'verdict' | 'feedbackType' | 'recipient' | 'status' | 'host'>>;

/** Returns an event per named recipient, or one without a recipient if none is named. */
function toSesEvents(event: Fields): readonly SesEvent[] {
	const type = textOf(event.eventType) || textOf(event.notificationType);
	switch (type) {
		case 'Delivery': {
			const {recipients, smtpResponse, remoteMtaIp} = fieldsOf(event.delivery);
			const text = textOf(smtpResponse);
			return toRecipients(recipients).map(recipient => ({
				kind: 'delivered',
				text,
				recipient,
				host: textOrNull(remoteMtaIp),
			}));
		}
		case 'Bounce':
			return toBounces(fieldsOf(event.bounce));
		case 'Complaint': {
			const {complainedRecipients, complaintFeedbackType, complaintSubType} = fieldsOf(event.complaint);
			// The address has complained before, so SES did not send this message.
			const kind = complaintSubType === 'OnAccountSuppressionList' ? 'dropped' : 'complained';
			const feedbackType = parseFeedbackType(complaintFeedbackType);
			return toAddressed(complainedRecipients).map(({recipient}) => ({
				kind,
				text: feedbackType,
				recipient,
				feedbackType,
			}));
		}
		case 'DeliveryDelay': {
			const {delayedRecipients, delayType} = fieldsOf(event.deliveryDelay);
			return toAddressed(delayedRecipients).map(({recipient, diagnostic, status}) => ({
				kind: 'deferred',
				recipient,
				status,
				text: diagnostic || textOf(delayType),
			}));
		}
		case 'Reject':
			return [{kind: 'bounced', text: textOf(fieldsOf(event.reject).reason), verdict: 'transient'}];
		case 'Subscription':
			return [{kind: 'unsubscribed', text: ''}];
		case 'Open':
			return [{kind: 'opened', text: ''}];
		case 'Click':
			return [{kind: 'clicked', text: textOf(fieldsOf(event.click).link)}];
		default:
			return [{kind: 'other', text: type}];
	}
}

const suppressed: ReadonlySet<unknown> = new Set(['Suppressed', 'OnAccountSuppressionList']);

function toBounces({bounceType, bounceSubType, bouncedRecipients}: Fields): SesEvent[] {
	const isGeneral = bounceType === 'Transient' && bounceSubType === 'General';
	return toAddressed(bouncedRecipients).map(({recipient, diagnostic, status}) => ({
		// SES reports vacation notes as general bounces. Only a delivery report has codes.
		kind: suppressed.has(bounceSubType)
			? 'dropped'
			: isGeneral && diagnostic === '' && !status
				? 'other'
				: 'bounced',
		recipient,
		status,
		text: diagnostic || `${textOf(bounceType)} ${textOf(bounceSubType)}`,
		verdict: bounceType === 'Permanent' ? 'permanent' : 'transient',
	}));
}

function toRecipients(recipients: unknown): ReadonlyArray<string | null> {
	const names = listOf(recipients).map(textOrNull);
	return names.length > 0 ? names : [null];
}

function toAddressed(recipients: unknown) {
	const entries = listOf(recipients).map(fieldsOf);
	return (entries.length > 0 ? entries : [{}]).map(({emailAddress, diagnosticCode, status}: Fields) => ({
		recipient: textOrNull(emailAddress),
		diagnostic: textOf(diagnosticCode),
		status: parseStatus(status),
	}));
}

/** Returns the text uncut, unlike `textOf`: an event contains all headers of its message. */
function wholeText(value: unknown): string {
	return typeof value === 'string' ? value : '';
}

/** The parts of an SNS message that mailctl uses. */
export type SnsMessage = {
	readonly type: 'Notification' | 'SubscriptionConfirmation' | 'UnsubscribeConfirmation';
	readonly topic: string;
	/** The URL of the signing certificate. */
	readonly certificateUrl: URL;
	/** The URL that confirms a subscription, or `null` if none is requested. */
	readonly subscribeUrl: URL | null;
	/** Whether SNS wrote it within the last hour; an older one is a replay. Checked before fetching the certificate. */
	readonly isRecent: (now: number) => boolean;
	/** Whether the certificate's key signed the message. */
	readonly isSignedBy: (certificatePem: string, now: number) => boolean;
};

/**
 * The host names of SNS, with a region such as us-east-1, us-gov-west-1 or cn-north-1. `sns.s3.amazonaws.com` and
 * `sns.s3-us-west-2.amazonaws.com` belong to whoever owns the bucket `sns`.
 */
const snsHost =
	/^sns\.[a-z]{2,4}(?:-[a-z]{2,4})?-(?:central|(?:north|south)(?:east|west)?|east|west)-\d{1,2}\.amazonaws\.com(?:\.cn)?$/;
const certificatePath = /^\/SimpleNotificationService-[\w-]{1,64}\.pem$/;
/** SNS stops retrying a message after an hour. */
const maxPostAgeMs = hourMs;
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
 * Parses the envelope of an SNS post, or returns `null` if it cannot be verified. Accepts only URLs of SNS hosts,
 * because anyone may own a certificate.
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
		type,
		topic: textOf(fields.TopicArn),
		certificateUrl,
		subscribeUrl,
		isRecent: now => isRecent(Date.parse(textOf(fields.Timestamp)), now, maxPostAgeMs),
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
