import {addEndpoint, signingSecret} from '../../admin/webhooks.ts';
import {type Html, html} from '../../hosted/html.ts';
import {mostEndpoints} from '../../mail/webhook.ts';
import {type Endpoint, endpointState, findNewest, listEndpoints, type StoredDelivery} from '../../store/webhooks.ts';
import {live} from '../live.ts';
import {badge, join, name, opened, type Tone, table, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, type Route, type Visit} from '../route.ts';
import {deliveryBadge, lastAnswer} from './delivery-table.ts';
import {endpointForm, fieldsFault, typedFields} from './endpoint-form.ts';

type Row = Endpoint & {readonly newest: StoredDelivery | undefined; readonly isDamaged: boolean};

/** The endpoints of a workspace with how each is doing, and a form that adds one. */
export function endpointListPages({reader, change, vault, webhooks}: DashboardParts): readonly Route[] {
	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {form, workspace, may, now} = visit;
		const endpoints = await listEndpoints(reader, workspace.id, {after: null, limit: mostEndpoints});
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
			...(problem !== null && {status: 422}),
			place: 'webhooks',
			title: 'Webhooks',
			problem,
			...(may('admin') &&
				!asksForOne && {actions: opened('Add an endpoint', html`<div class="stack">${addForm}</div>`)}),
			content: join([
				...(asksForOne ? [html`<div class="card stack">${rows.length === 0 ? welcome : null}${addForm}</div>`] : []),
				...(asksForOne && rows.length === 0 ? [] : [live('endpoints', '/webhooks', endpointTable(rows, now))]),
			]),
		};
	}

	async function add(visit: Visit): Promise<Answer> {
		const {form, workspace, tools} = visit;
		const fields = typedFields(form);
		const fault = fieldsFault(fields, webhooks.guard);
		if (fault !== null) {
			return await list(visit, fault);
		}
		const input = {workspaceId: workspace.id, mode: 'live' as const, ...fields};
		const added = await change(trx => addEndpoint(trx, tools, vault, input));
		return added
			? go(`/webhooks/${added.id}`, 'The endpoint is added. Give its signing secret to your program, then send a test.')
			: await list(visit, `A workspace has at most ${mostEndpoints} endpoints. Remove one first.`);
	}

	return [
		{method: 'GET', path: '/webhooks', role: 'viewer', answer: visit => list(visit)},
		{method: 'POST', path: '/webhooks', role: 'admin', fresh: true, answer: add},
	];
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
