import {createTemplate, isBuiltIn} from '../../admin/templates.ts';
import {html} from '../../hosted/html.ts';
import {labelFault} from '../../kit/text.ts';
import {isId, isTemplateId, templateIdForm} from '../../mail/ids.ts';
import {pageTemplates, type Template} from '../../store/templates.ts';
import {pager} from '../lists.ts';
import {act, badge, code, input, join, name, nothing, opened, table, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, type Route, type Visit} from '../route.ts';

const perPage = 50;

/** The list of templates, and making one. */
export function templateListPages({reader, change}: DashboardParts): readonly Route[] {
	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {query, form, workspace, now, may} = visit;
		const asked = query.get('after') ?? '';
		const after = isId('tpl', asked) ? asked : null;
		const rows = await pageTemplates(reader, workspace.id, {after, limit: perPage + 1});
		const shown = rows.slice(0, perPage);
		const older = rows.length > perPage ? shown.at(-1)?.row_id : undefined;
		const content = html`${problem === null ? null : html`<div class="card stack">${newTemplate(form)}</div>`}${table<Template>(
			{
				label: 'Templates',
				link: ({id}) => `/templates/${id}`,
				columns: [
					{
						title: 'Name',
						cell: row => html`${name(row.name)}${isBuiltIn(row) ? html` ${badge('built in', 'idle')}` : nothing}`,
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
				rows: shown,
				empty: html`<p>No templates yet.</p><p>Make one here, or push a folder of them: <code>mailctl template push templates</code></p>`,
			},
		)}${pager('/templates', query, older ?? null)}`;
		return {
			kind: 'page',
			status: problem === null ? 200 : 422,
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

	async function create(visit: Visit): Promise<Answer> {
		const {form, workspace, tools} = visit;
		const chosen = {name: form.get('name')?.trim() ?? '', id: form.get('id')?.trim() || null};
		const fault = labelFault(chosen.name);
		if (fault !== null) {
			return await list(visit, `The name ${fault}.`);
		}
		if (chosen.id !== null && !isTemplateId(chosen.id)) {
			return await list(visit, `The id must be ${templateIdForm}.`);
		}
		const created = await change(trx => createTemplate(trx, tools, workspace.id, chosen));
		return typeof created === 'string'
			? await list(visit, `There is a template with this ${created} already: choose another ${created}.`)
			: go(`/templates/${created.id}/edit`);
	}

	return [
		{method: 'GET', path: '/templates', role: 'viewer', answer: visit => list(visit)},
		{method: 'POST', path: '/templates', role: 'operator', answer: create},
	];
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
