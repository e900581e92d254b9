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

/** Who changed what. Users of all workspaces see the acts of all. */
export function auditPages({reader}: DashboardParts): readonly Route[] {
	async function list({query, signedIn, now}: Visit): Promise<Answer> {
		const found = await listAudit(reader, {
			workspaceId: signedIn.user.workspaceId ?? undefined,
			since: sinceOf(query.get('hours'), now),
			after: query.get('after'),
			limit: perPage + 1,
		});
		const {rows, last} = toPage(found, perPage);
		const ids = rows.flatMap(({workspaceId}) => workspaceId ?? []);
		const names = await readWorkspaceNames(reader, [...new Set(ids)]);
		const acts = table({
			label: 'Acts',
			columns: [
				{title: 'When', cell: row => time(row.at, now)},
				{title: 'Who', cell: row => name(row.actor), cut: true},
				{title: 'Action', cell: did, details: true},
				{title: 'To', cell: target, wide: true, cut: true},
				{
					title: 'Workspace',
					cell: row => name(names.get(row.workspaceId ?? '') ?? row.workspaceId ?? '–'),
					wide: true,
					cut: true,
				},
				{title: 'From', cell: row => (row.from === null ? '–' : name(row.from)), wide: true, cut: true},
			],
			rows,
			empty: html`<p>Nothing was changed in this time.</p>`,
		});
		const content = html`${timeChips('Time', query, path)}${acts}${pager(path, query, last?.id ?? null)}`;
		const actions = html`<a class="button" href="${toHref(`${path}/export`, query, {after: null})}">Export</a>`;
		return {kind: 'page', place: 'audit', title: 'Audit', actions, content};
	}

	async function file({query, signedIn, now}: Visit): Promise<Answer> {
		const filter = {workspaceId: signedIn.user.workspaceId ?? undefined, since: sinceOf(query.get('hours'), now)};
		return await csvContent('audit', streamCsv(csvColumns.audit, csvPages(reader, filter), auditView));
	}

	return [
		{method: 'GET', path, role: 'admin', answer: list},
		{method: 'GET', path: `${path}/export`, role: 'admin', answer: file},
	];
}

const homes = {tpl: 'templates', dom: 'domains', whe: 'webhooks', con: 'contacts', msg: 'messages'} as const;

/** What it was done to, as a link where it has a page. */
function target({target: id}: AuditEntry): Html {
	const kind = (Object.keys(homes) as Array<keyof typeof homes>).find(one => id !== null && isId(one, id));
	return id === null ? html`–` : kind ? html`<a href="/${homes[kind]}/${id}">${id}</a>` : code(id);
}

function did({action, detail}: AuditEntry): Html {
	const details = Object.entries(detail).map(
		([key, value], index) => html`${index > 0 ? ', ' : ''}${key.replaceAll('_', ' ')}: ${name(textOf(value))}`,
	);
	return html`${action}${details.length === 0 ? null : html`<small>${details}</small>`}`;
}

const textOf = (value: unknown): string =>
	typeof value === 'string' ? value : Array.isArray(value) ? value.map(textOf).join(', ') : JSON.stringify(value);
