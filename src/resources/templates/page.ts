import {pager, toPage} from '../../dashboard/lists.ts';
import {act, badge, code, input, join, name, nothing, opened, table, time} from '../../dashboard/markup.ts';
import {pageForms, wrong} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {html} from '../../hosted/html.ts';
import {labelProblem} from '../../kit/text.ts';
import {isId, isTemplateId, templateIdForm} from '../../mail/ids.ts';
import {pageTemplates, type Template} from './store.ts';
import {createTemplate, isBuiltIn} from './versions.ts';

const perPage = 50;

/** The list of templates, and making one. */
export function templateListPages({reader, change}: DashboardParts): readonly Route[] {
	async function list({query, form, workspace, now, may}: Visit, problem: string | null = null): Promise<Answer> {
		const asked = query.get('after') ?? '';
		const after = isId('tpl', asked) ? asked : null;
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
				empty: html`<p>No templates yet.</p><p>Make one here, or push a folder of them: <code>mailctl template push templates</code></p>`,
			},
		)}${pager('/templates', query, last?.row_id ?? null)}`;
		return {
			kind: 'page',
			place: 'templates',
			title: 'Templates',
			problem,
			actions:
				may('operator') && problem === null
					? opened('New template', html`<div class="stack">${newTemplate(form)}</div>`)
					: nothing,
			content,
		};
	}

	async function create({form, workspace, tools}: Visit): Promise<Answer> {
		const chosen = {name: form.get('name')?.trim() ?? '', id: form.get('id')?.trim() || null};
		const fault = labelProblem(chosen.name);
		if (fault !== null) {
			wrong(`The name ${fault}.`);
		}
		if (chosen.id !== null && !isTemplateId(chosen.id)) {
			wrong(`The id must be ${templateIdForm}.`);
		}
		const created = await change(trx => createTemplate(trx, tools, workspace.id, chosen));
		return typeof created === 'string'
			? wrong(`There is a template with this ${created} already: choose another ${created}.`)
			: go(`/templates/${created.id}/edit`);
	}

	return [page('/templates', list), pageForms(list)('/templates', 'operator', create)];
}

function newTemplate(form: URLSearchParams) {
	const value = (key: string) => form.get(key) ?? undefined;
	const fields = join([
		input({name: 'name', label: 'Name', value: value('name'), placeholder: 'receipt', required: true}),
		input({
			name: 'id',
			label: 'Id, to send with',
			value: value('id'),
			placeholder: 'tpl_receipt',
			hint: 'The same in staging and production, if you choose it. Empty: a new one.',
		}),
	]);
	return act({to: '/templates', label: 'Make it', fields});
}
