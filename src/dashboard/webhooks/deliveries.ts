import type {Knex} from 'knex';
import {replay, replaySince} from '../../admin/webhooks.ts';
import {type Html, html, plainName} from '../../hosted/html.ts';
import {hourMs} from '../../kit/time.ts';
import {isId} from '../../mail/ids.ts';
import {webhookEventTypes} from '../../mail/message.ts';
import {type DeliveryState, deliveryStates} from '../../mail/webhook.ts';
import {
	type Endpoint,
	findDelivery,
	listPosts,
	type StoredDelivery,
	type StoredPost,
	scanDeliveries,
} from '../../store/webhooks.ts';
import {pager} from '../lists.ts';
import {live} from '../live.ts';
import {
	act,
	type Choice,
	chips,
	code,
	count,
	facts,
	hrefOf,
	join,
	nothing,
	opened,
	section,
	select,
	table,
	time,
} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, missing, type Route, type Visit} from '../route.ts';
import {answerText, deliveryBadge, deliveryTable, recipientOf} from './delivery-table.ts';
import type {EndpointPage} from './endpoint.ts';

const perPage = 50;

const times: readonly Choice[] = [
	{value: '1', label: 'Last hour'},
	{value: '4', label: '4 hours'},
	{value: '24', label: '24 hours'},
	{value: '168', label: '7 days'},
	{value: '720', label: '30 days'},
];
const statesAndAll: readonly Choice[] = [
	{value: '', label: 'All'},
	...deliveryStates.map(state => ({value: state, label: state})),
];

/** What was posted to an endpoint, which follows what happens, and the replay of many. */
export async function deliveriesSection(reader: Knex, {query, may, now}: Visit, {id, events}: Endpoint): Promise<Html> {
	const to = `/webhooks/${id}`;
	const after = query.get('after');
	const page = {after, limit: perPage, state: stateOf(query.get('state')), since: sinceOf(query.get('hours'), now)};
	const {rows, next} = await scanDeliveries(reader, id, page);
	const isFiltered = page.state !== undefined || page.since !== undefined;
	const empty = isFiltered
		? html`<p>No delivery matches.</p><p><a href="${to}">Show all deliveries</a></p>`
		: html`<p>Nothing was posted to this endpoint yet.</p><p>Send a test, or a message whose events it gets.</p>`;
	const list = html`${table({...deliveryTable(to, now), rows, empty})}${pager(to, query, next)}`;
	return section(
		'Deliveries',
		html`${chips('State', query, 'state', statesAndAll, to)}${chips(
			'Time',
			query,
			'hours',
			[{value: '', label: 'Any time'}, ...times],
			to,
		)}${live('deliveries', after === null ? hrefOf(to, query) : null, list)}`,
		may('operator') ? html`<div class="actions">${opened('Replay many', replayForm(to, events))}</div>` : nothing,
	);
}

const stateOf = (text: string | null): DeliveryState | undefined => deliveryStates.find(state => state === text);

/** Milliseconds; undefined: any time. */
function sinceOf(hours: string | null, now: number): number | undefined {
	return Number(hours) > 0 ? Math.max(0, now - Number(hours) * hourMs) : undefined;
}

function replayForm(to: string, events: Endpoint['events']): Html {
	const fields = join([
		select({name: 'hours', label: 'Events of', value: '24'}, times),
		select({name: 'state', label: 'Deliveries that are', value: 'exhausted'}, statesAndAll),
		select({name: 'event', label: 'Event', value: ''}, [
			{value: '', label: 'All'},
			...events.map(event => ({value: event, label: event})),
		]),
	]);
	return html`<div class="stack"><p>They are posted again, each up to five times. They keep their ids, so your program can tell which it has seen.</p>${act(
		{
			to: `${to}/replay`,
			label: 'Replay',
			fields,
		},
	)}`;
}

