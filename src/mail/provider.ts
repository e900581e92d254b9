/** The services that send mail for us and post its events. `generic`: any sender of our own webhooks' form. */
export const providerNames = [
	'ses',
	'sendgrid',
	'mailgun',
	'postmark',
	'brevo',
	'mailjet',
	'sparkpost',
	'generic',
] as const;
export type ProviderName = (typeof providerNames)[number];

export function isProviderName(text: string): text is ProviderName {
	return (providerNames as readonly string[]).includes(text);
}

/** What of a provider's events has an effect only if the operator says so. */
export const optionalEvents = ['opened', 'clicked', 'unsubscribed'] as const;
export type OptionalEvent = (typeof optionalEvents)[number];

/** How a post of a provider ended. `unknown`: no smarthost has the URL. `unreadable`: it is proven, and has no events in its form. */
export type ProviderPostEnd = 'taken' | 'unknown' | 'forged' | 'unreadable';
