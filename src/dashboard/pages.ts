import {alertPages} from '../resources/alerts/page.ts';
import {auditPages} from '../resources/audit/page.ts';
import {contactPages} from '../resources/contacts/page.ts';
import {domainPages} from '../resources/domains/domain-page.ts';
import {domainListPages} from '../resources/domains/page.ts';
import {senderPages} from '../resources/domains/senders-page.ts';
import {keyPages} from '../resources/keys/page.ts';
import {deliverabilityPages} from '../resources/messages/deliverability-page.ts';
import {oneMessagePages} from '../resources/messages/message-page.ts';
import {messagePages} from '../resources/messages/page.ts';
import {queuePages} from '../resources/messages/queue-page.ts';
import {receivedPages} from '../resources/received/page.ts';
import {returnedMailPages} from '../resources/received/returned-page.ts';
import {smarthostPages} from '../resources/smarthosts/page.ts';
import {suppressionPages} from '../resources/suppressions/page.ts';
import {comparePages} from '../resources/templates/compare-page.ts';
import {editorPages} from '../resources/templates/editor-page.ts';
import {layoutPages} from '../resources/templates/layouts-page.ts';
import {templateListPages} from '../resources/templates/page.ts';
import {templatePages} from '../resources/templates/template-page.ts';
import {topicPages} from '../resources/topics/page.ts';
import {accountPages} from '../resources/users/account-page.ts';
import {userPages} from '../resources/users/page.ts';
import {deliveryPages} from '../resources/webhooks/deliveries-page.ts';
import {endpointPages} from '../resources/webhooks/endpoint-page.ts';
import {endpointListPages} from '../resources/webhooks/page.ts';
import {workspacePages} from '../resources/workspaces/page.ts';
import {type CheckRunner, healthPages} from './health.ts';
import {livePages} from './live.ts';
import {logInPages, singleSignOnPages} from './log-in.ts';
import {overviewPages} from './overview.ts';
import type {DashboardParts} from './parts.ts';
import {go, type OpenRoute, type Route, withoutWorkspace} from './route.ts';

/** Returns the routes of all pages that require a login. Each group of pages adds its routes here. */
export function pages(parts: DashboardParts, checks: CheckRunner): readonly Route[] {
	return [
		...livePages(parts),
		...messagePages(parts),
		...overviewPages(parts, checks),
		...queuePages(parts),
		...deliverabilityPages(parts),
		...domainListPages(parts),
		...domainPages(parts),
		...senderPages(parts),
		...suppressionPages(parts),
		...topicPages(parts),
		...contactPages(parts),
		...templateListPages(parts),
		...templatePages(parts),
		...comparePages(parts),
		...editorPages(parts),
		...layoutPages(parts),
		...oneMessagePages(parts),
		...keyPages(parts),
		...smarthostPages(parts),
		...alertPages(parts, checks),
		...endpointListPages(parts),
		...endpointPages(parts),
		...deliveryPages(parts),
		...receivedPages(parts),
		...withoutWorkspace([
			{method: 'GET', path: '/', role: 'viewer', answer: async () => go('/messages')},
			...accountPages(parts),
			...userPages(parts),
			...workspacePages(parts),
			...auditPages(parts),
			...returnedMailPages(parts),
			...healthPages(parts, checks),
		]),
	];
}

/** Returns the routes of pages that require no login. */
export const openPages = (parts: DashboardParts): readonly OpenRoute[] => [
	...logInPages(parts),
	...singleSignOnPages(parts),
];
