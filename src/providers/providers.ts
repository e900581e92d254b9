import type {ProviderName} from '../mail/provider.ts';
import {fieldsOf, type Provider} from './provider.ts';
import {ses} from './ses.ts';
import {generic, mailgun, sendgrid} from './signed.ts';
import {brevo, mailjet, postmark, sparkpost} from './unsigned.ts';

export const providers: Readonly<Record<ProviderName, Provider>> = {
	...{ses, sendgrid, mailgun, postmark, brevo, mailjet, sparkpost, generic},
};

/** A field that only this provider's events have, or their envelope. */
const marks: ReadonlyArray<readonly [ProviderName, string]> = [
	['ses', 'SigningCertURL'],
	['ses', 'eventType'],
	['ses', 'notificationType'],
	['mailgun', 'event-data'],
	['sendgrid', 'sg_event_id'],
	['sparkpost', 'msys'],
	['postmark', 'RecordType'],
	['brevo', 'message-id'],
	['mailjet', 'MessageID'],
	['generic', 'message_id'],
	['generic', 'ref'],
];

/** The provider of a post, by the form of its body; null: unknown. */
export function guessProvider(body: unknown): ProviderName | null {
	const first = fieldsOf(Array.isArray(body) ? body[0] : body);
	return marks.find(([, mark]) => first[mark] !== undefined)?.[0] ?? null;
}

/**
 * The header fields by which providers echo our token in the events of a mail, each with its line end; empty for none.
 * They stand before the mail's own fields, and no signature covers them.
 */
export function echoFields(names: Iterable<ProviderName>, ref: string): string {
	return [...new Set(names)]
		.map(name => providers[name].echo?.(ref))
		.map(field => (field ? `${field[0]}: ${field[1]}\r\n` : ''))
		.join('');
}

/** Where a provider posts its events, below the public URL. */
export function eventsUrl(publicUrl: string, provider: ProviderName, token: string): string {
	return `${publicUrl.replace(/\/+$/, '')}/v1/provider-events/${provider}/${token}`;
}

/** The same with the secret as its user's password, for providers that know no other proof. */
function withSecret(url: string, secret: string | null): string {
	return url.replace('://', `://mailctl:${secret}@`);
}

type Setup = (url: string, secret: string | null) => readonly string[];

/** What an operator does at the provider, step by step. */
export const setups: Readonly<Record<ProviderName, Setup>> = {
	ses: url => [
		'SNS: create a standard topic, and a subscription with protocol HTTPS and this',
		'endpoint; leave raw delivery off:',
		`  ${url}`,
		'mailctl confirms the subscription by itself.',
		'SES: in the configuration set of your mail add an event destination to this',
		'topic, with deliveries, bounces,',
		'complaints, delivery delays and rejects, and make the set the default of your',
		'domain; or set the topic as its feedback notifications, with original headers.',
	],
	sendgrid: url => [
		'Settings > Mail Settings > Event Webhooks: create one with all deliverability',
		'data, of the engagement data spam reports, and this post URL:',
		`  ${url}`,
		'Security features: enable the signed event webhook, and give mailctl its',
		'verification key:',
		'  mailctl smarthost rotate ID --keep-url --secret - < FILE',
	],
	mailgun: (url, secret) => [
		'Sending > Webhooks: add this URL for delivered, permanent and temporary',
		'failure, spam complaints, unsubscribes:',
		`  ${url}`,
		'API security > HTTP webhook signing key: give it to mailctl unless you did:',
		'  mailctl smarthost rotate ID --keep-url --secret - < FILE',
		`Until then the key is ${secret}`,
	],
	postmark: (url, secret) => [
		'Servers > your server > your stream > Webhooks: add a webhook with this URL,',
		'and Delivery, Bounce, Spam complaint:',
		`  ${url}`,
		'Basic auth credentials: user mailctl, and as the password:',
		`  ${secret}`,
	],
	brevo: (url, secret) => [
		'Transactional > Settings > Webhook: add one with this URL for all events of',
		'deliverability:',
		`  ${url}`,
		'Authentication method: token, with this value:',
		`  ${secret}`,
	],
	mailjet: (url, secret) => [
		'Account settings > Event notifications (webhooks): use this URL for sent,',
		'bounce, blocked, spam and unsub:',
		`  ${withSecret(url, secret)}`,
	],
	sparkpost: (url, secret) => [
		'Configuration > Webhooks: create one with this target URL, and message,',
		'engagement and unsubscribe events:',
		`  ${url}`,
		'Authentication: Basic auth, user mailctl, and as the password:',
		`  ${secret}`,
	],
	generic: (url, secret) => [
		'Post events in the form of mailctl’s own webhooks (docs/guide/smarthosts.md)',
		'to:',
		`  ${url}`,
		'Key the signature (X-Webhook-Signature) with:',
		`  ${secret}`,
	],
};
