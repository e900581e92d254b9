import type {DashboardParts} from '../parts.ts';
import type {Route} from '../route.ts';
import {deliveryPages} from './deliveries.ts';
import {createEndpointPage} from './endpoint.ts';
import {endpointListPages} from './list.ts';
import {secretPages} from './secret.ts';

/** Endpoints of webhooks, what was posted to them, and their secrets. */
export function webhookPages(parts: DashboardParts): readonly Route[] {
	const page = createEndpointPage(parts);
	return [...endpointListPages(parts), ...page.routes, ...secretPages(parts, page), ...deliveryPages(parts, page)];
}
