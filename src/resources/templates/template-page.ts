import type {Knex} from 'knex';
import type {Static} from 'typebox';
import {readSend} from '../../api/read-send.ts';
import {renderInWorker} from '../../compose/render/in-worker.ts';
import {pager} from '../../dashboard/lists.ts';
import {mailContent, mailFrame, textContent} from '../../dashboard/mail-frame.ts';
import {
	act,
	badge,
	chip,
	chipRow,
	copyable,
	dangerItem,
	disclosure,
	emptyNote,
	facts,
	hidden,
	menu,
	name,
	nothing,
	section,
	table,
	time,
	toHref,
} from '../../dashboard/markup.ts';
import {
	checkTyped,
	fieldInputs,
	operationForms,
	pageForms,
	readFields,
	rejectForm,
} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {parseExact} from '../../kit/exact-json.ts';
import {createTurns} from '../../kit/turns.ts';
import {apiError} from '../../mail/api-error.ts';
import {isTemplateId} from '../../mail/ids.ts';
import {testSend} from '../../send/schema.ts';
import {listSenders, type Sender} from '../domains/store.ts';
import {listFields} from '../fields.ts';
import {notFound} from '../operation.ts';
import {listTopics} from '../topics/store.ts';
import {removeTemplate, rollBackTemplate, settingsFields, updateTemplate} from './rules.ts';
import {
	findTemplate,
	findVersion,
	type ListedVersion,
	listSubjects,
	listVariants,
	pageVersions,
	type Template,
	type TemplateVariant,
	type TemplateVersion,
} from './store.ts';
import {previewVariant} from './versions.ts';

const versionsPerPage = 20;
const maxTopics = 1000;

