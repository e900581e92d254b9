import type {Knex} from 'knex';
import {csvContent, pager, searchForm, sinceOf, timeChips, timeChoices} from '../../dashboard/lists.ts';
import {live} from '../../dashboard/live.ts';
import {mailFrame} from '../../dashboard/mail-frame.ts';
import {
	badge,
	type Choice,
	chipRow,
	chips,
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
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, page, type Route, type Visit} from '../../dashboard/route.ts';
import {createShared} from '../../dashboard/shared.ts';
import {type Html, html, plainName} from '../../hosted/html.ts';
import {storeTime} from '../../kit/time.ts';
import {isId, isTemplateId} from '../../mail/ids.ts';
import {type RecipientState, recipientStates} from '../../mail/message.ts';
import {maxQueryTerms, metadataTerm, type SearchCondition, searchTerms, tagTerm, valueTerm} from '../../mail/terms.ts';
import {eventsUntilNow} from '../../store/event-stream.ts';
import {
	type ListedMessage,
	type MessageFilter,
	pageMessages,
	readLines,
	scanMessages,
} from '../../store/message-scan.ts';
import type {StoredMessage} from '../../store/messages.ts';
import {csvColumns, readPages, streamCsv} from '../csv-lists.ts';
import {readAddress} from '../formats.ts';
import {pageTemplates} from '../templates/store.ts';
import {messageView, streamedEventView} from '../views.ts';

const perPage = 50;
/** Up to this many rows, there is room for a message below the list. */
const fewRows = 5;
const maxTemplates = 100;
const times = timeChoices(1, 24, 168, 720);

/** The list of messages, which updates live. */
export function messagePages({reader, readMessageId, settings, tools: {clock}}: DashboardParts): readonly Route[] {
	const shared = createShared(clock);

	async function renderContent({query, workspace, now}: Visit): Promise<Html> {
		const filter = parseFilter(query, now, readMessageId);
		const after = query.get('after');
		const {ids, next} =
			filter === null
				? {ids: [], next: null}
				: await scanMessages(reader, {...filter, workspaceId: workspace.id}, {after, limit: perPage});
		const rows = await readLines(reader, ids);
		const isFiltered = ['q', 'status', 'template', 'hours'].some(key => (query.get(key) ?? '') !== '');
		const isCaptured = settings.delivery === 'capture';
		const list = {
			...messageTable(now, query.get('status') === scheduled),
			// In capture mode, a row opens the content of its message.
			...(isCaptured && {link: ({id}: ListedMessage) => `/messages/${id}/preview`}),
			rows,
			empty: next === null ? emptyList(isFiltered, isCaptured) : html`<p>No matches so far.</p>`,
		};
		const newest = isCaptured && !isFiltered && after === null && rows.length <= fewRows ? newestMail(rows) : null;
		const templates = await templateChoices(reader, workspace.id, query.get('template') ?? '');
		return html`${messageSearch(query, templates)}${searchChips(query)}${statusChips(query)}${timeChips('Accepted', query, '/messages', times)}${live(
			'messages',
			after === null ? toHref('/messages', query) : null,
			html`${table(list)}${pager('/messages', query, next)}${newest}`,
			'mail',
		)}`;
	}

	/** The content is the same for all users, so pages that are open at the same time share it. */
	async function list(visit: Visit): Promise<Answer> {
		const content = await shared(visit, `${visit.workspace.id} ${visit.query}`, () => renderContent(visit));
		const actions = html`<a class="button" href="${toHref('/messages/export', visit.query, {after: null})}">Export</a><a class="button" href="/messages/export-events">Export events</a>`;
		return {kind: 'page', place: 'messages', title: 'Messages', actions, content};
	}

	async function file({query, workspace, now}: Visit): Promise<Answer> {
		const filter = parseFilter(query, now, readMessageId);
		const rows = readPages<StoredMessage>(async part =>
			filter === null
				? {rows: [], next: null}
				: await pageMessages(reader, {...filter, workspaceId: workspace.id}, part),
		);
		return await csvContent(
			'messages',
			streamCsv(csvColumns.messages, rows, row => messageView(row)),
		);
	}

	async function eventFile({workspace}: Visit): Promise<Answer> {
		const rows = eventsUntilNow(reader, workspace.id, {after: 0});
		return await csvContent('events', streamCsv(csvColumns.events, rows, streamedEventView));
	}

	return [
		page('/messages', list),
		{method: 'GET', path: '/messages/export', role: 'viewer', answer: file},
		{method: 'GET', path: '/messages/export-events', role: 'viewer', answer: eventFile},
	];
}

