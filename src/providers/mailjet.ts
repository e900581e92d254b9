import {hasSecret} from './proofs.ts';
import {
	batchOf,
	codeOf,
	eventOf,
	type Fields,
	type Judged,
	type Provider,
	refIn,
	textOf,
	textOrNull,
	texts,
} from './provider.ts';

/** Mailjet's Event API, which signs nothing: the URL's Basic authentication has the secret. */
export const mailjet: Provider = {
	secret: 'ours',
	proves: hasSecret,
	events: batchOf,
	read: event => [
		eventOf({
			...judged(event),
			recipient: textOrNull(event.email),
			code: codeOf(/^[245]\d\d/.exec(textOf(event.smtp_reply))?.[0]),
			refs: texts(refIn(event.CustomID)),
			providerIds: texts(event.Message_GUID, event.MessageID),
		}),
	],
	echo: ref => ['X-MJ-CustomID', ref],
};

function judged(event: Fields): Judged {
	const text = texts(event.smtp_reply, event.comment, event.error)[0] ?? '';
	switch (event.event) {
		case 'sent':
			return {what: 'delivered', text};
		case 'bounce':
			return {what: 'bounced', text, verdict: event.hard_bounce === true ? 'permanent' : 'transient'};
		case 'blocked':
			return preblocked.test(textOf(event.error))
				? {what: 'dropped', text}
				: {what: 'bounced', text, verdict: 'transient'};
		case 'spam':
			return {what: 'complained', text: textOf(event.source), feedbackType: 'abuse'};
		case 'unsub':
			return {what: 'unsubscribed', text};
		case 'open':
			return {what: 'opened', text};
		case 'click':
			return {what: 'clicked', text: textOf(event.url)};
		default:
			return {what: 'other', text};
	}
}

const preblocked = /preblocked|duplicate in campaign|blacklist/i;