/** The page of a template: its preview, its versions, and its actions. */
export function templatePages(parts: DashboardParts): readonly Route[] {
	const {reader} = parts;
	const turns = createTurns();

	async function show(visit: Visit, problem: string | null = null): Promise<Answer> {
		const template = await chosenTemplate(reader, visit);
		const {query, now, may} = visit;
		const saved = await findSaved(reader, template, query.get('version'));
		const content = saved
			? html`${olderVersionNotice(template, saved, visit)}${preview(template, saved, query)}${await versions(template, visit)}`
			: emptyNote(
					html`<p>${template.latest_version === null ? 'No version has been saved yet.' : 'This version does not exist.'}</p><p><a href="/templates/${template.id}/edit">Write one</a>, or push its folder: <code>mailctl template push</code></p>`,
				);
		return {
			kind: 'page',
			place: 'templates',
			title: template.name,
			problem,
			actions: may('operator') ? await actions(template, saved, visit) : nothing,
			content: html`<div class="card">${facts([
				['Id', copyable(template.id, 'the id')],
				['Created', time(template.created_at, now)],
				['Messages', html`<a href="/messages?template=${template.id}">sent with it</a>`],
			])}</div>${content}${may('operator') ? await settings(template) : nothing}`,
		};
	}

	async function settings(template: Template): Promise<Html> {
		const topics = await listTopics(reader, {workspaceId: template.workspace_id, after: null, limit: maxTopics});
		const choices = {topic: topics.map(({code}) => code)};
		const fields = html`<div class="grid">${fieldInputs(settingsFields, {values: template, choices})}</div>`;
		const form = act({to: `/templates/${template.id}/update`, label: 'Save', fields});
		return section('Settings', html`<div class="card stack">${form}</div>`);
	}

	async function actions(template: Template, saved: Saved | undefined, visit: Visit) {
		const {id, latest_version: latest} = template;
		const test =
			saved && saved.version.version === latest
				? disclosure('Send a test', testForm(id, saved, await listSenders(reader, visit.workspace.id), visit))
				: nothing;
		return html`${test}<a class="button main" href="/templates/${id}/edit${languageQuery(visit.query)}">Edit</a>${menu([removal(template)])}`;
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
		const listed = table<ListedVersion>({
			label: 'Versions',
			link: ({version}) => `/templates/${id}?version=${version}`,
			columns: [
				{
					title: 'Version',
					cell: ({version}) =>
						html`${version}${version === latest ? html` ${badge('newest', 'good')}` : nothing}`,
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

	/** Returns a saved version as a message, for a frame. */
	async function frame(visit: Visit): Promise<Answer> {
		const {query, workspace} = visit;
		const template = await chosenTemplate(reader, visit);
		const {version, variants} = await chosenVersion(reader, template, query.get('version'));
		const variant = chosenVariant(variants, query.get('locale')) ?? noTemplate();
		const rendered = await previewVariant(version, variant, {
			workspace,
			data: null,
			locale: variant.locale,
			timezone: null,
			render: job => turns(workspace.id, () => renderInWorker(job)),
		});
		if (!rendered.ok) {
			return textContent(`The template fails at ${rendered.message}. Edit the template or its sample.`);
		}
		return query.get('part') === 'text'
			? textContent(rendered.text)
			: mailContent(rendered.html, query.get('images') === '1');
	}

	const path = '/templates/:id';
	const form = operationForms(parts, {path, show});
	return [
		page(path, show),
		page(`${path}/frame`, frame),
		form(updateTemplate, `${path}/update`, ({id}) =>
			go(`/templates/${id}`, 'Saved. The settings apply to new messages.'),
		),
		form(rollBackTemplate, `${path}/rollback`, ({id, version, restored}) =>
			go(`/templates/${id}`, `Saved version ${version}, equal to version ${restored}. New messages use it.`),
		),
		form(
			removeTemplate,
			`${path}/delete`,
			({name}) => go('/templates', `Deleted ${name}. Messages already accepted are still sent.`),
			{
				async before(visit) {
					const {name} = await chosenTemplate(reader, visit);
					checkTyped(visit, name, `Nothing was deleted: type ${name} to delete it.`);
				},
			},
		),
		testRoute(parts),
	];
}

function languageQuery(query: URLSearchParams): string {
	const locale = query.get('locale');
	return locale === null ? '' : `?locale=${encodeURIComponent(locale)}`;
}

/** Warns that the shown version is not the newest, and offers to restore it. */
function olderVersionNotice({id, latest_version: latest}: Template, {version: {version}}: Saved, {may}: Visit): Html {
	if (version === latest) {
		return nothing;
	}
	return html`<div class="notice warn"><p>This is version ${version}. Messages are sent with version ${latest}: <a href="/templates/${id}/compare?from=${version}&to=${latest}">what changed since</a></p>${
		may('operator') ? rollBackTo(id, version) : nothing
	}</div>`;
}

function rollBackTo(id: string, version: number): Html {
	const fields = hidden('version', version);
	return act({to: `/templates/${id}/rollback`, label: `Roll back to ${version}`, fields, look: 'quiet'});
}

const views = [
	{value: '', label: 'Desktop'},
	{value: 'phone', label: 'Phone'},
	{value: 'text', label: 'Text'},
	{value: 'source', label: 'Source'},
];

/** Shows the message rendered with the version's sample, or its source. */
function preview({id}: Template, {version, variants}: Saved, query: URLSearchParams): Html {
	const variant = chosenVariant(variants, query.get('locale'));
	if (!variant) {
		return nothing;
	}
	const path = `/templates/${id}`;
	const view = query.get('show') ?? '';
	const languages = variants.map(entry =>
		chip(toHref(path, query, {locale: entry.locale ?? ''}), localeName(entry.locale), entry === variant),
	);
	const images = query.get('images') === '1';
	const chips = views.map(({value, label}) =>
		chip(toHref(path, query, {show: value || null}), label, value === view),
	);
	if (view === '' || view === 'phone') {
		const href = toHref(path, query, {images: images ? null : '1'});
		chips.push(chip(href, images ? 'Hide remote images' : 'Show remote images'));
	}
	const frameQuery = new URLSearchParams({version: String(version.version), locale: variant.locale ?? ''});
	if (view === 'text') {
		frameQuery.set('part', 'text');
	}
	if (images) {
		frameQuery.set('images', '1');
	}
	const content =
		view === 'source'
			? source(variant, version)
			: mailFrame({
					path: `${path}/frame?${frameQuery}`,
					title: `Version ${version.version}, ${localeName(variant.locale)}, with the sample's variables`,
					phone: view === 'phone',
				});
	return section(
		`Version ${version.version}`,
		html`${languages.length > 1 ? chipRow('Language', languages) : nothing}${facts([
			['Subject', name(variant.subject)],
			['Layout', version.layout && html`<a href="/layouts/layout/${version.layout}">${version.layout}</a>`],
		])}${chipRow('Show', chips)}${content}`,
	);
}

function source({kind, source, text_source: text}: TemplateVariant, {sample}: TemplateVersion): Html {
	return html`<h3>${kind === 'mjml' ? 'MJML' : 'HTML'}</h3><pre>${source}</pre>${
		text === null ? nothing : html`<h3>Text</h3><pre>${text}</pre>`
	}${sample === null ? nothing : html`<h3>Sample</h3><pre>${sample}</pre>`}`;
}

function removal({id, name}: Template): Html {
	const about = 'Messages already accepted are still sent. Its name can be used again.';
	return dangerItem({to: `/templates/${id}/delete`, label: 'Delete template', about, typed: name});
}

const testFields = listFields(testSend);

/** Sends the newest version with its sample to one address, as an ordinary message with every check of a send. */
function testRoute({reader, accept, mayAccept}: DashboardParts): Route {
	async function show(visit: Visit, problem: string): Promise<Answer> {
		const template = await chosenTemplate(reader, visit);
		const saved = await chosenVersion(reader, template, null);
		const senders = await listSenders(reader, visit.workspace.id);
		return {
			kind: 'page',
			place: 'templates',
			title: `Send a test of ${template.name}`,
			problem: `Nothing was sent: ${problem}`,
			actions: html`<a class="button" href="/templates/${template.id}">Back to the template</a>`,
			content: html`<div class="card">${testForm(template.id, saved, senders, visit)}</div>`,
		};
	}

	async function send(visit: Visit): Promise<Answer> {
		const {form, workspace, tools} = visit;
		const template = await chosenTemplate(reader, visit);
		const {version} = await chosenVersion(reader, template, null);
		const input = readFields<Static<typeof testSend>>(testFields, form);
		const body = {...input, templateId: template.id, data: parseExact(version.sample ?? '{}')};
		const read = readSend(body, {workspaceId: workspace.id, mode: 'live'}, tools.clock.now());
		if (!read.ok) {
			rejectForm((read.violations ?? []).map(({field, message}) => `${field} ${message}.`).join(' '));
		}
		const accepted = mayAccept()
			? await accept.single({...read.send, by: tools.operator}, null)
			: ({ok: false, code: 'unavailable'} as const);
		return accepted.ok
			? go(`/messages/${accepted.id}`, `Version ${version.version} is on its way to ${input.to}.`)
			: rejectForm(apiError(accepted.code).message);
	}

	return pageForms(show)('/templates/:id/test', 'operator', send);
}

/** Returns the form, or what to do first if no sender can be used. */
function testForm(
	id: string,
	{variants}: Saved,
	senders: readonly Sender[],
	{query, form}: Pick<Visit, 'query' | 'form'>,
): Html {
	const usable = senders.filter(
		({verified_at: verified, disabled_at: disabled}) => verified !== null && disabled === null,
	);
	const [defaultSender] = usable;
	if (!defaultSender) {
		return html`<p>No sender is verified yet. <a href="/domains">Add a domain and a sender</a> first.</p>`;
	}
	const fields = fieldInputs(
		testFields.filter(({name}) => name !== 'locale' || variants.length > 1),
		{
			values: {from: defaultSender.address, locale: query.get('locale') ?? variants[0]?.locale},
			typed: form,
			choices: {
				from: usable.map(({address}) => address),
				locale: variants.flatMap(({locale}) => locale ?? []),
			},
			isCompact: true,
		},
	);
	const note = html`<small>Sends the newest version with its sample variables. The test counts as a message.</small>`;
	return html`<div class="stack">${act({to: `/templates/${id}/test`, label: 'Send it', fields: html`${fields}${note}`})}</div>`;
}

/** Throws `Refused` because the template, or a version of it, does not exist. */
export const noTemplate = (): never => notFound('template', '', {page: 'Template not found in this workspace.'});

/** Returns the template that the path names. Throws `Refused` if it does not exist. */
export async function chosenTemplate(reader: Knex, {workspace, params: {id = ''}}: Visit): Promise<Template> {
	return (isTemplateId(id) && (await findTemplate(reader, workspace.id, {id}))) || noTemplate();
}

/** A saved version with its variants. */
export type Saved = {readonly version: TemplateVersion; readonly variants: readonly TemplateVariant[]};

/** Returns the version whose number is `text`, or the newest one if `text` is empty or `null`. */
export async function findSaved(reader: Knex, template: Template, text: string | null): Promise<Saved | undefined> {
	const number = text ? versionNumber(text) : template.latest_version;
	const version = number === null ? undefined : await findVersion(reader, template.row_id, number);
	return version && {version, variants: await listVariants(reader, version.id)};
}

/** Like `findSaved`, but throws `Refused` if the version does not exist. */
export const chosenVersion = async (reader: Knex, template: Template, text: string | null): Promise<Saved> =>
	(await findSaved(reader, template, text)) ?? noTemplate();

export const versionNumber = (text: string): number | null => (/^[1-9]\d{0,8}$/.test(text) ? Number(text) : null);

/** Returns the name of a variant for people. In queries, the default variant has an empty name. */
export const localeName = (locale: string | null): string => locale ?? 'default';

/** Returns the variant that a query names, or the first one. */
export function chosenVariant(
	variants: readonly TemplateVariant[],
	locale: string | null,
): TemplateVariant | undefined {
	return variants.find(variant => variant.locale === (locale === '' ? null : locale)) ?? variants[0];
}