/** The columns of every list of messages. */
export function messageTable(now: number, isScheduled = false): Omit<Table<ListedMessage>, 'rows' | 'empty'> {
	return {
		label: 'Messages',
		link: ({id}) => `/messages/${id}`,
		columns: [
			// On a phone the subject is shown below, so that status and time are visible without scrolling.
			{
				title: 'To',
				cell: row =>
					html`${name(row.to)}${row.subject && html`<small class="narrow">${name(row.subject)}</small>`}`,
				cut: true,
			},
			{
				title: 'Status',
				cell: row =>
					html`${stateBadge(row.status)}${row.mode === 'test' ? html` ${badge('test', 'idle')}` : null}`,
			},
			{
				title: 'Subject',
				cell: row => (row.subject === null ? html`<span class="soft">not rendered</span>` : name(row.subject)),
				cut: true,
				wide: true,
			},
			{title: 'From', cell: row => name(row.from), cut: true, wide: true},
			isScheduled
				? {title: 'Scheduled for', cell: row => time(row.send_at, now), right: true}
				: {title: 'Accepted', cell: row => time(row.created_at, now), right: true},
		],
	};
}

const tones: Readonly<Record<RecipientState, Tone>> = {
	accepted: 'busy',
	queued: 'busy',
	sent: 'busy',
	delivered: 'good',
	bounced: 'bad',
	complained: 'bad',
	suppressed: 'warn',
	errored: 'bad',
};

export const stateBadge = (state: RecipientState): Html => badge(state, tones[state]);

/** Renders the newest delivered message, which is usually the one to look at in capture mode. */
function newestMail(rows: readonly ListedMessage[]): Html | null {
	const newest = rows.find(({status}) => status === 'delivered');
	if (newest === undefined) {
		return null;
	}
	const {id, subject} = newest;
	const link = html`<a href="/messages/${id}/preview">Open</a>`;
	return section(
		`Newest message: ${plainName(subject ?? '')}`,
		mailFrame({path: `/messages/${id}/frame`, title: 'Message'}),
		link,
	);
}

async function templateChoices(reader: Knex, workspaceId: string, selected: string): Promise<Choice[]> {
	const listed = await pageTemplates(reader, workspaceId, {after: null, limit: maxTemplates});
	const isListed = selected === '' || listed.some(({id}) => id === selected);
	return [
		{value: '', label: 'All templates'},
		...listed.map(({id, name}) => ({value: id, label: plainName(name)})),
		...(isListed ? [] : [{value: selected, label: selected}]),
	];
}

function messageSearch(query: URLSearchParams, templates: readonly Choice[]): Html {
	return searchForm({
		to: '/messages',
		query,
		placeholder: 'ann@example.com, receipt, order_id=1042',
		kept: ['status', 'hours'],
		fields: select({name: 'template', label: 'Template', value: query.get('template') ?? ''}, templates),
		hint: searchHint,
	});
}

