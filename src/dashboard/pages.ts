import {html} from '../hosted/html.ts';
import {useLink} from '../users/users.ts';
import {domainPages} from './domains/pages.ts';
import {messagePages} from './messages/list.ts';
import type {DashboardParts} from './parts.ts';
import {contactPages} from './recipients/contacts.ts';
import {suppressionPages} from './recipients/suppressions.ts';
import {topicPages} from './recipients/topics.ts';
import {go, type OpenRoute, type Route} from './route.ts';
import {templatePages} from './templates/pages.ts';

/** Every page that wants a log-in: each group of them adds its rows here. */
export function pages(parts: DashboardParts): readonly Route[] {
	return [
		{method: 'GET', path: '/', role: 'viewer', answer: async () => go('/messages')},
		{
			method: 'POST',
			path: '/workspaces/use',
			role: 'viewer',
			async answer({form, signedIn, workspaces}) {
				const chosen = workspaces.find(({id}) => id === form.get('workspace'));
				if (chosen) {
					await parts.sessions.choose(signedIn.sessionId, chosen.id);
				}
				return go('/messages');
			},
		},
		...messagePages(parts),
		...domainPages(parts),
		...suppressionPages(parts),
		...topicPages(parts),
		...contactPages(parts),
		...templatePages(parts),
	];
}

/** Pages for those who are not logged in. */
export function openPages({change, sessions, tools}: DashboardParts): readonly OpenRoute[] {
	return [
		{
			method: 'GET',
			path: '/login',
			answer: async () => ({
				kind: 'page',
				place: null,
				title: 'Log in',
				content: html`<p>Ask an admin for a link: <code>mailctl user link EMAIL</code> prints one.</p>`,
			}),
		},
		{
			method: 'GET',
			path: '/login/:token',
			async answer({params: {token = ''}, request}) {
				const user = await change(trx => useLink(trx, tools, token));
				if (!user) {
					const content = html`<p>This link was used before, or has ended. <code>mailctl user link EMAIL</code> prints another.</p>`;
					return {kind: 'page', status: 403, place: null, title: 'This link no longer works', content};
				}
				const client = {address: request.ip, agent: request.headers['user-agent'] ?? '', by: 'link'} as const;
				const content = html`<p>You are logged in as ${user.email}.</p><p><a class="button main" href="/">Go to the messages</a></p>`;
				return {kind: 'page', place: null, title: 'Welcome', content, session: await sessions.start(user, client)};
			},
		},
	];
}
