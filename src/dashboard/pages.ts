import {deliverabilityPages} from './deliverability/deliverability.ts';
import {domainPages} from './domains/pages.ts';
import {createMadeChecks} from './health/made-checks.ts';
import {healthPages} from './health/pages.ts';
import {auditPages} from './installation/audit.ts';
import {keyPages} from './installation/keys.ts';
import {workspacePages} from './installation/workspaces.ts';
import {livePages} from './live.ts';
import {messagePages} from './messages/list.ts';
import {oneMessagePages} from './messages/pages.ts';
import {overviewPages} from './overview/overview.ts';
import type {DashboardParts} from './parts.ts';
import {accountPages} from './people/account.ts';
import {logInPages} from './people/log-in.ts';
import {singleSignOnPages} from './people/single-sign-on.ts';
import {userPages} from './people/users.ts';
import {queuePages} from './queue/list.ts';
import {contactPages} from './recipients/contacts.ts';
import {suppressionPages} from './recipients/suppressions.ts';
import {topicPages} from './recipients/topics.ts';
import {returnedMailPages} from './returned/pages.ts';
import {go, type OpenRoute, type Route} from './route.ts';
import {templatePages} from './templates/pages.ts';
import {webhookPages} from './webhooks/pages.ts';

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
		...domainPages(parts),
		...suppressionPages(parts),
		...topicPages(parts),
		...contactPages(parts),
		...templatePages(parts),
		...accountPages(parts),
		...userPages(parts),
		...oneMessagePages(parts),
		...keyPages(parts),
		...workspacePages(parts),
		...auditPages(parts),
		...webhookPages(parts),
		...returnedMailPages(parts),
		...healthPages(parts, checks),
	];
}

/** Pages for those who are not logged in. */
export const openPages = (parts: DashboardParts): readonly OpenRoute[] => [
	...logInPages(parts),
	...singleSignOnPages(parts),
];