export function deliveryPages(
	{reader, change, webhooks}: DashboardParts,
	{show, about}: EndpointPage,
): readonly Route[] {
	const aboutDelivery = (work: (visit: Visit, delivery: StoredDelivery) => Promise<Answer>) =>
		about(async (visit, endpoint) => {
			const {delivery: id = ''} = visit.params;
			const found = isId('whd', id) ? await findDelivery(reader, endpoint.workspaceId, id) : undefined;
			return found?.endpointId === endpoint.id
				? await work(visit, found)
				: missing('This endpoint has no such delivery.');
		});

	async function look({may, now}: Visit, delivery: StoredDelivery): Promise<Answer> {
		const {id, endpointId, messageId, eventType, state, nextAttemptAt, createdAt} = delivery;
		const to = `/webhooks/${endpointId}`;
		return {
			kind: 'page',
			place: 'webhooks',
			title: `${eventType}: ${plainName(recipientOf(delivery))}`,
			...(may('operator') && {actions: act({to: `${to}/deliveries/${id}/replay`, label: 'Replay'})}),
			content: html`${live(
				'delivery',
				`${to}/deliveries/${id}`,
				html`${facts([
					['State', deliveryBadge(state)],
					['Next attempt', nextAttemptAt && time(nextAttemptAt, now)],
					['Message', messageId && html`<a href="/messages/${messageId}">${code(messageId)}</a>`],
					['Endpoint', html`<a href="${to}">${code(endpointId)}</a>`],
					['Id', code(id)],
					['Created', time(createdAt, now)],
				])}${section('Attempts', attempts(await listPosts(reader, id), now))}`,
			)}${section('Body', html`<pre tabindex="0">${bodyText(delivery)}</pre>`)}`,
		};
	}

	async function replayOne({workspace, tools}: Visit, {id, endpointId}: StoredDelivery): Promise<Answer> {
		const replayed = await change(trx => replay(trx, tools, workspace.id, id));
		if (!replayed) {
			return missing('This endpoint has no such delivery.');
		}
		webhooks.onDue([endpointId]);
		return go(`/webhooks/${endpointId}/deliveries/${id}`, 'It is posted again now.');
	}

	async function replayMany(visit: Visit, endpoint: Endpoint): Promise<Answer> {
		const {form, now, tools} = visit;
		const since = sinceOf(form.get('hours'), now);
		if (since === undefined) {
			return await show(visit, endpoint, {problem: 'Choose since when deliveries are replayed.'});
		}
		const {id, workspaceId} = endpoint;
		const eventType = webhookEventTypes.find(type => type === form.get('event'));
		const filter = {workspaceId, since, eventType, state: stateOf(form.get('state'))};
		const replayed = await replaySince(change, tools, {...filter, endpointIds: [id], target: id});
		webhooks.onDue([id]);
		return go(`/webhooks/${id}`, `Deliveries that are posted again now: ${count(replayed)}.`);
	}

	return [
		{method: 'POST', path: '/webhooks/:id/replay', role: 'operator', answer: about(replayMany)},
		{method: 'GET', path: '/webhooks/:id/deliveries/:delivery', role: 'viewer', answer: aboutDelivery(look)},
		{
			method: 'POST',
			path: '/webhooks/:id/deliveries/:delivery/replay',
			role: 'operator',
			answer: aboutDelivery(replayOne),
		},
	];
}

function attempts(posts: readonly StoredPost[], now: number): Html {
	return table<StoredPost>({
		label: 'Attempts',
		columns: [
			{title: 'When', cell: ({at}) => time(at, now)},
			{title: 'Answer', cell: ({status, error}) => answerText(status, error)},
			{title: 'Response', cell: ({answer}) => answer && html`<div class="told">${plainName(answer)}</div>`},
			{title: 'Took', cell: ({ms}) => `${count(ms)} ms`, right: true},
		],
		rows: posts.toReversed(),
		empty: html`<p>It was not posted yet.</p>`,
	});
}

/** The JSON in lines; the request has it in one. */
function bodyText({body}: StoredDelivery): string {
	const lines = JSON.stringify(JSON.parse(Buffer.from(body).toString()), null, 2).split('\n');
	return lines.map(plainName).join('\n');
}
