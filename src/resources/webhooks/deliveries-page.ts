import type {Knex} from 'knex';
import {pager, sinceOf, timeChips, timeChoices} from '../../dashboard/lists.ts';
import {live} from '../../dashboard/live.ts';
import {
	act,
	badge,
	type Choice,
	chips,
	code,
	count,
	disclosure,
	facts,
	join,
	name,
	nothing,
	section,
	select,
	type Table,
	type Tone,
	table,
	time,
	toHref,
} from '../../dashboard/markup.ts';
import {operationForms} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html, plainName} from '../../hosted/html.ts';
import {isId} from '../../mail/ids.ts';
import {type DeliveryState, deliveryStates} from '../../mail/webhook.ts';
import {listPosts, type StoredPost} from './queue-store.ts';
import {deliveryNotFound, replay} from './rules.ts';
import {type Endpoint, findDelivery, type StoredDelivery, scanDeliveries} from './store.ts';

const perPage = 50;

const times = timeChoices(1, 4, 24, 168, 720);
const statesAndAll: readonly Choice[] = [
	{value: '', label: 'All'},
	...deliveryStates.map(state => ({value: state, label: state})),
];

/** Renders the deliveries to an endpoint, which update live, and the form that replays many of them. */
export async function deliveriesSection(reader: Knex, {query, may, now}: Visit, {id, events}: Endpoint): Promise<Html> {
	const to = `/webhooks/${id}`;
	const after = query.get('after');
	const page = {after, limit: perPage, state: stateOf(query.get('state')), since: sinceOf(query.get('hours'), now)};
	const {rows, next} = await scanDeliveries(reader, id, page);
	const isFiltered = page.state !== undefined || page.since !== undefined;
	const empty = isFiltered
		? html`<p>No matching deliveries.</p><p><a href="${to}">Show all deliveries</a></p>`
		: html`<p>Nothing has been posted to this endpoint yet.</p><p>Send a test, or a message that causes one of its events.</p>`;
	const list = html`${table({...deliveryTable(to, now), rows, empty})}${pager(to, query, next)}`;
	return section(
		'Deliveries',
		html`${chips('State', query, 'state', statesAndAll, to)}${timeChips('Time', query, to, times)}${live('deliveries', after === null ? toHref(to, query) : null, list)}`,
		may('operator')
			? html`<div class="actions">${disclosure('Replay many', replayForm(to, events))}</div>`
			: nothing,
	);
}

/** Returns the state that a query or form names. */
export const stateOf = (text: string | null): DeliveryState | undefined => deliveryStates.find(state => state === text);

function replayForm(to: string, events: Endpoint['events']): Html {
	const fields = join([
		select({name: 'hours', label: 'Events of', value: '24'}, times),
		select({name: 'state', label: 'Delivery state', value: 'exhausted'}, statesAndAll),
		select({name: 'event', label: 'Event', value: ''}, [
			{value: '', label: 'All'},
			...events.map(event => ({value: event, label: event})),
		]),
	]);
	return html`<div class="stack"><p>Each delivery is posted again, with up to five attempts. Its id does not change, so your program can recognize events that it has already processed.</p>${act(
		{
			to: `${to}/replay`,
			label: 'Replay',
			fields,
		},
	)}`;
}

