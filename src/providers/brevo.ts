import {hasSecret} from './proofs.ts';
import {
	bare,
	batchOf,
	eventOf,
	type Fields,
	type Judged,
	type Provider,
	refIn,
	refName,
	textOf,
	textOrNull,
	texts,
} from './provider.ts';

/** Brevo's transactional webhooks, which sign nothing: a token, Basic authentication or a header has the secret. */
export const brevo: Provider = {
	secret: 'ours',
	proves: hasSecret,
	events: batchOf,
	read: event => [
		eventOf({
			...judged(event),
			recipient: textOrNull(event.email),
			refs: texts(refIn(event['X-Mailin-custom'])),
			messageIds: texts(bare(event['message-id'])),
			providerIds: texts(bare(event['message-id'])),
		}),
	],
	echo: ref => ['X-Mailin-custom', JSON.stringify({[refName]: ref})],
};

function judged(event: Fields): Judged {
	const text = textOf(event.reason);
	switch (event.event) {
		case 'delivered':
			return {what: 'delivered', text};
		case 'hard_bounce':
		case 'invalid_email':
			return {what: 'bounced', text, verdict: 'permanent'};
		case 'soft_bounce':
		case 'error':
			return {what: 'bounced', text, verdict: 'transient'};
		case 'blocked':
			return {what: 'dropped', text};
		case 'deferred':
			return {what: 'deferred', text};
		case 'spam':
		case 'complaint':
			return {what: 'complained', text, feedbackType: 'abuse'};
		case 'unsubscribed':
		case 'unsubscribe':
			return {what: 'unsubscribed', text};
		case 'opened':
		case 'unique_opened':
			return {what: 'opened', text};
		case 'click':
			return {what: 'clicked', text: textOf(event.link)};
		default:
			return {what: 'other', text};
	}
}
