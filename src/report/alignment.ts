import {registeredDomain} from '../mail/registered-domain.ts';

/**
 * How a domain that SPF or DKIM proved stands to that of the author (RFC 7489 §3.1), both as A-labels in lower case.
 */
export type Alignment = 'strict' | 'relaxed' | 'none';

/** `relaxed`: they are of one organizational domain, whichever lies below the other. */
export function alignmentOf(proved: string, author: string): Alignment {
	if (proved === author) {
		return 'strict';
	}
	const organization = registeredDomain(author);
	return organization !== null && organization === registeredDomain(proved) ? 'relaxed' : 'none';
}
