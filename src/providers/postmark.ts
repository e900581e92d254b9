import {hasSecret} from './proofs.ts';
import {
	batchOf,
	eventOf,
	type Fields,
	fieldsOf,
	type Judged,
	type Provider,
	refName,
	textOf,
	textOrNull,
	texts,
} from './provider.ts';

/** Postmark's webhooks, which sign nothing: Basic authentication or a header of ours has the secret. */
export const postmark: Provider = {
	secret: 'ours',
	proves: hasSecret,
	events: batchOf,
	read: event => [
		eventOf({
			...judged(event),
			recipient: textOrNull(event.Recipient) ?? textOrNull(event.Email),
			// Names of metadata come back as they were sent, but a header's name has no case.
			refs: texts(
				...Object.entries(fieldsOf(event.Metadata)).flatMap(([k, v]) => (k.toLowerCase() === refName ? [v] : [])),
			),
			providerIds: texts(event.MessageID),
		}),
	],
	echo: ref => [`X-PM-Metadata-${refName}`, ref],
};

/** What of Postmark's bounce types says that the address takes no mail, and what that it asked for none. */
const permanent: ReadonlySet<unknown> = new Set(['HardBounce', 'BadEmailAddress', 'AddressChange']);
const deferrals: ReadonlySet<unknown> = new Set(['Transient']);
/** Answers of people and programs, which the listener reads where they are mails. */
const noBounces: ReadonlySet<unknown> = new Set([
	'AutoResponder',
	'Subscribe',
	'ChallengeVerification',
	'OpenRelayTest',
]);

function judged(event: Fields): Judged {
	const text = texts(event.Details, event.Description)[0] ?? '';
	switch (event.RecordType) {
		case 'Delivery':
			return {what: 'delivered', text};
		case 'Bounce':
			return bounced(event.Type, text);
		case 'SpamComplaint':
			return {what: 'complained', text, feedbackType: 'abuse'};
		case 'SubscriptionChange':
			return subscriptionChange(event);
		case 'Open':
			return {what: 'opened', text};
		case 'Click':
			return {what: 'clicked', text: textOf(event.OriginalLink)};
		default:
			return {what: 'other', text};
	}
}

function bounced(type: unknown, text: string): Judged {
	if (type === 'SpamComplaint') {
		return {what: 'complained', text, feedbackType: 'abuse'};
	}
	if (type === 'Unsubscribe') {
		return {what: 'unsubscribed', text};
	}
	if (type === 'ManuallyDeactivated') {
		return {what: 'dropped', text};
	}
	if (noBounces.has(type)) {
		return {what: 'other', text};
	}
	return deferrals.has(type)
		? {what: 'deferred', text}
		: {what: 'bounced', text, verdict: permanent.has(type) ? 'permanent' : 'transient'};
}

/** A bounce or a complaint that suppresses is reported by its own event too, which says more. */
function subscriptionChange(event: Fields): Judged {
	const asked = event.SuppressSending === true && event.SuppressionReason === 'ManualSuppression';
	return {
		what: asked && event.Origin === 'Recipient' ? 'unsubscribed' : 'other',
		text: textOf(event.SuppressionReason),
	};
}
