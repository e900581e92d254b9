import {headerOf, isSignedBy} from './proofs.ts';
import {
	bare,
	batchOf,
	codeOf,
	eventOf,
	type Fields,
	type Judged,
	type Provider,
	refName,
	statusOf,
	textOf,
	textOrNull,
	texts,
} from './provider.ts';

/** Twilio SendGrid's Event Webhook, signed (ECDSA over timestamp and body; the console shows the public key). */
export const sendgrid: Provider = {
	secret: 'theirs',
	proves(incoming, secret) {
		const timestamp = headerOf(incoming, 'x-twilio-email-event-webhook-timestamp');
		const signature = headerOf(incoming, 'x-twilio-email-event-webhook-signature');
		return isSignedBy(secret, signature, Buffer.from(timestamp), incoming.body);
	},
	events: batchOf,
	read: event => [
		eventOf({
			...judged(event),
			recipient: textOrNull(event.email),
			code: codeOf(/^[245]\d\d/.exec(textOf(event.status) || textOf(event.response))?.[0]),
			status: statusOf(event.status),
			host: textOrNull(event.mx),
			refs: texts(event[refName]),
			messageIds: texts(bare(event['smtp-id'])),
			// The service appends the machines that the mail passed.
			providerIds: texts(textOf(event.sg_message_id).split(/\.(?:filter|recv)/)[0]),
		}),
	],
	echo: ref => ['X-SMTPAPI', JSON.stringify({unique_args: {[refName]: ref}})],
};

function judged(event: Fields): Judged {
	const text = textOf(event.reason) || textOf(event.response);
	switch (event.event) {
		case 'delivered':
			return {what: 'delivered', text};
		case 'bounce':
			return {what: 'bounced', text, verdict: event.type === 'blocked' ? 'transient' : 'permanent'};
		case 'dropped':
			return dropped.test(text) ? {what: 'dropped', text} : {what: 'bounced', text, verdict: 'transient'};
		case 'deferred':
			return {what: 'deferred', text};
		case 'spamreport':
			return {what: 'complained', text, feedbackType: 'abuse'};
		case 'unsubscribe':
		case 'group_unsubscribe':
			return {what: 'unsubscribed', text};
		case 'open':
			return {what: 'opened', text};
		case 'click':
			return {what: 'clicked', text: textOf(event.url)};
		default:
			return {what: 'other', text};
	}
}

const dropped = /bounced address|unsubscribed address|spam reporting address|invalid$/i;