/** The page of one delivery. */
export function deliveryPages(parts: DashboardParts): readonly Route[] {
	const {reader} = parts;

	/** Reads the delivery that the path names below its endpoint. */
	async function find({workspace, params: {id: endpoint = '', delivery: id = ''}}: Visit): Promise<StoredDelivery> {
		const delivery = isId('whd', id) ? await findDelivery(reader, workspace.id, id) : undefined;
		return delivery?.endpointId === endpoint ? delivery : deliveryNotFound(id);
	}

	async function show(visit: Visit): Promise<Answer> {
		const {may, now} = visit;
		const delivery = await find(visit);
		const {id, endpointId, messageId, eventType, state, nextAttemptAt, createdAt} = delivery;
		const {subject, receivedId} = readSubject(delivery);
		const to = `/webhooks/${endpointId}`;
		return {
			kind: 'page',
			place: 'webhooks',
			title: `${eventType}: ${plainName(subject)}`,
			...(may('operator') && {actions: act({to: `${to}/deliveries/${id}/replay`, label: 'Replay'})}),
			content: html`${live(
				'delivery',
				`${to}/deliveries/${id}`,
				html`${facts([
					['State', deliveryBadge(state)],
					['Next attempt', nextAttemptAt && time(nextAttemptAt, now)],
					['Message', messageId && html`<a href="/messages/${messageId}">${code(messageId)}</a>`],
					['Received message', receivedId && html`<a href="/received/${receivedId}">${code(receivedId)}</a>`],
					['Endpoint', html`<a href="${to}">${code(endpointId)}</a>`],
					['Id', code(id)],
					['Created', time(createdAt, now)],
				])}${section('Attempts', attempts(await listPosts(reader, id), now))}`,
			)}${section('Body', html`<pre tabindex="0">${bodyText(delivery)}</pre>`)}`,
		};
	}

	function replayed({id, endpointId}: StoredDelivery): Answer {
		parts.webhooks.reportDue([endpointId]);
		return go(`/webhooks/${endpointId}/deliveries/${id}`, 'The delivery is being posted again.');
	}

	const path = '/webhooks/:id/deliveries/:delivery';
	const form = operationForms(parts, {path, show});
	return [
		page(path, show),
		form(replay, `${path}/replay`, replayed, {
			before: async visit => void (await find(visit)),
			read: ({params: {delivery = ''}}) => ({id: delivery}),
		}),
	];
}

function attempts(posts: readonly StoredPost[], now: number): Html {
	return table<StoredPost>({
		label: 'Attempts',
		columns: [
			{title: 'Time', cell: ({at}) => time(at, now)},
			{title: 'Result', cell: ({status, error}) => answerText(status, error)},
			{title: 'Response', cell: ({answer}) => answer && html`<div class="told">${plainName(answer)}</div>`},
			{title: 'Duration', cell: ({ms}) => `${count(ms)} ms`, right: true, wide: true},
		],
		rows: posts.toReversed(),
		empty: html`<p>No attempts yet.</p>`,
	});
}

/** Formats the JSON body with line breaks. The request has it in one line. */
function bodyText({body}: StoredDelivery): string {
	const lines = JSON.stringify(JSON.parse(Buffer.from(body).toString()), null, 2).split('\n');
	return lines.map(plainName).join('\n');
}

/** The columns of the list of deliveries. */
function deliveryTable(to: string, now: number): Omit<Table<StoredDelivery>, 'rows' | 'empty'> {
	return {
		label: 'Deliveries',
		link: ({id}) => `${to}/deliveries/${id}`,
		columns: [
			{title: 'About', cell: row => name(readSubject(row).subject), cut: true},
			{title: 'Event', cell: ({eventType}) => eventType},
			{title: 'State', cell: ({state}) => deliveryBadge(state)},
			{title: 'Last result', cell: lastAnswer, cut: true, wide: true},
			{title: 'Attempts', cell: ({attempts}) => count(attempts), right: true, wide: true},
			{title: 'Created', cell: row => time(row.createdAt, now), right: true, wide: true},
		],
	};
}

const tones: Readonly<Record<DeliveryState, Tone>> = {
	pending: 'busy',
	delivered: 'good',
	failed: 'warn',
	exhausted: 'bad',
};

export const deliveryBadge = (state: DeliveryState): Html => badge(state, tones[state]);

/** Renders the result of the last attempt. */
export function lastAnswer({lastStatus, lastError}: Pick<StoredDelivery, 'lastStatus' | 'lastError'>): Html {
	return lastStatus === null && lastError === null
		? html`<span class="soft">no attempt yet</span>`
		: html`${answerText(lastStatus, lastError)}`;
}

/** Formats the status of a response, or the reason why there was none. */
export const answerText = (status: number | null, error: string | null): string =>
	status === null ? (error ?? 'no response') : `responded with ${status}`;

/** Returns what the event is about, from the body that `webhookBody` wrote: for a received message, its sender. */
function readSubject({eventType, body}: StoredDelivery) {
	const {recipient, detail = {}} = JSON.parse(Buffer.from(body).toString()) as {
		readonly recipient: string | null;
		readonly detail?: Readonly<Partial<Record<'id' | 'from' | 'envelope_from' | 'domain' | 'host', string | null>>>;
	};
	const subject = recipient || detail.from || detail.envelope_from || detail.domain || detail.host || 'no recipient';
	return {subject, receivedId: (eventType === 'received' && detail.id) || null};
}
