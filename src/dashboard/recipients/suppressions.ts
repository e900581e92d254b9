import {exportedFile} from '../../admin/suppression-file.ts';
import {readAddress} from '../../api/schemas/formats.ts';
import {type Html, html} from '../../hosted/html.ts';
import {isId} from '../../mail/ids.ts';
import {type SuppressionReason, suppressionReasons} from '../../mail/suppression.ts';
import {addSuppression, removeSuppression} from '../../ops/suppressions.ts';
import {listSuppressions, type Suppression} from '../../store/suppressions.ts';
import {pager, searchForm} from '../lists.ts';
import {act, badge, chips, hrefOf, input, name, nothing, opened, table, time} from '../markup.ts';
import {operationForms} from '../operation-form.ts';
import type {DashboardParts} from '../parts.ts';
import type {Answer, Route, Visit} from '../route.ts';
import {importPages, uploadForm} from './import.ts';

const perPage = 50;
const path = '/suppressions';

/** Who gets no mail, why, and how to change it. */
export function suppressionPages(parts: DashboardParts): readonly Route[] {
	const {reader} = parts;

	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {query, workspace, now, form} = visit;
		const asked = query.get('q')?.trim() ?? '';
		const address = asked === '' ? null : readAddress(asked);
		const found =
			asked !== '' && address === null
				? []
				: await listSuppressions(reader, {
						workspaceId: workspace.id,
						addressKey: address?.key,
						reason: reasonOf(query),
						after: query.get('after'),
						limit: perPage + 1,
					});
		const rows = found.slice(0, perPage);
		const last = found.length > perPage ? rows.at(-1) : undefined;
		const isFiltered = asked !== '' || reasonOf(query) !== undefined;
		const content = html`${searchForm({to: path, query, placeholder: 'user@example.com', kept: ['reason']})}${reasonChips(query)}${table(
			{
				...entriesTable(now, visit.may('operator')),
				rows,
				empty: isFiltered
					? html`<p>${asked !== '' && address === null ? 'Type a whole address: user@example.com.' : 'No such address is suppressed.'}</p><p><a href="${path}">Show all</a></p>`
					: html`<p>No address is suppressed.</p><p>Hard bounces, complaints and unsubscribes put addresses here by themselves.</p>`,
			},
		)}${pager(path, query, last?.id ?? null)}`;
		return {
			kind: 'page',
			...(problem !== null && {status: 422, problem}),
			place: 'suppressions',
			title: 'Suppressions',
			actions: visit.may('operator')
				? html`<a class="button" href="${hrefOf(`${path}/export`, query, {after: null, q: null})}">Export</a>${opened('Import', uploadForm())}${opened('Add', addForm(form.get('address') ?? ''))}`
				: nothing,
			content,
		};
	}

	async function file({query, workspace}: Visit): Promise<Answer> {
		const body = await exportedFile(reader, {workspaceId: workspace.id, mode: 'live', reason: reasonOf(query)});
		return {kind: 'content', type: 'text/csv; charset=utf-8', saveAs: 'suppressions.csv', body};
	}

	const form = operationForms(parts, {path, show: list});

	return [
		{method: 'GET', path, role: 'viewer', answer: visit => list(visit)},
		{method: 'GET', path: `${path}/export`, role: 'operator', answer: file},
		form(
			addSuppression,
			path,
			({isNew}, {form: sent}) =>
				`${sent.get('address')?.trim()} ${isNew ? 'gets no mail from now on' : 'was suppressed already'}.`,
			{read: addressIn},
		),
		form(removeSuppression, `${path}/:id/remove`, ({address}) => `${address} gets mail again.`),
		...importPages(parts),
	];
}

const reasonOf = (query: URLSearchParams): SuppressionReason | undefined =>
	suppressionReasons.find(reason => reason === query.get('reason'));

function addressIn({form}: Visit): {readonly recipient: string} | string {
	const recipient = form.get('address')?.trim() ?? '';
	return readAddress(recipient) ? {recipient} : `"${recipient}" is no address. Type one as user@example.com.`;
}

const entriesTable = (now: number, mayRemove: boolean) => ({
	label: 'Suppressed addresses',
	columns: [
		{title: 'Recipient', cell: (row: Suppression) => name(row.address), cut: true as const},
		{
			title: 'Reason',
			cell: (row: Suppression) =>
				html`${badge(reasonWords[row.reason], row.reason === 'complaint' ? 'bad' : 'warn')}${row.mode === 'test' ? html` ${badge('test', 'idle')}` : null}`,
		},
		{title: 'Because of', cell: (row: Suppression) => sourceOf(row), wide: true as const},
		{title: 'Since', cell: (row: Suppression) => time(row.created_at, now), right: true as const, wide: true as const},
		...(mayRemove
			? [
					{
						title: '',
						cell: (row: Suppression) => act({to: `${path}/${row.id}/remove`, label: 'Remove', look: 'quiet'}),
						right: true as const,
					},
				]
			: []),
	],
});

const reasonWords: Readonly<Record<SuppressionReason, string>> = {
	hard_bounce: 'hard bounce',
	complaint: 'complaint',
	manual: 'by hand',
	unsubscribe: 'unsubscribed',
};

const sourceWords: Readonly<Record<string, string>> = {
	api: 'the API',
	'one-click': 'the unsubscribe page',
	cli: 'the command line',
	dashboard: 'this dashboard',
	import: 'an import',
};

/** What put it there; of a bounce or complaint the message. */
function sourceOf({source}: Suppression): Html {
	return isId('msg', source)
		? html`<a href="/messages/${source}">the message</a>`
		: html`${sourceWords[source] ?? source}`;
}

const reasonChips = (query: URLSearchParams): Html =>
	chips(
		'Reason',
		query,
		'reason',
		[{value: '', label: 'All'}, ...suppressionReasons.map(reason => ({value: reason, label: reasonWords[reason]}))],
		path,
	);

const addForm = (value: string): Html =>
	act({
		to: path,
		label: 'Add',
		fields: input({name: 'address', label: 'Address', type: 'email', required: true, value}),
	});
