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

/** The mail servers and APIs of each provider that has its own. */
export const providerHosts: ReadonlyMap<ProviderName, RegExp> = new Map([
	['ses', /^email(?:-smtp[\w-]*)?(?:\.[\w-]+)*\.amazonaws\.com$/],
	['sendgrid', /(?:^|\.)sendgrid\.net$/],
	['mailgun', /(?:^|\.)mailgun\.(?:org|net)$/],
	['postmark', /(?:^|\.)postmarkapp\.com$/],
	['brevo', /(?:^|\.)(?:brevo|sendinblue)\.com$/],
	['mailjet', /(?:^|\.)mailjet\.com$/],
	['sparkpost', /(?:^|\.)sparkpost(?:mail)?\.com$/],
]);

/** The providers that may report on mail that this host accepted. An unknown relay may hand it to any of them. */
export function reportingProviders(host: string): readonly ProviderName[] {
	const own = providerNames.filter(name => providerHosts.get(name)?.test(host.toLowerCase()));
	return own.length > 0 ? own : providerNames;
}

export function isProviderName(text: string): text is ProviderName {
	return (providerNames as readonly string[]).includes(text);
}

/** What of a provider's events has an effect only if the operator says so. */
export const optionalEvents = ['opened', 'clicked', 'unsubscribed'] as const;
export type OptionalEvent = (typeof optionalEvents)[number];

/**
 * How a post of a provider ended. `unknown`: no smarthost has the URL. `unreadable`: it is proven, and has no events in
 * its form. `limited`: too many events of its owner wait already.
 */
export type ProviderPostEnd = 'taken' | 'unknown' | 'forged' | 'unreadable' | 'limited';

/** A smarthost, as far as limits need it. */
export type EventOwner = {readonly id: string; readonly workspace_id: string | null};

/** Whose limits the events of a smarthost count for: its workspace, or itself where it is of all workspaces. */
export const ownerOf = ({id, workspace_id: workspaceId}: EventOwner): string => workspaceId ?? id;
