import {isIP} from 'node:net';
import {isLoopbackAddress} from '../net/ip-address.ts';

/** A reserved domain (RFC 2606 §2): it takes the place of what only the smarthost's provider knows. */
export const unknownInclude = 'ask-your-provider.invalid';

type Provider = {
	readonly name: string;
	readonly hosts: RegExp;
	readonly include: string;
	/** It writes a return path of its own into the mail, so that receivers check SPF there. */
	readonly ownReturnPath: boolean;
};

// As their pages on SPF say.
const providers: readonly Provider[] = [
	{name: 'Amazon SES', hosts: /^email-smtp[\w.-]*\.amazonaws\.com$/, include: 'amazonses.com', ownReturnPath: true},
	{name: 'Mailgun', hosts: /(?:^|\.)mailgun\.(?:org|net)$/, include: 'mailgun.org', ownReturnPath: true},
	{name: 'Postmark', hosts: /(?:^|\.)postmarkapp\.com$/, include: 'spf.mtasv.net', ownReturnPath: true},
	{name: 'SendGrid', hosts: /(?:^|\.)sendgrid\.net$/, include: 'sendgrid.net', ownReturnPath: true},
	{name: 'Brevo', hosts: /(?:^|\.)(?:brevo|sendinblue)\.com$/, include: 'spf.brevo.com', ownReturnPath: true},
	{name: 'Mailjet', hosts: /(?:^|\.)mailjet\.com$/, include: 'spf.mailjet.com', ownReturnPath: true},
	{
		name: 'Google',
		hosts: /(?:^|\.)(?:gmail|google|googlemail)\.com$/,
		include: '_spf.google.com',
		ownReturnPath: false,
	},
	{
		name: 'Microsoft 365',
		hosts: /(?:^|\.)(?:office365|(?:protection\.)?outlook)\.com$/,
		include: 'spf.protection.outlook.com',
		ownReturnPath: false,
	},
];

/**
 * The SPF record for mail that leaves by smarthosts, by name or address, with what a person should know of it; null: nothing.
 * A smarthost that is not known gets a placeholder, one on this machine the machine's name. Nothing is forbidden: from where they
 * send only their operators know.
 */
export function smarthostSpf(
	hosts: readonly string[],
	machine: string,
): {readonly value: string; readonly note: string | null} {
	const terms = new Set<string>();
	const notes = new Set<string>();
	for (const host of hosts) {
		const provider = providers.find(({hosts}) => hosts.test(host.toLowerCase()));
		if (isThisMachine(host)) {
			terms.add(`a:${machine}`);
		} else if (isIP(host) !== 0) {
			terms.add(`${isIP(host) === 6 ? 'ip6' : 'ip4'}:${host}`);
		} else if (provider === undefined) {
			terms.add(`include:${unknownInclude}`);
			notes.add(`ask the provider of ${host} what belongs in the place of include:${unknownInclude}`);
		} else {
			terms.add(`include:${provider.include}`);
			if (provider.ownReturnPath) {
				notes.add(`${provider.name} uses its own return path, set up one below your domain there for SPF to align`);
			}
		}
	}
	return {value: `v=spf1 ${[...terms].join(' ')} ~all`, note: [...notes].join('; ') || null};
}

/** As of a Postfix beside us. */
export function isThisMachine(host: string): boolean {
	return host === 'localhost' || isLoopbackAddress(host);
}
