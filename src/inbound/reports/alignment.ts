import {registeredDomain} from '../../mail/registered-domain.ts';

/**
 * How a domain that passed SPF or DKIM relates to the author's domain (RFC 7489 §3.1), both as A-labels in lower case.
 */
export type Alignment = 'strict' | 'relaxed' | 'none';

/** Returns `relaxed` if both share an organizational domain, whichever is the subdomain. */
export function alignmentOf(authenticated: string, author: string): Alignment {
	if (authenticated === author) {
		return 'strict';
	}
	const organization = registeredDomain(author);
	return organization !== null && organization === registeredDomain(authenticated) ? 'relaxed' : 'none';
}
