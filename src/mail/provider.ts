/** The services that relay messages and post events about them. `generic`: any sender of mailctl's own format. */
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

/** The mail servers and API hosts of the providers that have their own. */
export const providerHosts: ReadonlyMap<ProviderName, RegExp> = new Map([
	['ses', /^email(?:-smtp[\w-]*)?(?:\.[\w-]+)*\.amazonaws\.com$/],
	['sendgrid', /(?:^|\.)sendgrid\.net$/],
	['mailgun', /(?:^|\.)mailgun\.(?:org|net)$/],
	['postmark', /(?:^|\.)postmarkapp\.com$/],
	['brevo', /(?:^|\.)(?:brevo|sendinblue)\.com$/],
	['mailjet', /(?:^|\.)mailjet\.com$/],
	['sparkpost', /(?:^|\.)sparkpost(?:mail)?\.com$/],
]);

/** Returns the providers that may report on messages that this host accepted. An unknown relay may use any of them. */
export function reportingProviders(host: string): readonly ProviderName[] {
	const matching = providerNames.filter(name => providerHosts.get(name)?.test(host.toLowerCase()));
	return matching.length > 0 ? matching : providerNames;
}

export function isProviderName(text: string): text is ProviderName {
	return (providerNames as readonly string[]).includes(text);
}

/** A provider's events that take effect only if the operator enables them. */
export const optionalEvents = ['opened', 'clicked', 'unsubscribed'] as const;
export type OptionalEvent = (typeof optionalEvents)[number];

/**
 * The result of a post from a provider. `unknown`: no relay has the URL. `unreadable`: it is authentic but contains no
 * valid events. `limited`: too many events of its owner are waiting already.
 */
export type ProviderPostEnd = 'taken' | 'unknown' | 'forged' | 'unreadable' | 'limited';

/** The properties of a relay that are needed to apply limits. */
export type EventOwner = {readonly id: string; readonly workspace_id: string | null};

/** Returns whose limits a relay's events count against: its workspace, or itself if all workspaces share it. */
export const ownerOf = ({id, workspace_id: workspaceId}: EventOwner): string => workspaceId ?? id;
