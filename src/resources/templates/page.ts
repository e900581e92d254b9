import {pager, toPage} from '../../dashboard/lists.ts';
import {act, badge, code, disclosure, name, nothing, table, time} from '../../dashboard/markup.ts';
import {fieldInputs, operationForms} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {html} from '../../hosted/html.ts';
import {isId} from '../../mail/ids.ts';
import {listFields} from '../fields.ts';
import {createTemplate} from './rules.ts';
import {pageTemplates, type Template} from './store.ts';
import {isBuiltIn} from './versions.ts';

const path = '/templates';
const perPage = 50;

/** The list of templates, with a form that creates one. */
export function templateListPages(parts: DashboardParts): readonly Route[] {
	const {reader} = parts;

	async function list({query, form, workspace, now, may}: Visit, problem: string | null = null): Promise<Answer> {
		const cursor = query.get('after') ?? '';
		const after = isId('tpl', cursor) ? cursor : null;
		const {rows, last} = toPage(await pageTemplates(reader, workspace.id, {after, limit: perPage + 1}), perPage);
		const content = html`${problem === null ? null : html`<div class="card stack">${newTemplate(form)}</div>`}${table<Template>(
			{
				label: 'Templates',
				link: ({id}) => `/templates/${id}`,
				columns: [
					{
						title: 'Name',
						cell: row =>
							html`${name(row.name)}${isBuiltIn(row) ? html` ${badge('built in', 'idle')}` : nothing}`,
						cut: true,
					},
					{
						title: 'Version',
						cell: row => (row.latest_version === null ? badge('none yet', 'warn') : row.latest_version),
						right: true,
					},
					{title: 'Changed', cell: row => time(row.updated_at, now), right: true},
					{title: 'Id', cell: row => code(row.id), cut: true, wide: true},
				],
				rows,
				empty: html`<p>No templates yet.</p><p>Create one here, or push a folder of templates: <code>mailctl template push templates</code></p>`,
			},
		)}${pager('/templates', query, last?.row_id ?? null)}`;
		return {
			kind: 'page',
			place: 'templates',
			title: 'Templates',
			problem,
			actions:
				may('operator') && problem === null
					? disclosure('New template', html`<div class="stack">${newTemplate(form)}</div>`)
					: nothing,
			content,
		};
	}

	const create = operationForms(parts, {path, show: list});
	return [page(path, list), create(createTemplate, path, ({template}) => go(`${path}/${template.id}/edit`))];
}

/** The settings are left to the template's page, because they are rarely needed at first. */
const createFields = listFields(createTemplate.input).filter(({name}) => name === 'name' || name === 'id');

function newTemplate(typed: URLSearchParams) {
	return act({to: path, label: 'Create template', fields: fieldInputs(createFields, {typed})});
}
