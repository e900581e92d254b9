import type {Knex} from 'knex';
import {live} from '../../dashboard/live.ts';
import {act, badge, disclosure, join, name, type Tone, table, time} from '../../dashboard/markup.ts';
import {fieldInputs, operationForms, readFields} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {isId} from '../../mail/ids.ts';
import {maxEndpoints} from '../../mail/webhook.ts';
import {listFields} from '../fields.ts';
import type {InputOf} from '../operation.ts';
import type {AddressGuard} from './address-guard.ts';
import {deliveryBadge, lastAnswer} from './deliveries-page.ts';
import {addEndpoint, checkUrl, endpointNotFound, signingSecret} from './rules.ts';
import {type Endpoint, endpointState, findEndpoint, findNewest, listEndpoints, type StoredDelivery} from './store.ts';

type Row = Endpoint & {readonly newest: StoredDelivery | undefined; readonly isDamaged: boolean};

/** The endpoints of a workspace with their states, and a form that adds one. */
export function endpointListPages(parts: DashboardParts): readonly Route[] {
	const {reader, vault} = parts;

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
		const showsForm = may('admin') && (rows.length === 0 || problem !== null);
		const addForm = endpointForm('/webhooks', 'Add the endpoint', form);
		return {
			kind: 'page',
			place: 'webhooks',
			title: 'Webhooks',
			problem,
			...(may('admin') &&
				!showsForm && {actions: disclosure('Add an endpoint', html`<div class="stack">${addForm}</div>`)}),
			content: join([
				...(showsForm
					? [html`<div class="card stack">${rows.length === 0 ? welcome : null}${addForm}</div>`]
					: []),
				...(showsForm && rows.length === 0 ? [] : [live('endpoints', '/webhooks', endpointTable(rows, now))]),
			]),
		};
	}

	const form = operationForms(parts, {path: '/webhooks', show: list});
	const notice = 'Endpoint added. Configure its signing secret in your program, then send a test.';
	return [
		page('/webhooks', list),
		form(addEndpoint, '/webhooks', ({id}) => go(`/webhooks/${id}`, notice), {
			read: visit => readEndpoint(visit, parts.webhooks.guard),
		}),
	];
}

/** Reads the endpoint that the path names. */
export async function chosenEndpoint(reader: Knex, {workspace, params: {id = ''}}: Visit): Promise<Endpoint> {
	const endpoint = isId('whe', id) ? await findEndpoint(reader, workspace.id, id) : undefined;
	return endpoint ?? endpointNotFound(id);
}

const welcome = html`<p>No endpoints yet. An endpoint is a URL of your program. The events of your messages are posted to it.</p>`;

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
		empty: html`<p>No endpoints yet.</p><p>An admin can add the URL that events are posted to.</p>`,
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

type EndpointInput = InputOf<typeof addEndpoint.input>;

const fields = listFields(addEndpoint.input);

/** The form for an endpoint: its URL, its events and their format. */
export function endpointForm(to: string, label: string, typed: URLSearchParams, values: object = {}): Html {
	return act({to, label, fields: fieldInputs(fields, {values, typed})});
}

/** Reads the form. Throws `Refused` if it is not valid. */
export function readEndpoint({form}: Visit, guard: AddressGuard): EndpointInput {
	const input = readFields<EndpointInput>(fields, form);
	checkUrl(guard, input.url);
	return input;
}
