import {removeTemplate, rollBack} from '../../admin/templates.ts';
import {type Html, html} from '../../hosted/html.ts';
import {listSenders} from '../../store/domains.ts';
import {
	listSubjects,
	pageVersions,
	type Template,
	type TemplateVariant,
	type TemplateVersion,
} from '../../store/templates.ts';
import {pager} from '../lists.ts';
import {mailFrame} from '../mail-frame.ts';
import {act, badge, copyable, facts, hrefOf, name, nothing, opened, section, table, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, type Route, type Visit} from '../route.ts';
import {
	chosenTemplate,
	chosenVariant,
	chosenVersion,
	localeName,
	noTemplate,
	type Saved,
	versionNumber,
} from './chosen.ts';
import {testForm} from './test-send.ts';

const versionsPerPage = 20;

/** One template: how it looks, its versions, and what one may do with it. */
export function oneTemplatePages({reader, change}: DashboardParts): readonly Route[] {
	async function show(visit: Visit, problem: string | null = null): Promise<Answer> {
		const template = await chosenTemplate(reader, visit);
		if (!template) {
			return noTemplate;
		}
		const {query, now, may} = visit;
		const saved = await chosenVersion(reader, template, query.get('version'));
		const content = saved
			? html`${head(template, saved, visit)}${look(template, saved, query)}${await versions(template, visit)}`
			: html`<div class="empty"><p>${template.latest_version === null ? 'Nothing was saved yet.' : 'There is no such version.'}</p><p><a href="/templates/${template.id}/edit">Write it</a>, or push its folder: <code>mailctl template push</code></p></div>`;
		return {
			kind: 'page',
			status: problem === null ? 200 : 422,
			place: 'templates',
			title: template.name,
			problem,
			actions: may('operator') ? await actions(template, saved, visit) : nothing,
			content: html`<div class="card">${facts([
				['Id', copyable(template.id, 'the id')],
				['Made', time(template.created_at, now)],
				['Messages', html`<a href="/messages?template=${template.id}">sent with it</a>`],
			])}</div>${content}${may('operator') ? removal(template) : nothing}`,
		};
	}

	async function actions({id, latest_version: latest}: Template, saved: Saved | undefined, {workspace, query}: Visit) {
		const test =
			saved && saved.version.version === latest
				? opened('Send a test', testForm(id, saved, query, await listSenders(reader, workspace.id)))
				: nothing;
		return html`${test}<a class="button main" href="/templates/${id}/edit${languageOf(query)}">Edit</a>`;
	}

	async function versions(template: Template, {query, now, may}: Visit): Promise<Html> {
		const before = versionNumber(query.get('before') ?? '');
		const rows = await pageVersions(reader, template.row_id, {before, limit: versionsPerPage});
		const subjects = await listSubjects(
			reader,
			rows.map(row => row.id),
		);
		const {id, latest_version: latest} = template;
		const oldest = rows.at(-1)?.version ?? 1;
		const listed = table<TemplateVersion>({
			label: 'Versions',
			link: ({version}) => `/templates/${id}?version=${version}`,
			columns: [
				{
					title: 'Version',
					cell: ({version}) => html`${version}${version === latest ? html` ${badge('newest', 'good')}` : nothing}`,
				},
				{title: 'Saved', cell: row => time(row.created_at, now)},
				{title: 'Subject', cell: row => name(subjects.get(row.id)?.[0]?.subject ?? ''), cut: true, wide: true},
				{
					title: 'Languages',
					cell: row => (subjects.get(row.id) ?? []).map(({locale}) => localeName(locale)).join(', '),
					cut: true,
					wide: true,
				},
				{
					title: 'Changes',
					cell: ({version}) =>
						version === 1
							? html`<span class="soft">the first</span>`
							: html`<a href="/templates/${id}/compare?from=${version - 1}&to=${version}">since ${version - 1}</a>`,
				},
				{
					title: '',
					cell: ({version}) => (version === latest || !may('operator') ? nothing : rollBackTo(id, version)),
					right: true,
				},
			],
			rows,
			empty: html`<p>No older versions.</p>`,
		});
		const older = oldest > 1 ? String(oldest) : null;
		return section('Versions', html`${listed}${pager(`/templates/${id}`, query, older, 'before')}`);
	}

	return [
		{method: 'GET', path: '/templates/:id', role: 'viewer', answer: visit => show(visit)},
		{
			method: 'POST',
			path: '/templates/:id/rollback',
			role: 'operator',
			async answer({params: {id = ''}, form, workspace, tools}) {
				const version = versionNumber(form.get('version') ?? '') ?? 0;
				const saved = await change(trx => rollBack(trx, tools, {workspaceId: workspace.id, id, version}));
				if (saved === undefined) {
					return noTemplate;
				}
				const notice =
					saved === 'newest'
						? `Version ${version} is the newest already.`
						: `Saved version ${saved.version}, equal to version ${version}. New messages use it.`;
				return go(`/templates/${id}`, notice);
			},
		},
		{
			method: 'POST',
			path: '/templates/:id/delete',
			role: 'operator',
			fresh: true,
			async answer(visit) {
				const template = await chosenTemplate(reader, visit);
				if (!template) {
					return noTemplate;
				}
				if (visit.form.get('typed')?.trim() !== template.name) {
					return await show(visit, `Nothing was deleted: type ${template.name} to delete it.`);
				}
				await change(trx => removeTemplate(trx, visit.tools, visit.workspace.id, template.id));
				return go('/templates', `${template.name} is deleted. Mail accepted with it still goes out.`);
			},
		},
	];
}

