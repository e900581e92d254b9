import {mailContent, mailFrame, textContent} from '../../dashboard/mail-frame.ts';
import {
	act,
	checkbox,
	chip,
	chipRow,
	count,
	dangerItem,
	hidden,
	input,
	join,
	menu,
	name,
	nothing,
	select,
	textarea,
} from '../../dashboard/markup.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, type Page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {Refused} from '../operation.ts';
import {
	type Checked,
	createChecks,
	type Draft,
	firstDraft,
	gmailOctets,
	kilobytes,
	readDraft,
	warningsDigest,
} from './draft-page.ts';
import {type LayoutSnapshot, planChange} from './layouts.ts';
import {listLayouts} from './layouts-store.ts';
import {maxVariants} from './schema.ts';
import type {Template, TemplateVariant} from './store.ts';
import {chosenTemplate, chosenVariant, findSaved, localeName, noTemplate, type Saved} from './template-page.ts';
import {addVersion, type Content, isContent, isTooLargeVersion, maxVersionLength, variantSource} from './versions.ts';

type Editor = {
	readonly template: Template;
	/** The version that the draft is based on, or `null` if the template has no version. */
	readonly base: Saved | null;
	/** The names of the layouts that can be chosen. */
	readonly layouts: readonly string[];
	readonly draft: Draft;
	/** `null` if nothing has been checked yet. */
	readonly checked: Checked | null;
	readonly problem?: string;
	/** The version that the draft was based on before another user saved a newer one (status 409). */
	readonly outdated?: number;
};

/** Edits a template, one language at a time. Saving creates the next version, because versions are immutable. */
export function editorPages({reader, change}: DashboardParts): readonly Route[] {
	const check = createChecks(reader);

	/** Reads the edited template and the version that the draft is based on: the newest if `begun` is `null`. */
	async function readEdited(visit: Visit, begun: number | null) {
		const template = await chosenTemplate(reader, visit);
		const base = (await findSaved(reader, template, begun === null ? null : String(begun))) ?? null;
		const listed = await listLayouts(reader, visit.workspace.id);
		return {template, base, layouts: listed.flatMap(({kind, name}) => (kind === 'layout' ? [name] : []))};
	}

	async function open(visit: Visit): Promise<Answer> {
		const edited = await readEdited(visit, null);
		return editorPage({...edited, draft: toDraft(edited.base, visit.query), checked: null});
	}

	async function checkOnly(visit: Visit): Promise<Answer> {
		const draft = readDraft(visit.form);
		const edited = await readEdited(visit, draft.begun);
		return editorPage({...edited, draft, checked: await check(visit.workspace, draft)});
	}

	/** Returns the draft as a message for the frame, or the reasons why it cannot be shown. */
	async function preview(visit: Visit): Promise<Answer> {
		await chosenTemplate(reader, visit);
		const {errors, warnings, mail} = await check(visit.workspace, readDraft(visit.form));
		return mail === null
			? textContent([...errors, ...warnings].join('\n'))
			: mailContent(mail.html, visit.form.get('images') === '1');
	}

	async function save(visit: Visit): Promise<Answer> {
		const draft = readDraft(visit.form);
		const edited = await readEdited(visit, draft.begun);
		const {template, base} = edited;
		const checked = await check(visit.workspace, draft);
		const showAgain = (problem: string) => editorPage({...edited, draft, checked, problem});
		const {variant, sample, known} = checked;
		const layout = draft.layout || null;
		if (variant === null) {
			return showAgain('Nothing was saved. Fix the problems that the checks found.');
		}
		if (checked.warnings.length > 0 && visit.form.get('seen') !== warningsDigest(checked.warnings)) {
			return showAgain('Nothing was saved yet. Review the warnings, then save again if they are intended.');
		}
		const others = base?.variants ?? [];
		if (draft.added && others.some(({locale}) => locale === variant.locale)) {
			return showAgain(`A variant for ${localeName(variant.locale)} already exists. Edit that one.`);
		}
		const compiledOthers = await compileOthers(template, layout, known, others);
		if (typeof compiledOthers === 'string') {
			return showAgain(`Nothing was saved: ${compiledOthers}`);
		}
		const variants = withVariant(compiledOthers, variant);
		if (variants.length > maxVariants) {
			return showAgain(`A version can have at most ${maxVariants} languages. Remove one first.`);
		}
		if (isTooLargeVersion(variants)) {
			return showAgain(
				`A version can have at most ${count(maxVersionLength)} characters, including all languages and their compiled output. Shorten or remove a language.`,
			);
		}
		if (base && template.latest_version === draft.begun && isContent(base.version, {variants, sample, layout})) {
			return go(`/templates/${template.id}`, `Nothing changed: version ${base.version.version} is identical.`);
		}
		const saved = await saveNext(visit, template.id, {
			variants,
			sample,
			layout,
			layouts: known.layouts,
			after: draft.begun,
		}).catch(layoutConflict);
		if (saved === 'newer') {
			return await showOutdated(visit, draft, checked);
		}
		if (typeof saved === 'string') {
			return showAgain(`Nothing was saved. ${saved} Save again.`);
		}
		const language = variant.locale === null ? '' : `?locale=${variant.locale}`;
		return go(`/templates/${template.id}${language}`, `Saved version ${saved.version}. New messages use it.`);
	}

	/** Shows that another user has saved a version. The draft is retained, and from now on based on that version. */
	async function showOutdated(visit: Visit, draft: Draft, checked: Checked): Promise<Answer> {
		const edited = await readEdited(visit, null);
		const {version} = edited.base?.version ?? noTemplate();
		const problem = `Nothing was saved: version ${version} was saved while you edited ${
			draft.begun === null ? 'the first one' : `version ${draft.begun}`
		}. Review its changes and copy what you need, then save yours as the next version.`;
		const rebased = {...draft, begun: version};
		return editorPage({...edited, draft: rebased, checked, problem, outdated: draft.begun ?? 1});
	}

	async function removeLanguage(visit: Visit): Promise<Answer> {
		const {begun, locale} = readDraft(visit.form);
		const edited = await readEdited(visit, begun);
		const {template, base} = edited;
		const {version, variants} = base ?? noTemplate();
		const rest = variants.filter(variant => (variant.locale ?? '') !== locale);
		if (rest.length === variants.length) {
			noTemplate();
		}
		if (rest.length === 0) {
			const draft = toDraft(base, new URLSearchParams({locale}));
			const problem = 'This is the only language. Delete the template instead.';
			return editorPage({...edited, draft, checked: null, problem});
		}
		const {id} = template;
		const saved = await saveNext(visit, id, {...version, variants: rest, after: begun});
		return saved === 'newer'
			? go(`/templates/${id}/edit`, 'Nothing was removed: another version was saved meanwhile. Review it first.')
			: go(`/templates/${id}`, `Saved version ${saved.version} without ${localeName(locale || null)}.`);
	}

	type NextContent = Content & {readonly after: number | null};
	const saveNext = async ({tools, workspace}: Visit, id: string, content: NextContent) =>
		(await change(trx => addVersion(trx, tools, {...content, workspaceId: workspace.id, id}))) ?? noTemplate();

	const path = '/templates/:id';
	return [
		{method: 'GET', path: `${path}/edit`, role: 'operator', answer: open},
		{method: 'POST', path: `${path}/edit`, role: 'operator', answer: save},
		{method: 'POST', path: `${path}/check`, role: 'operator', answer: checkOnly},
		{method: 'POST', path: `${path}/draft`, role: 'operator', answer: preview},
		{method: 'POST', path: `${path}/languages/delete`, role: 'operator', answer: removeLanguage},
	];
}

