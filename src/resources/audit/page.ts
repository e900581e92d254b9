import {csvContent, pager, sinceOf, timeChips, toPage} from '../../dashboard/lists.ts';
import {code, name, table, time, toHref} from '../../dashboard/markup.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import type {Answer, Route, Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {isId} from '../../mail/ids.ts';
import {auditView, csvColumns, auditPages as csvPages, streamCsv} from '../csv-lists.ts';
import {readWorkspaceNames} from '../workspaces/store.ts';
import {type AuditEntry, listAudit} from './store.ts';

const path = '/audit';
const perPage = 100;

/** The audit trail. Users of all workspaces see the actions in all of them. */
export function auditPages({reader}: DashboardParts): readonly Route[] {
	async function list({query, signedIn, now}: Visit): Promise<Answer> {
		const entries = await listAudit(reader, {
			workspaceId: signedIn.user.workspaceId ?? undefined,
			since: sinceOf(query.get('hours'), now),
			after: query.get('after'),
			limit: perPage + 1,
		});
		const {rows, last} = toPage(entries, perPage);
		const ids = rows.flatMap(({workspaceId}) => workspaceId ?? []);
		const names = await readWorkspaceNames(reader, [...new Set(ids)]);
		const actions = table({
			label: 'Audit trail',
			columns: [
				{title: 'When', cell: row => time(row.at, now)},
				{title: 'Actor', cell: row => name(row.actor), cut: true},
				{title: 'Action', cell: actionCell, details: true},
				{title: 'Target', cell: targetCell, wide: true, cut: true},
				{
					title: 'Workspace',
					cell: row => name(names.get(row.workspaceId ?? '') ?? row.workspaceId ?? '–'),
					wide: true,
					cut: true,
				},
				{title: 'From', cell: row => (row.from === null ? '–' : name(row.from)), wide: true, cut: true},
			],
			rows,
			empty: html`<p>No actions in this period.</p>`,
		});
		const content = html`${timeChips('Time', query, path)}${actions}${pager(path, query, last?.id ?? null)}`;
		const exportLink = html`<a class="button" href="${toHref(`${path}/export`, query, {after: null})}">Export</a>`;
		return {kind: 'page', place: 'audit', title: 'Audit', actions: exportLink, content};
	}

	async function exportCsv({query, signedIn, now}: Visit): Promise<Answer> {
		const filter = {workspaceId: signedIn.user.workspaceId ?? undefined, since: sinceOf(query.get('hours'), now)};
		return await csvContent('audit', streamCsv(csvColumns.audit, csvPages(reader, filter), auditView));
	}

	return [
		{method: 'GET', path, role: 'admin', answer: list},
		{method: 'GET', path: `${path}/export`, role: 'admin', answer: exportCsv},
	];
}

const pages = {tpl: 'templates', dom: 'domains', whe: 'webhooks', con: 'contacts', msg: 'messages'} as const;

/** Shows the target of an action, as a link if it has a page. */
function targetCell({target: id, workspaceId}: AuditEntry): Html {
	const kind = (Object.keys(pages) as Array<keyof typeof pages>).find(prefix => id !== null && isId(prefix, id));
	const to = kind && workspaceId && `/w/${workspaceId}/${pages[kind]}/${id}`;
	return id === null ? html`–` : to ? html`<a href="${to}">${id}</a>` : code(id);
}

function actionCell({action, detail}: AuditEntry): Html {
	const details = Object.entries(detail).map(
		([key, value], index) => html`${index > 0 ? ', ' : ''}${key.replaceAll('_', ' ')}: ${name(textOf(value))}`,
	);
	return html`${action}${details.length === 0 ? null : html`<small>${details}</small>`}`;
}

const textOf = (value: unknown): string =>
	typeof value === 'string' ? value : Array.isArray(value) ? value.map(textOf).join(', ') : JSON.stringify(value);
