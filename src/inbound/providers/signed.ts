import {parsedJson} from '../../kit/exact-json.ts';
import {hourMs} from '../../kit/time.ts';
import {findHeader, hmacHex, isEqual, isRecent, isSignedBy} from './proofs.ts';
import {
	bare,
	codeOf,
	type Fields,
	fieldsOf,
	type Kinds,
	type Provider,
	parseBatch,
	parseStatus,
	refIn,
	refName,
	textOf,
	textOrNull,
	texts,
	toProviderEvent,
} from './provider.ts';

// Providers that sign their posts with a secret.

const sendgridKinds: Kinds = {
	delivered: ['delivered'],
	bounce: ['bounced', 'permanent'],
	blocked: ['bounced', 'transient'],
	dropped: ['bounced', 'transient'],
	suppressed: ['dropped'],
	deferred: ['deferred'],
	spamreport: ['complained'],
	unsubscribe: ['unsubscribed'],
	group_unsubscribe: ['unsubscribed'],
	open: ['opened'],
	click: ['clicked'],
};
/** SendGrid retries a post for a day. Whether it signs each attempt anew is not documented. */
const sendgridMaxAgeMs = 25 * hourMs;
const sendgridSuppression = /bounced address|unsubscribed address|spam reporting address|invalid$/i;

/** Twilio SendGrid's signed Event Webhook (ECDSA over timestamp and body; the console shows the public key). */
export const sendgrid: Provider = {
	secret: 'theirs',
	isFromProvider(incoming, secret, now) {
		const timestamp = findHeader(incoming, 'x-twilio-email-event-webhook-timestamp');
		const signature = findHeader(incoming, 'x-twilio-email-event-webhook-signature');
		return (
			isRecent(Number(timestamp) * 1000, now, sendgridMaxAgeMs) &&
			isSignedBy(secret, signature, Buffer.from(timestamp), incoming.body)
		);
	},
	events: parseBatch,
	read(event) {
		const reason = texts(event.reason, event.response)[0] ?? '';
		const isBlocked = event.event === 'bounce' && event.type === 'blocked';
		const isSuppressed = event.event === 'dropped' && sendgridSuppression.test(reason);
		return [
			toProviderEvent(sendgridKinds, isBlocked ? 'blocked' : isSuppressed ? 'suppressed' : event.event, {
				text: textOf(event.url) || reason,
				recipient: textOrNull(event.email),
				code: codeOf(/^[245]\d\d/.exec(textOf(event.status) || textOf(event.response))?.[0]),
				status: parseStatus(event.status),
				host: textOrNull(event.mx),
				refs: texts(event[refName]),
				messageIds: texts(bare(event['smtp-id'])),
				// The service appends the machines that the message passed through.
				providerIds: texts(textOf(event.sg_message_id).split(/\.(?:filter|recv)/)[0]),
			}),
		];
	},
	echo: ref => ['X-SMTPAPI', JSON.stringify({unique_args: {[refName]: ref}})],
};

/** Mailgun retries a post for eight hours. Whether it signs each attempt anew is not documented. */
const mailgunMaxAgeMs = 9 * hourMs;
const mailgunKinds: Kinds = {
	delivered: ['delivered'],
	temporary: ['deferred'],
	bounce: ['bounced', 'permanent'],
	failed: ['bounced', 'transient'],
	rejected: ['bounced', 'transient'],
	suppressed: ['dropped'],
	complained: ['complained'],
	unsubscribed: ['unsubscribed'],
	opened: ['opened'],
	clicked: ['clicked'],
};

/** Mailgun's webhooks: HMAC-SHA256 over timestamp and token, keyed with the account's HTTP webhook signing key. */
export const mailgun: Provider = {
	secret: 'theirs',
	isFromProvider({body}, secret, now) {
		const {timestamp, token, signature} = fieldsOf(fieldsOf(parsedJson(body.toString())).signature);
		const seconds = textOf(timestamp);
		const expected = hmacHex(secret, seconds, textOf(token));
		// They are joined without a separator: unless the timestamp is all digits, it could contain part of the token.
		return (
			isEqual(textOf(signature).toLowerCase(), expected) &&
			/^\d+$/.test(seconds) &&
			isRecent(Number(seconds) * 1000, now, mailgunMaxAgeMs)
		);
	},
	uniqueBy: body => textOf(fieldsOf(fieldsOf(body).signature).token),
	events: body => parseBatch(fieldsOf(body)['event-data']),
	read(event) {
		const status = fieldsOf(event['delivery-status']);
		const rejection = fieldsOf(event.reject).reason;
		return [
			toProviderEvent(mailgunKinds, mailgunKind(event), {
				text: texts(status.message, status.description, rejection, event.url, event.reason)[0] ?? '',
				recipient: textOrNull(event.recipient),
				code: codeOf(status.code),
				status: parseStatus(status['enhanced-code']),
				host: textOrNull(status['mx-host']),
				refs: texts(refIn(event['user-variables'])),
				messageIds: texts(bare(fieldsOf(fieldsOf(event.message).headers)['message-id'])),
			}),
		];
	},
	echo: ref => ['X-Mailgun-Variables', JSON.stringify({[refName]: ref})],
};

function mailgunKind({event, severity, reason}: Fields): unknown {
	if (event !== 'failed' || severity === 'temporary') {
		return event === 'failed' ? severity : event;
	}
	return textOf(reason).startsWith('suppress-') ? 'suppressed' : reason === 'bounce' ? 'bounce' : event;
}

/** Clocks may differ by this much, as recommended to our receivers (docs/reference/interface.md, Webhook request). */
const toleranceMs = 300_000;
const genericKinds: Kinds = {
	delivered: ['delivered'],
	bounced: ['bounced'],
	permanent: ['bounced', 'permanent'],
	transient: ['bounced', 'transient'],
	dropped: ['dropped'],
	deferred: ['deferred'],
	complained: ['complained'],
	unsubscribed: ['unsubscribed'],
	opened: ['opened'],
	clicked: ['clicked'],
};

/**
 * The format of mailctl's own webhooks, for custom relays: `{type, message_id, recipient, occurred_at}`, signed with
 * X-Webhook-Timestamp and X-Webhook-Signature. `message_id` is our Message-ID, and `ref` the value of
 * X-Mailctl-Ref.
 */
export const generic: Provider = {
	secret: 'ours',
	isFromProvider(incoming, secret, now) {
		const timestamp = findHeader(incoming, 'x-webhook-timestamp');
		const signature = findHeader(incoming, 'x-webhook-signature');
		const expected = `sha256=${hmacHex(secret, `${timestamp}.`, incoming.body)}`;
		return isEqual(signature, expected) && Math.abs(now - Number(timestamp) * 1000) <= toleranceMs;
	},
	events: parseBatch,
	read(event) {
		// mailctl's own webhooks have their facts in `detail`.
		const detail = fieldsOf(event.detail);
		const type = event.type === 'bounced' ? texts(event.bounce_type, detail.type)[0] : undefined;
		return [
			toProviderEvent(genericKinds, type ?? event.type, {
				recipient: textOrNull(event.recipient),
				text: texts(event.reason, event.detail, detail.reply)[0] ?? '',
				code: codeOf(event.code),
				status: parseStatus(event.status) ?? parseStatus(detail.status),
				host: textOrNull(event.host) ?? textOrNull(detail.host),
				refs: texts(event.ref),
				feedbackType: event.feedback_type ?? detail.feedback_type,
				messageIds: texts(bare(event.message_id)),
				providerIds: texts(event.message_id),
			}),
		];
	},
	echo: null,
};