/** The filters in the search, such as `tag:receipt`, each with a link that removes it. */
function searchChips(query: URLSearchParams): Html | null {
	const parts = (query.get('q') ?? '').split(/\s+/).filter(part => part !== '');
	const isChip = (part: string) => /^[^<].*[:=]/.test(part);
	if (parts.filter(isChip).length > maxQueryTerms) {
		return null; // Such a search finds nothing, and each link would contain all the other filters.
	}
	const links = parts.flatMap((part, index) => {
		if (!isChip(part)) {
			return [];
		}
		const href = toHref('/messages', query, {q: parts.toSpliced(index, 1).join(' ') || null, after: null});
		return [
			html`<a class="chip" aria-current="true" href="${href}" title="Remove from search">${name(part)} <span aria-hidden="true">×</span></a>`,
		];
	});
	return links.length === 0 ? null : chipRow('Filters', links);
}

/** A filter beside the states. Scheduled messages have the state `accepted`. */
const scheduled = 'scheduled';

const statusChips = (query: URLSearchParams): Html =>
	chips(
		'Status',
		query,
		'status',
		[{value: '', label: 'All'}, ...[...recipientStates, scheduled].map(value => ({value, label: value}))],
		'/messages',
	);

function emptyList(isFiltered: boolean, isCaptured: boolean): Html {
	if (isFiltered) {
		return html`<p>No matching messages.</p><p><a href="/messages">Show all messages</a></p>`;
	}
	return html`<p>No messages yet.</p><p>Send the first one with <code>mailctl send</code> or <code>POST /v1/messages</code>.${
		isCaptured ? ' In capture mode it appears here and never leaves this machine.' : nothing
	}</p>`;
}

type Filter = Omit<MessageFilter, 'workspaceId'>;

/** The input that the search accepts. */
const searchHint =
	'an address, words of the subject, order_id=1042 or 1042 alone, tag:receipt, from:a@b.example, an id or Message-ID';

/** Returns the filter of a page's query, or `null` if nothing can match or it has too many terms. */
function parseFilter(
	query: URLSearchParams,
	now: number,
	readMessageId: (messageId: string) => string | null,
): Filter | null {
	const search = parseSearch(query.get('q')?.trim() ?? '', readMessageId);
	const status = query.get('status') ?? '';
	const template = query.get('template') ?? '';
	const since = sinceOf(query.get('hours'), now);
	if (search === null || (template !== '' && !isTemplateId(template))) {
		return null;
	}
	return {
		...search,
		...(isState(status) && {status}),
		...(status === scheduled && {scheduledAfter: storeTime(now)}),
		...(template !== '' && {templateId: template}),
		...(since !== undefined && {since}),
	};
}

const isState = (text: string): text is RecipientState => (recipientStates as readonly string[]).includes(text);

/** Parses a search. The form of each word decides what it is. */
function parseSearch(text: string, readMessageId: (messageId: string) => string | null): Filter | null {
	if (text === '') {
		return {};
	}
	const terms: SearchCondition[] = [];
	const words: string[] = [];
	let filter: Filter = {};
	for (const part of text.split(/\s+/)) {
		const [, key = '', value = ''] = /^([^\s:=<>"]+)[:=](.+)$/u.exec(part) ?? [];
		if (isId('msg', part)) {
			filter = {...filter, id: part};
		} else if (/^<.+>$/.test(part)) {
			const id = readMessageId(part);
			if (id === null) {
				return null;
			}
			filter = {...filter, id};
		} else if (key === 'tag') {
			terms.push(tagTerm(value));
		} else if (key === 'from' || key === 'to' || readAddress(part) !== null) {
			const address = readAddress(key === 'from' || key === 'to' ? value : part);
			if (address === null) {
				return null;
			}
			filter = {...filter, [key === 'from' ? 'fromKey' : 'toKey']: address.key};
		} else if (part.includes('=') && key !== '') {
			terms.push([metadataTerm(key, value), valueTerm(part)]);
		} else {
			words.push(part);
		}
	}
	if (terms.length > maxQueryTerms) {
		return null;
	}
	const all = [...terms, ...(words.length === 0 ? [] : searchTerms(words.join(' ')))];
	return all.length === 0 ? filter : {...filter, terms: all};
}
