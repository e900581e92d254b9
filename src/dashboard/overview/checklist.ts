import type {Knex} from 'knex';
import {sampleTemplate} from '../../admin/sample.ts';
import {sampleDomain} from '../../domains/domains.ts';
import {type Html, html} from '../../hosted/html.ts';
import {listApiKeys} from '../../store/api-keys.ts';
import type {Domain} from '../../store/domains.ts';
import {pageTemplates} from '../../store/templates.ts';
import type {Endpoint} from '../../store/webhooks.ts';
import {badge, nothing} from '../markup.ts';

type Step = {readonly isDone: boolean; readonly text: string; readonly to: string; readonly how: string};

type SetUp = {
	readonly workspaceId: string;
	readonly domains: readonly Domain[];
	readonly endpoints: readonly Endpoint[];
	/** Whether mail leaves the machine; null: nothing that this user could change. */
	readonly leaves: boolean | null;
};

/** What is still to do before an application's mail arrives; nothing once all is done. */
export async function checklist(reader: Knex, setUp: SetUp): Promise<Html> {
	const steps = await stepsOf(reader, setUp);
	const done = steps.filter(({isDone}) => isDone).length;
	if (done === steps.length) {
		return nothing;
	}
	const lines = steps.map(
		({isDone, text, to, how}) =>
			html`<li>${isDone ? badge('done', 'good') : badge('to do', 'idle')} <div><a href="${to}">${text}</a>${isDone ? null : html`<br><small>${how}</small>`}</div></li>`,
	);
	return html`<section class="card"><header class="part"><h2>Set up</h2><span class="soft">${done} of ${steps.length} done</span></header><ol class="steps">${lines}</ol></section>`;
}

async function stepsOf(reader: Knex, {workspaceId, domains, endpoints, leaves}: SetUp): Promise<Step[]> {
	const own = domains.filter(({name}) => name !== sampleDomain);
	// Few are enough to tell: the sample is the oldest.
	const templates = await pageTemplates(reader, workspaceId, {after: null, limit: 2});
	const keys = await listApiKeys(reader, workspaceId);
	return [
		{
			isDone: own.length > 0,
			text: 'Add your domain',
			to: '/domains',
			how: 'Mail is sent from addresses of a domain that is yours.',
		},
		{
			isDone: own.some(({state}) => state === 'verified' || state === 'degraded'),
			text: 'Publish its DNS records',
			to: own[0] === undefined ? '/domains' : `/domains/${own[0].id}`,
			how: 'They show receivers that the mail is yours. mailctl looks for them by itself.',
		},
		{
			isDone: templates.some(({name, latest_version: version}) => name !== sampleTemplate || (version ?? 0) > 1),
			text: 'Make a template of your own',
			to: '/templates',
			how: 'Or change the sample.',
		},
		{
			isDone: keys.some(({last_used_at: used}) => used !== null),
			text: 'Send with an API key',
			to: '/keys',
			how: 'The first start printed two keys; you can make others.',
		},
		...(leaves === null
			? []
			: [
					{
						isDone: leaves,
						text: 'Let mail leave this machine',
						to: '/health',
						how: 'Now it is captured. Set MAILCTL_DELIVERY to mx or relay and start again.',
					},
				]),
		{
			isDone: endpoints.length > 0,
			text: 'Add a webhook',
			to: '/webhooks',
			how: 'It tells your application of deliveries, bounces and complaints.',
		},
	];
}
