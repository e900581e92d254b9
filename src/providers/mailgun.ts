import {hourMs} from '../kit/time.ts';
import {hmacHex, same} from './proofs.ts';
import {
	bare,
	codeOf,
	eventOf,
	type Fields,
	fieldsOf,
	isFields,
	type Judged,
	type Provider,
	refIn,
	refName,
	statusOf,
	textOf,
	textOrNull,
	texts,
} from './provider.ts';

/** Mailgun tries a post again for eight hours, and does not say that it signs it anew. */
const replayMs = 9 * hourMs;
const aheadMs = hourMs / 12;

/** Mailgun's webhooks: HMAC-SHA256 over timestamp and token, by the account's HTTP webhook signing key. */
export const mailgun: Provider = {
	secret: 'theirs',
	proves({body}, secret, now) {
		const {timestamp, token, signature} = fieldsOf(signatureOf(body));
		const ageMs = now - Number(textOf(timestamp)) * 1000;
		const expected = hmacHex(secret, textOf(timestamp), textOf(token));
		return same(textOf(signature).toLowerCase(), expected) && ageMs <= replayMs && ageMs >= -aheadMs;
	},
	events: body => {
		const data = fieldsOf(body)['event-data'];
		return isFields(data) ? [data] : null;
	},
	read(event) {
		const status = fieldsOf(event['delivery-status']);
		return [
			eventOf({
				...judged(event),
				recipient: textOrNull(event.recipient),
				code: codeOf(status.code),
				status: statusOf(status['enhanced-code']),
				host: textOrNull(status['mx-host']),
				refs: texts(refIn(event['user-variables'])),
				messageIds: texts(bare(fieldsOf(fieldsOf(event.message).headers)['message-id'])),
			}),
		];
	},
	echo: ref => ['X-Mailgun-Variables', JSON.stringify({[refName]: ref})],
};

function signatureOf(body: Buffer): unknown {
	try {
		return fieldsOf(JSON.parse(body.toString())).signature;
	} catch {
		return null;
	}
}

function judged(event: Fields): Judged {
	const status = fieldsOf(event['delivery-status']);
	const text = texts(status.message, status.description)[0] ?? textOf(event.reason);
	switch (event.event) {
		case 'delivered':
			return {what: 'delivered', text};
		case 'failed':
			if (event.severity === 'temporary') {
				return {what: 'deferred', text};
			}
			return textOf(event.reason).startsWith('suppress-')
				? {what: 'dropped', text: text || textOf(event.reason)}
				: {what: 'bounced', text, verdict: event.reason === 'bounce' ? 'permanent' : 'transient'};
		case 'rejected':
			return {what: 'bounced', text: textOf(fieldsOf(event.reject).reason) || text, verdict: 'transient'};
		case 'complained':
			return {what: 'complained', text, feedbackType: 'abuse'};
		case 'unsubscribed':
			return {what: 'unsubscribed', text};
		case 'opened':
			return {what: 'opened', text};
		case 'clicked':
			return {what: 'clicked', text: textOf(event.url)};
		default:
			return {what: 'other', text};
	}
}
