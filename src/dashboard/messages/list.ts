import type {Html} from '../../hosted/html.ts';
import {html} from '../../hosted/html.ts';
import {type RecipientState, recipientStates} from '../../mail/recipient-state.ts';
import {type ListedMessage, readLines, scanMessages} from '../../store/message-scan.ts';
import {live} from '../live.ts';
import {badge, chips, hrefOf, input, name, nothing, type Table, type Tone, table, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import type {Answer, Route, Visit} from '../route.ts';
import {filterOf, searchHint} from './search.ts';

const perPage = 50;

/** The list of messages, which follows what happens. */
export function messagePages({reader, readMessageId, settings}: DashboardParts): readonly Route[] {
	async function list({query, workspace, now}: Visit): Promise<Answer> {
		const filter = filterOf(query, now, readMessageId);
		const after = query.get('after');
		const {ids, next} =
			filter === null
				? {ids: [], next: null}
				: await scanMessages(reader, {...filter, workspaceId: workspace.id}, {after, limit: perPage});
		const rows = await readLines(reader, ids);
		const isFiltered = ['q', 'status', 'template', 'hours'].some(key => (query.get(key) ?? '') !== '');
		const found = {
			...messageTable(now),
			rows,
			empty:
				next === null
					? emptyList(isFiltered, settings.delivery === 'capture')
					: html`<p>None among those looked at so far.</p>`,
		};
		const content = html`${searchForm(query)}${statusChips(query)}${timeChips(query)}${live(
			'messages',
			after === null ? hrefOf('/messages', query) : null,
			html`${table(found)}<div class="more">${olderAndNewer(query, after, next)}</div>`,
		)}`;
		return {kind: 'page', place: 'messages', title: 'Messages', content};
	}

	return [{method: 'GET', path: '/messages', role: 'viewer', answer: list}];
}

/** How a list of messages looks, wherever there is one. */
export function messageTable(now: number): Omit<Table<ListedMessage>, 'rows' | 'empty'> {
	return {
		label: 'Messages',
		link: ({id}) => `/messages/${id}`,
		columns: [
			{title: 'To', cell: row => name(row.to), cut: true},
			{
				title: 'Status',
				cell: row => html`${stateBadge(row.status)}${row.mode === 'test' ? html` ${badge('test', 'idle')}` : null}`,
			},
			{
				title: 'Subject',
				cell: row => (row.subject === null ? html`<span class="soft">not made yet</span>` : name(row.subject)),
				cut: true,
			},
			{title: 'From', cell: row => name(row.from), cut: true, wide: true},
			{title: 'Accepted', cell: row => time(row.created_at, now), right: true},
		],
	};
}

const tones: Readonly<Record<RecipientState, Tone>> = {
	accepted: 'busy',
	queued: 'busy',
	sent: 'good',
	delivered: 'good',
	bounced: 'bad',
	complained: 'bad',
	suppressed: 'warn',
	errored: 'bad',
};

export const stateBadge = (state: RecipientState): Html => badge(state, tones[state]);

function searchForm(query: URLSearchParams): Html {
	const kept = ['status', 'hours', 'template'].flatMap(key => {
		const value = query.get(key);
		return value ? [html`<input type="hidden" name="${key}" value="${value}">`] : [];
	});
	const field = input({
		name: 'q',
		label: 'Search',
		type: 'search',
		value: query.get('q') ?? '',
		placeholder: 'ann@example.com, receipt, order_id=1042',
	});
	return html`<form class="filter" role="search" action="/messages">${field}${kept}<button>Search</button><small>${searchHint}</small></form>`;
}

const statusChips = (query: URLSearchParams): Html =>
	chips(
		'Status',
		query,
		'status',
		[{value: '', label: 'All'}, ...recipientStates.map(state => ({value: state, label: state}))],
		'/messages',
	);

const times = [
	{value: '', label: 'Any time'},
	{value: '1', label: 'Last hour'},
	{value: '24', label: '24 hours'},
	{value: '168', label: '7 days'},
	{value: '720', label: '30 days'},
];

const timeChips = (query: URLSearchParams): Html => chips('Accepted', query, 'hours', times, '/messages');

function emptyList(isFiltered: boolean, isCaptured: boolean): Html {
	if (isFiltered) {
		return html`<p>No message matches.</p><p><a href="/messages">Show all messages</a></p>`;
	}
	return html`<p>No messages yet.</p><p>Send the first one with <code>mailctl send</code> or <code>POST /v1/messages</code>.${
		isCaptured ? ' In capture mode it appears here and leaves the machine for nobody.' : nothing
	}</p>`;
}

function olderAndNewer(query: URLSearchParams, after: string | null, next: string | null): Html {
	const newest =
		after === null ? html`<span></span>` : html`<a href="${hrefOf('/messages', query, {after: null})}">Newest</a>`;
	const older =
		next === null ? nothing : html`<a href="${hrefOf('/messages', query, {after: next})}" rel="next">Older</a>`;
	return html`${newest}${older}`;
}