/** Returns the message of the refusal if a layout was changed in the meantime. */
function layoutConflict(error: unknown): string {
	if (error instanceof Refused && error.code === 'conflict') {
		return error.page;
	}
	throw error;
}

/** Returns the initial draft: the variant that the query names, or a copy of the first one for a new language. */
function toDraft(base: Saved | null, query: URLSearchParams): Draft {
	const variant = base && chosenVariant(base.variants, query.get('locale'));
	if (!variant) {
		return firstDraft;
	}
	const added = query.get('add') === '1';
	const {mjml, html: htmlSource = '', text = ''} = variantSource(variant);
	return {
		begun: base.version.version,
		locale: added ? '' : (variant.locale ?? ''),
		added,
		subject: variant.subject,
		kind: variant.kind,
		source: mjml ?? htmlSource,
		text,
		layout: base.version.layout ?? '',
		sample: base.version.sample ?? '',
	};
}

/**
 * Compiles the other languages in the layout of the next version. Returns them unchanged if neither they nor that
 * version use one, and a sentence if one does not compile.
 */
async function compileOthers(
	{id, name}: Template,
	layout: string | null,
	known: LayoutSnapshot,
	others: readonly TemplateVariant[],
): Promise<readonly TemplateVariant[] | string> {
	if (layout === null && others.every(variant => variant.own_source === null)) {
		return others;
	}
	const variants = others.map(variant => ({...variantSource(variant), layout}));
	const planned = await planChange({...known, users: []}, [], [{id, name, variants, sample: null, layout}]);
	return planned.ok ? (planned.change.templates[0]?.variants ?? []) : `${planned.problems[0]}.`;
}

/** Replaces the variant of the same language, or appends it. */
function withVariant(others: readonly TemplateVariant[], variant: TemplateVariant): readonly TemplateVariant[] {
	return others.some(({locale}) => locale === variant.locale)
		? others.map(other => (other.locale === variant.locale ? variant : other))
		: [...others, variant];
}

const frameName = 'draft';

