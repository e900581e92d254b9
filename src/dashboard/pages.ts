import {accountPages} from './account.ts';
import {alertPages} from './alerts.ts';
import {auditPages} from './audit.ts';
import {contactPages} from './contacts.ts';
import {deliverabilityPages} from './deliverability.ts';
import {domainPages} from './domains/domain.ts';
import {domainListPages} from './domains/list.ts';
import {senderPages} from './domains/senders.ts';
import {createMadeChecks, healthPages} from './health.ts';
import {keyPages} from './keys.ts';
import {livePages} from './live.ts';
import {logInPages, singleSignOnPages} from './log-in.ts';
import {messagePages} from './messages/list.ts';
import {oneMessagePages} from './messages/message.ts';
import {overviewPages} from './overview.ts';
import type {DashboardParts} from './parts.ts';
import {queuePages} from './queue.ts';
import {receivedPages} from './received.ts';
import {returnedMailPages} from './returned.ts';
import {go, type OpenRoute, type Route} from './route.ts';
import {smarthostPages} from './smarthosts.ts';
import {suppressionPages} from './suppressions.ts';
import {comparePages} from './templates/compare.ts';
import {editorPages} from './templates/editor.ts';
import {layoutPages} from './templates/layouts.ts';
import {templateListPages} from './templates/list.ts';
import {templatePages} from './templates/template.ts';
import {topicPages} from './topics.ts';
import {userPages} from './users.ts';
import {deliveryPages} from './webhooks/deliveries.ts';
import {endpointPages} from './webhooks/endpoint.ts';
import {endpointListPages} from './webhooks/list.ts';
import {workspacePages} from './workspaces.ts';

/** Every page that wants a log-in: each group of them adds its rows here. */
export function pages(parts: DashboardParts): readonly Route[] {
	const checks = createMadeChecks(parts);
	return [
		{method: 'GET', path: '/', role: 'viewer', answer: async () => go('/messages')},
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
		...accountPages(parts),
		...userPages(parts),
		...oneMessagePages(parts),
		...keyPages(parts),
		...smarthostPages(parts),
		...alertPages(parts),
		...workspacePages(parts),
		...auditPages(parts),
		...endpointListPages(parts),
		...endpointPages(parts),
		...deliveryPages(parts),
		...returnedMailPages(parts),
		...receivedPages(parts),
		...healthPages(parts, checks),
	];
}

/** Pages for those who are not logged in. */
export const openPages = (parts: DashboardParts): readonly OpenRoute[] => [
	...logInPages(parts),
	...singleSignOnPages(parts),
];
