import type {ProviderName} from '../../mail/provider.ts';
import {fieldsOf, type Provider} from './provider.ts';
import {ses} from './ses.ts';
import {generic, mailgun, sendgrid} from './signed.ts';
import {brevo, mailjet, postmark, sparkpost} from './unsigned.ts';

export const providers: Readonly<Record<ProviderName, Provider>> = {
	ses,
	sendgrid,
	mailgun,
	postmark,
	brevo,
	mailjet,
	sparkpost,
	generic,
};

/** A field that occurs only in this provider's events or their envelope. */
const distinctiveFields: ReadonlyArray<readonly [ProviderName, string]> = [
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

/** Guesses the provider of a post from the form of its body, or returns `null`. */
export function guessProvider(body: unknown): ProviderName | null {
	const first = fieldsOf(Array.isArray(body) ? body[0] : body);
	return distinctiveFields.find(([, field]) => first[field] !== undefined)?.[0] ?? null;
}

/**
 * Returns the header fields that make providers echo our token in a message's events, each with its line ending. They
 * go before the message's own fields, and no signature covers them.
 */
export function echoFields(names: Iterable<ProviderName>, ref: string): string {
	return [...new Set(names)]
		.map(name => providers[name].echo?.(ref))
		.map(field => (field ? `${field[0]}: ${field[1]}\r\n` : ''))
		.join('');
}

/** Returns the URL for a provider's events, below the public URL. */
export function eventsUrl(publicUrl: string, provider: ProviderName, token: string): string {
	return `${publicUrl.replace(/\/+$/, '')}/v1/provider-events/${provider}/${token}`;
}

/** Adds the secret as the URL's password, for providers that support no other proof. */
function withSecret(url: string, secret: string | null): string {
	return url.replace('://', `://mailctl:${secret}@`);
}

type Setup = (url: string, secret: string | null) => readonly string[];

/** The steps that an operator takes at the provider. */
export const setups: Readonly<Record<ProviderName, Setup>> = {
	ses: url => [
		'SNS: create a standard topic, and a subscription with protocol HTTPS and this',
		'endpoint; leave raw delivery off:',
		`  ${url}`,
		'mailctl confirms the subscription automatically.',
		'SES: in your configuration set, add an event destination for this topic with',
		'deliveries, bounces, complaints, delivery delays and rejects, and make the set',
		'the default of your domain. Or set the topic for feedback notifications of the',
		'domain, with original headers.',
	],
	sendgrid: url => [
		'Settings > Mail Settings > Event Webhooks: create one with all deliverability',
		'data, spam reports from the engagement data, and this post URL:',
		`  ${url}`,
		'Security features: enable the signed event webhook, and give mailctl its',
		'verification key:',
		'  mailctl smarthost rotate ID --keep-url --secret - < FILE',
	],
	mailgun: (url, secret) => [
		'Sending > Webhooks: add this URL for delivered, permanent and temporary',
		'failure, spam complaints, unsubscribes:',
		`  ${url}`,
		'API security > HTTP webhook signing key: store it in mailctl, unless done already:',
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
		'Transactional > Settings > Webhook: add one with this URL for all',
		'deliverability events:',
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
		'Post events in the format of mailctl’s webhooks (docs/guide/smarthosts.md)',
		'to:',
		`  ${url}`,
		'Key the signature (X-Webhook-Signature) with:',
		`  ${secret}`,
	],
};
