import type {ProviderName} from '../mail/provider.ts';

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
		'SNS: create a standard topic, and a subscription with protocol HTTPS and this endpoint; leave raw delivery off:',
		`  ${url}`,
		'mailctl confirms the subscription by itself.',
		'SES: in the configuration set of your mail add an event destination to this topic, with deliveries, bounces,',
		'complaints, delivery delays and rejects; or set the topic as the identity’s feedback, with original headers.',
	],
	sendgrid: url => [
		'Settings > Mail Settings > Event Webhooks: create one with all deliverability data and this post URL:',
		`  ${url}`,
		'Security features: enable the signed event webhook, and give mailctl its verification key:',
		'  mailctl smarthost rotate ID --secret KEY --keep-url',
	],
	mailgun: (url, secret) => [
		'Sending > Webhooks: add this URL for delivered, permanent and temporary failure, spam complaints, unsubscribes:',
		`  ${url}`,
		'API security > HTTP webhook signing key: give it to mailctl unless you did:',
		`  mailctl smarthost rotate ID --secret KEY --keep-url${secret === null ? '' : '   (now: the key shown here)'}`,
	],
	postmark: (url, secret) => [
		'Servers > your server > your stream > Webhooks: add a webhook with this URL, and Delivery, Bounce, Spam complaint:',
		`  ${url}`,
		'Basic auth credentials: user mailctl, and as the password:',
		`  ${secret}`,
	],
	brevo: (url, secret) => [
		'Transactional > Settings > Webhook: add one with this URL for all events of deliverability:',
		`  ${url}`,
		'Authentication method: token, with this value:',
		`  ${secret}`,
	],
	mailjet: (url, secret) => [
		'Account settings > Event notifications (webhooks): use this URL for sent, bounce, blocked, spam and unsub:',
		`  ${withSecret(url, secret)}`,
	],
	sparkpost: (url, secret) => [
		'Configuration > Webhooks: create one with this target URL, and message, engagement and unsubscribe events:',
		`  ${url}`,
		'Authentication: Basic auth, user mailctl, and as the password:',
		`  ${secret}`,
	],
	generic: (url, secret) => [
		'Post events in the form of mailctl’s own webhooks (docs/guide/smarthosts.md) to:',
		`  ${url}`,
		'Key the signature (X-Webhook-Signature) with:',
		`  ${secret}`,
	],
};
