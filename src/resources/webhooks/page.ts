import type {Knex} from 'knex';
import {live} from '../../dashboard/live.ts';
import {act, badge, checkbox, input, join, name, opened, type Tone, table, time} from '../../dashboard/markup.ts';
import {pageForms, wrong} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {isId} from '../../mail/ids.ts';
import {type WebhookEventType, webhookEventTypes} from '../../mail/message.ts';
import {maxEndpoints} from '../../mail/webhook.ts';
import {notFound} from '../operation.ts';
import type {AddressGuard} from './address-guard.ts';
import {deliveryBadge, lastAnswer} from './deliveries-page.ts';
import {addEndpoint, signingSecret} from './rules.ts';
import {type Endpoint, endpointState, findEndpoint, findNewest, listEndpoints, type StoredDelivery} from './store.ts';

type Row = Endpoint & {readonly newest: StoredDelivery | undefined; readonly isDamaged: boolean};

/** The endpoints of a workspace with how each is doing, and a form that adds one. */
export function endpointListPages({reader, change, vault, webhooks}: DashboardParts): readonly Route[] {
	async function list({form, workspace, may, now}: Visit, problem: string | null = null): Promise<Answer> {
		const endpoints = await listEndpoints(reader, workspace.id, {after: null, limit: maxEndpoints});
		const newest = await findNewest(
			reader,
			endpoints.map(({id}) => id),
		);
		const rows = endpoints.map(
			(endpoint): Row => ({
				...endpoint,
				newest: newest.get(endpoint.id),
				isDamaged: signingSecret(vault, endpoint) === null,
			}),
		);
		const asksForOne = may('admin') && (rows.length === 0 || problem !== null);
		const addForm = endpointForm('/webhooks', 'Add the endpoint', typedFields(form));
		return {
			kind: 'page',
			place: 'webhooks',
			title: 'Webhooks',
			problem,
			...(may('admin') &&
				!asksForOne && {actions: opened('Add an endpoint', html`<div class="stack">${addForm}</div>`)}),
			content: join([
				...(asksForOne
					? [html`<div class="card stack">${rows.length === 0 ? welcome : null}${addForm}</div>`]
					: []),
				...(asksForOne && rows.length === 0 ? [] : [live('endpoints', '/webhooks', endpointTable(rows, now))]),
			]),
		};
	}

	async function add({form, workspace, tools}: Visit): Promise<Answer> {
		const fields = checkedFields(form, webhooks.guard);
		const input = {workspaceId: workspace.id, mode: 'live' as const, ...fields};
		const added = await change(trx => addEndpoint(trx, tools, vault, input));
		return added
			? go(
					`/webhooks/${added.id}`,
					'The endpoint is added. Give its signing secret to your program, then send a test.',
				)
			: wrong(`A workspace has at most ${maxEndpoints} endpoints. Remove one first.`);
	}

	return [page('/webhooks', list), pageForms(list)('/webhooks', 'admin', add, {fresh: true})];
}

/** The one that a path names. */
export async function chosenEndpoint(reader: Knex, {workspace, params: {id = ''}}: Visit): Promise<Endpoint> {
	const endpoint = isId('whe', id) ? await findEndpoint(reader, workspace.id, id) : undefined;
	return endpoint ?? notFound('webhook', id, {page: 'This workspace has no such endpoint.'});
}

const welcome = html`<p>No endpoints yet. An endpoint is a URL of your program: what happens to your mail is posted to it.</p>`;

function endpointTable(rows: readonly Row[], now: number): Html {
	return table<Row>({
		label: 'Endpoints',
		link: ({id}) => `/webhooks/${id}`,
		columns: [
			{title: 'URL', cell: ({url}) => name(url), cut: true},
			{title: 'State', cell: row => endpointBadge(row, row.isDamaged)},
			{title: 'Failing since', cell: row => time(row.failingSince, now), wide: true},
			{
				title: 'Newest delivery',
				cell: ({newest}) =>
					newest === undefined
						? html`<span class="soft">none yet</span>`
						: html`${deliveryBadge(newest.state)} <span class="wide">${lastAnswer(newest)}</span>`,
				cut: true,
			},
			{title: 'Events', cell: ({events}) => events.join(', '), wide: true},
			{title: 'Added', cell: row => time(row.createdAt, now), right: true, wide: true},
		],
		rows,
		empty: html`<p>No endpoints yet.</p><p>An admin adds the URL that events are posted to.</p>`,
	});
}

const tones: Readonly<Record<ReturnType<typeof endpointState>, Tone>> = {
	active: 'good',
	failing: 'bad',
	disabled: 'idle',
};

export function endpointBadge(endpoint: Endpoint, isDamaged: boolean): Html {
	const state = endpointState(endpoint);
	return html`${isDamaged ? badge('secret damaged', 'bad') : badge(state, tones[state])}${endpoint.mode === 'test' ? html` ${badge('test', 'idle')}` : null}`;
}

type EndpointFields = Pick<Endpoint, 'url' | 'events' | 'format' | 'retry'>;

const aboutEvents: Readonly<Record<WebhookEventType, string>> = {
	delivered: 'the recipient’s server took the message',
	bounced: 'it did not arrive and will not',
	complained: 'the recipient said that it is spam',
	opened: 'the recipient looked at it',
	clicked: 'the recipient followed a link',
	deferred: 'the first try failed, and it is tried again',
	gave_up: 'it was tried as long as it may be',
	recipient_suppressed: 'an address is not mailed any more',
	recipient_unsubscribed: 'the recipient left a topic, or all mail',
	domain_changed: 'a domain is verified, or lacks its records',
	endpoint_disabled: 'another endpoint was disabled',
	received: 'a mail came in, maybe an answer',
};

/** Asks for an endpoint's URL, its events and their form. */
export function endpointForm(to: string, label: string, {url, events, format, retry}: EndpointFields): Html {
	const checks = webhookEventTypes.map(type =>
		checkbox('event', type, `${type}: ${aboutEvents[type]}`, events.includes(type)),
	);
	const fields = join([
		input({name: 'url', label: 'URL', required: true, value: url, placeholder: 'https://shop.example/hooks/mail'}),
		html`<fieldset><legend>Events</legend>${checks}</fieldset>`,
		checkbox(
			'format',
			'full',
			'Bodies with subject, tags, the reason of a bounce, the link of a click',
			format === 'full',
		),
		checkbox(
			'retry',
			'long',
			'What fails is tried for three days, then the endpoint is disabled',
			retry === 'long',
		),
	]);
	return act({to, label, fields});
}

/** What was typed into the form. */
export function typedFields(form: URLSearchParams) {
	const chosen = new Set(form.getAll('event'));
	return {
		url: form.get('url')?.trim() ?? '',
		events: webhookEventTypes.filter(type => chosen.has(type)),
		...({format: form.has('format') ? 'full' : 'default', retry: form.has('retry') ? 'long' : 'default'} as const),
	};
}

/** The same, to be stored. */
export function checkedFields(form: URLSearchParams, guard: AddressGuard): ReturnType<typeof typedFields> {
	const fields = typedFields(form);
	const fault = guard.urlProblem(fields.url);
	if (fault !== null) {
		wrong(`The URL ${fault}.`);
	}
	return fields.events.length === 0 ? wrong('Choose at least one event.') : fields;
}