/** Shows the form at the left and its result at the right. With JavaScript, the result follows each pause in typing. */
function editorPage(editor: Editor): Page {
	const {template, base, checked, problem = null, outdated} = editor;
	const path = `/templates/${template.id}`;
	return {
		kind: 'page',
		...(outdated !== undefined && {status: 409}),
		place: 'templates',
		title: `Edit ${template.name}`,
		problem,
		actions: html`<a class="button" href="${path}">Back to the template</a>${removal(editor, path)}`,
		content: html`${
			outdated === undefined || base === null
				? nothing
				: html`<p><a href="${path}/compare?from=${outdated}&to=${base.version.version}" target="_blank">Changes in version ${base.version.version}</a></p>`
		}${languages(editor, path)}<div class="halves"><div class="stack">${form(editor, path)}</div><div class="watch">${checks(checked, path)}${frame(editor, path)}</div></div>`,
	};
}

function languages({base, draft}: Editor, path: string): Html {
	const variants = base?.variants ?? [];
	const links = variants.map(({locale}) => {
		const isCurrent = !draft.added && (locale ?? '') === draft.locale;
		return chip(`${path}/edit?locale=${encodeURIComponent(locale ?? '')}`, localeName(locale), isCurrent);
	});
	const add = chip(`${path}/edit?add=1`, 'Add a language', draft.added);
	return links.length === 0 ? nothing : chipRow('Language', [...links, add]);
}

function form({draft, layouts}: Editor, path: string): Html {
	const {begun, locale, added, subject, kind, source, text, layout, sample} = draft;
	const choices = [...new Set(['', ...layouts, layout])].map(value => ({value, label: value || 'none'}));
	const kinds = [
		{value: 'mjml', label: 'MJML'},
		{value: 'html', label: 'HTML'},
	];
	const fields = join([
		hidden('begun', begun ?? ''),
		added
			? html`${hidden('added', '1')}${input({
					name: 'locale',
					label: 'Language',
					value: locale,
					placeholder: 'de',
					hint: 'A tag such as de or pt-BR.',
					required: true,
				})}`
			: hidden('locale', locale),
		input({name: 'subject', label: 'Subject', value: subject}),
		select({name: 'kind', label: 'Source format', value: kind}, kinds),
		choices.length > 1
			? select({name: 'layout', label: 'Layout (all languages)', value: layout}, choices)
			: nothing,
		textarea({name: 'source', label: 'Source', value: source}, 24),
		textarea({name: 'sample', label: 'Sample variables (JSON, all languages)', value: sample}, 8),
		textarea({name: 'text', label: 'Text part', value: text, hint: 'Derived from the source if empty.'}, 4),
		checkbox('images', '1', 'Show remote images in the preview'),
		html`<div class="actions"><button formaction="${path}/draft" formtarget="${frameName}" data-preview>Preview</button><button formaction="${path}/check" data-live>Check</button></div>`,
	]);
	return act({to: `${path}/edit`, label: 'Save as a new version', fields, id: 'editor'});
}

/** Shows the results of the checks. With JavaScript they are fetched again while the user types. */
function checks(checked: Checked | null, path: string): Html {
	return html`<div id="checks" hx-post="${path}/check" hx-include="#editor" hx-trigger="input from:#editor delay:600ms" hx-select="#checks" hx-swap="outerMorph" role="status">${
		checked && results(checked)
	}</div>`;
}

function results({errors, warnings, mail}: Checked): Html {
	const lines = [...errors, ...warnings].map(line => html`<li>${line}</li>`);
	const tone = errors.length > 0 ? 'bad' : warnings.length > 0 ? 'warn' : 'good';
	const verdict = {
		bad: 'Fix these problems before you save:',
		warn: 'Review these warnings before you save:',
		good: 'The checks found no problems.',
	}[tone];
	return html`<div class="notice ${tone}"><p>${verdict}</p>${lines.length === 0 ? nothing : html`<ul>${lines}</ul>`}</div>${
		mail &&
		html`<p><strong>${name(mail.subject)}</strong> <span class="soft">${kilobytes(Buffer.byteLength(mail.html))} of ${kilobytes(gmailOctets)} that Gmail shows</span></p>`
	}<input type="hidden" name="seen" form="editor" value="${warningsDigest(warnings)}">`;
}

/** The preview. It shows the saved version until the draft is previewed. */
function frame({template, base, draft, checked}: Editor, path: string): Html {
	const isSaved = base !== null && checked === null && template.latest_version === base.version.version;
	const title = 'Preview with the sample variables';
	return mailFrame({
		name: frameName,
		title,
		...(isSaved && {path: `${path}/frame?locale=${encodeURIComponent(draft.locale)}`}),
	});
}

function removal({base, draft}: Editor, path: string): Html {
	if (draft.added || (base?.variants.length ?? 0) < 2) {
		return nothing;
	}
	const label = localeName(draft.locale || null);
	const about = 'It stays in older versions. Its recipients receive another language.';
	const fields = join([hidden('begun', draft.begun ?? ''), hidden('locale', draft.locale)]);
	return menu([dangerItem({to: `${path}/languages/delete`, label: `Remove language ${label}`, about, fields})]);
}
