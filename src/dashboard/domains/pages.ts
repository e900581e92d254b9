import type {DashboardParts} from '../parts.ts';
import type {Route} from '../route.ts';
import {createDomainPage} from './domain.ts';
import {keyPages} from './keys.ts';
import {domainListPages} from './list.ts';
import {senderPages} from './senders.ts';

/** Domains, their records, senders and keys. */
export function domainPages(parts: DashboardParts): readonly Route[] {
	const page = createDomainPage(parts);
	return [...domainListPages(parts), ...page.routes, ...senderPages(parts, page), ...keyPages(parts, page)];
}