function languageOf(query: URLSearchParams): string {
	const locale = query.get('locale');
	return locale === null ? '' : `?locale=${encodeURIComponent(locale)}`;
}

/** Which version is shown; an older one says what to do with it. */
function head({id, latest_version: latest}: Template, {version: {version}}: Saved, {may}: Visit): Html {
	if (version === latest) {
		return nothing;
	}
	return html`<div class="notice warn"><p>This is version ${version}. Messages are sent with version ${latest}: <a href="/templates/${id}/compare?from=${version}&to=${latest}">what changed since</a></p>${
		may('operator') ? rollBackTo(id, version) : nothing
	}</div>`;
}

function rollBackTo(id: string, version: number): Html {
	const fields = html`<input type="hidden" name="version" value="${version}">`;
	return act({to: `/templates/${id}/rollback`, label: `Roll back to ${version}`, fields, look: 'quiet'});
}

const ways = [
	['', 'Desktop'],
	['phone', 'Phone'],
	['text', 'Text'],
	['source', 'Source'],
] as const;

/** The mail as the version's sample makes it, or its source. */
function look({id}: Template, {version, variants}: Saved, query: URLSearchParams): Html {
	const variant = chosenVariant(variants, query.get('locale'));
	if (!variant) {
		return nothing;
	}
	const path = `/templates/${id}`;
	const link = (changes: Readonly<Record<string, string | null>>, label: string, isHere: boolean) =>
		html`<a class="chip" href="${hrefOf(path, query, changes)}"${isHere ? html` aria-current="true"` : nothing}>${label}</a>`;
	const way = query.get('show') ?? '';
	const languages =
		variants.length < 2
			? nothing
			: html`<nav class="chips" aria-label="Language">${variants.map(one =>
					link({locale: one.locale ?? ''}, localeName(one.locale), one === variant),
				)}</nav>`;
	const images = query.get('images') === '1';
	const shows = html`<nav class="chips" aria-label="Show">${ways.map(([value, label]) =>
		link({show: value === '' ? null : value}, label, value === way),
	)}${
		way === '' || way === 'phone'
			? link({images: images ? null : '1'}, images ? 'Hide remote images' : 'Show remote images', false)
			: nothing
	}</nav>`;
	const asked = new URLSearchParams({version: String(version.version), locale: variant.locale ?? ''});
	if (way === 'text') {
		asked.set('part', 'text');
	}
	if (images) {
		asked.set('images', '1');
	}
	const shown =
		way === 'source'
			? source(variant, version)
			: mailFrame({
					path: `${path}/frame?${asked}`,
					title: `Version ${version.version}, ${localeName(variant.locale)}, with the sample's variables`,
					phone: way === 'phone',
				});
	return section(
		`Version ${version.version}`,
		html`${languages}${facts([['Subject', name(variant.subject)]])}${shows}${shown}`,
	);
}

function source({kind, source, text_source: text}: TemplateVariant, {sample}: TemplateVersion): Html {
	return html`<h3>${kind === 'mjml' ? 'MJML' : 'HTML'}</h3><pre>${source}</pre>${
		text === null ? nothing : html`<h3>Text</h3><pre>${text}</pre>`
	}${sample === null ? nothing : html`<h3>Sample</h3><pre>${sample}</pre>`}`;
}

function removal({id, name}: Template): Html {
	return section(
		'Delete',
		opened(
			'Delete this template',
			html`<p>Mail accepted with it still goes out. Its name is free again.</p>${act({to: `/templates/${id}/delete`, label: 'Delete it', look: 'danger', typed: name})}`,
		),
	);
}
