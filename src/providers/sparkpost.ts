import {hasSecret} from './proofs.ts';
import {
	batchOf,
	codeOf,
	eventOf,
	type Fields,
	fieldsOf,
	type Judged,
	type Provider,
	refIn,
	refName,
	textOf,
	textOrNull,
	texts,
} from './provider.ts';

/** SparkPost's event webhooks (now Bird), which sign nothing: Basic authentication or a header has the secret. */
export const sparkpost: Provider = {
	secret: 'ours',
	proves: hasSecret,
	// An event is the only field of the only field of its element; a test post has none.
	events: body => batchOf(body)?.flatMap(each => Object.values(fieldsOf(each.msys)).map(fieldsOf)) ?? null,
	read: event => [
		eventOf({
			...judged(event),
			recipient: textOrNull(event.raw_rcpt_to) ?? textOrNull(event.rcpt_to),
			code: codeOf(event.error_code),
			host: textOrNull(event.mx_host),
			refs: texts(refIn(event.rcpt_meta)),
			providerIds: texts(event.message_id),
		}),
	],
	echo: ref => ['X-MSYS-API', JSON.stringify({metadata: {[refName]: ref}})],
};

/** Bounce classes: an invalid recipient, a bounce without RCPT, a domain without mail, a request to unsubscribe. */
const permanent: ReadonlySet<string> = new Set(['10', '30', '90']);
const suppressed = '25';

function judged(event: Fields): Judged {
	const text = texts(event.raw_reason, event.reason)[0] ?? '';
	switch (event.type) {
		case 'delivery':
			return {what: 'delivered', text: text || textOf(event.reason)};
		case 'bounce':
		case 'out_of_band':
		case 'policy_rejection':
		case 'generation_rejection':
		case 'generation_failure': {
			const type = textOf(event.bounce_class);
			return type === suppressed && /suppress/i.test(text)
				? {what: 'dropped', text}
				: {what: 'bounced', text, verdict: permanent.has(type) ? 'permanent' : 'transient'};
		}
		case 'delay':
			return {what: 'deferred', text};
		case 'spam_complaint':
			return {what: 'complained', text, feedbackType: textOf(event.fbtype) || 'abuse'};
		case 'list_unsubscribe':
		case 'link_unsubscribe':
			return {what: 'unsubscribed', text};
		case 'open':
		case 'initial_open':
			return {what: 'opened', text};
		case 'click':
			return {what: 'clicked', text: textOf(event.target_link_url)};
		default:
			return {what: 'other', text};
	}
}
