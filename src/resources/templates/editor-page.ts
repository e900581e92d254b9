import {mailContent, mailFrame, textContent} from '../../dashboard/mail-frame.ts';
import {
	act,
	checkbox,
	chip,
	chipRow,
	count,
	hidden,
	input,
	join,
	name,
	nothing,
	opened,
	section,
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
	doubtsSeen,
	firstDraft,
	gmailOctets,
	kilobytes,
	readDraft,
} from './draft-page.ts';
import {type Known, planChange} from './layouts.ts';
import {listLayouts} from './layouts-store.ts';
import {maxVariants} from './schema.ts';
import type {Template, TemplateVariant} from './store.ts';
import {chosenTemplate, chosenVariant, findSaved, localeName, noTemplate, type Saved} from './template-page.ts';
import {addVersion, type Content, isContent, isTooLargeVersion, largestVersion, variantSource} from './versions.ts';

type Editor = {
	readonly template: Template;
	/** The version that the draft is based on; null: the template has no version. */
	readonly base: Saved | null;
	/** The names that the version's layout may have. */
	readonly layouts: readonly string[];
	readonly draft: Draft;
	/** Null: nothing was checked yet. */
	readonly checked: Checked | null;
	readonly problem?: string;
	/** Another version than `draft.begun` was saved meanwhile (409): what the draft was made from before. */
	readonly overtook?: number;
};

/** Editing a template, one language at a time. What is saved is the next version: versions never change. */
export function editorPages({reader, change}: DashboardParts): readonly Route[] {
	const check = createChecks(reader);

	/** The template that is edited, and the version that the draft was made from; null: the newest. */
	async function edited(visit: Visit, begun: number | null): Promise<Pick<Editor, 'template' | 'base' | 'layouts'>> {
		const template = await chosenTemplate(reader, visit);
		const base = (await findSaved(reader, template, begun === null ? null : String(begun))) ?? null;
		const all = await listLayouts(reader, visit.workspace.id);
		return {template, base, layouts: all.flatMap(({kind, name}) => (kind === 'layout' ? [name] : []))};
	}

	async function open(visit: Visit): Promise<Answer> {
		const found = await edited(visit, null);
		return editorPage({...found, draft: toDraft(found.base, visit.query), checked: null});
	}

	async function checkOnly(visit: Visit): Promise<Answer> {
		const draft = readDraft(visit.form);
		const found = await edited(visit, draft.begun);
		return editorPage({...found, draft, checked: await check(visit.workspace, draft)});
	}

	/** The draft as a mail, for the frame; or why it cannot be shown. */
	async function preview(visit: Visit): Promise<Answer> {
		await chosenTemplate(reader, visit);
		const {faults, doubts, mail} = await check(visit.workspace, readDraft(visit.form));
		return mail === null
			? textContent([...faults, ...doubts].join('\n'))
			: mailContent(mail.html, visit.form.get('images') === '1');
	}

	async function save(visit: Visit): Promise<Answer> {
		const draft = readDraft(visit.form);
		const found = await edited(visit, draft.begun);
		const {template, base} = found;
		const checked = await check(visit.workspace, draft);
		const again = (problem: string) => editorPage({...found, draft, checked, problem});
		const {variant, sample, known} = checked;
		const layout = draft.layout || null;
		if (variant === null) {
			return again('Nothing was saved: correct what the checks found.');
		}
		if (checked.doubts.length > 0 && visit.form.get('seen') !== doubtsSeen(checked.doubts)) {
			return again('Nothing was saved yet: look at what the checks found, then save again if it is meant so.');
		}
		const others = base?.variants ?? [];
		if (draft.added && others.some(({locale}) => locale === variant.locale)) {
			return again(`There is a variant for ${localeName(variant.locale)} already: edit that one.`);
		}
		const inLayout = await compiledIn(template, layout, known, others);
		if (typeof inLayout === 'string') {
			return again(`Nothing was saved: ${inLayout}`);
		}
		const variants = withVariant(inLayout, variant);
		if (variants.length > maxVariants) {
			return again(`A version has at most ${maxVariants} languages: remove one first.`);
		}
		if (isTooLargeVersion(variants)) {
			return again(
				`A version has at most ${count(largestVersion)} characters, all languages and what they compile to together: shorten or remove one.`,
			);
		}
		if (base && template.latest_version === draft.begun && isContent(base.version, {variants, sample, layout})) {
			return go(`/templates/${template.id}`, `Nothing changed: version ${base.version.version} is like this.`);
		}
		const saved = await next(visit, template.id, {
			variants,
			sample,
			layout,
			layouts: known.layouts,
			after: draft.begun,
		}).catch(staleLayout);
		if (saved === 'newer') {
			return await overtaken(visit, draft, checked);
		}
		if (typeof saved === 'string') {
			return again(`Nothing was saved. ${saved} Save once more.`);
		}
		const language = variant.locale === null ? '' : `?locale=${variant.locale}`;
		return go(`/templates/${template.id}${language}`, `Saved version ${saved.version}. New messages use it.`);
	}

	/** Another user saved a version meanwhile: nothing is lost, and the next save goes on top of theirs. */
	async function overtaken(visit: Visit, draft: Draft, checked: Checked): Promise<Answer> {
		const found = await edited(visit, null);
		const {version} = found.base?.version ?? noTemplate();
		const problem = `Nothing was saved: version ${version} was saved while you edited ${
			draft.begun === null ? 'the first one' : `version ${draft.begun}`
		}. Look at what it changed, take over what you need, then save yours on top of it.`;
		const mine = {...draft, begun: version};
		return editorPage({...found, draft: mine, checked, problem, overtook: draft.begun ?? 1});
	}

	async function removeLanguage(visit: Visit): Promise<Answer> {
		const {begun, locale} = readDraft(visit.form);
		const found = await edited(visit, begun);
		const {template, base} = found;
		const {version, variants} = base ?? noTemplate();
		const rest = variants.filter(one => (one.locale ?? '') !== locale);
		if (rest.length === variants.length) {
			noTemplate();
		}
		if (rest.length === 0) {
			const draft = toDraft(base, new URLSearchParams({locale}));
			const problem = 'This is the only language: delete the template instead.';
			return editorPage({...found, draft, checked: null, problem});
		}
		const {id} = template;
		const saved = await next(visit, id, {...version, variants: rest, after: begun});
		return saved === 'newer'
			? go(`/templates/${id}/edit`, 'Nothing was removed: another version was saved meanwhile. Look at it first.')
			: go(`/templates/${id}`, `Saved version ${saved.version} without ${localeName(locale || null)}.`);
	}

	type Next = Content & {readonly after: number | null};
	const next = async ({tools, workspace}: Visit, id: string, version: Next) =>
		(await change(trx => addVersion(trx, tools, {...version, workspaceId: workspace.id, id}))) ?? noTemplate();

	const path = '/templates/:id';
	return [
		{method: 'GET', path: `${path}/edit`, role: 'operator', answer: open},
		{method: 'POST', path: `${path}/edit`, role: 'operator', answer: save},
		{method: 'POST', path: `${path}/check`, role: 'operator', answer: checkOnly},
		{method: 'POST', path: `${path}/draft`, role: 'operator', answer: preview},
		{method: 'POST', path: `${path}/languages/delete`, role: 'operator', answer: removeLanguage},
	];
}

/** What a layout's change meanwhile makes of a save, as a sentence. */
function staleLayout(error: unknown): string {
	if (error instanceof Refused && error.code === 'conflict') {
		return error.page;
	}
	throw error;
}

/** What the editor begins with: the variant that the query names, or one of a new language, like the first one. */
function toDraft(base: Saved | null, query: URLSearchParams): Draft {
	const variant = base && chosenVariant(base.variants, query.get('locale'));
	if (!variant) {
		return firstDraft;
	}
	const added = query.get('add') === '1';
	const {mjml, html: own = '', text = ''} = variantSource(variant);
	return {
		begun: base.version.version,
		locale: added ? '' : (variant.locale ?? ''),
		added,
		subject: variant.subject,
		kind: variant.kind,
		source: mjml ?? own,
		text,
		layout: base.version.layout ?? '',
		sample: base.version.sample ?? '',
	};
}

/**
 * The other languages in the layout that the version gets: it has one. As they are where they use none. A sentence: one
 * does not compile in it.
 */
async function compiledIn(
	{id, name}: Template,
	layout: string | null,
	known: Known,
	others: readonly TemplateVariant[],
): Promise<readonly TemplateVariant[] | string> {
	if (layout === null && others.every(one => one.own_source === null)) {
		return others;
	}
	const variants = others.map(one => ({...variantSource(one), layout}));
	const planned = await planChange({...known, users: []}, [], [{id, name, variants, sample: null, layout}]);
	return planned.ok ? (planned.change.templates[0]?.variants ?? []) : `${planned.problems[0]}.`;
}

/** In its place, or as the last one. */
function withVariant(others: readonly TemplateVariant[], variant: TemplateVariant): readonly TemplateVariant[] {
	return others.some(({locale}) => locale === variant.locale)
		? others.map(one => (one.locale === variant.locale ? variant : one))
		: [...others, variant];
}

const frameName = 'draft';

/** The form at the left; at the right what it makes. With script both follow each pause in typing. */
function editorPage(editor: Editor): Page {
	const {template, base, checked, problem = null, overtook} = editor;
	const path = `/templates/${template.id}`;
	return {
		kind: 'page',
		...(overtook !== undefined && {status: 409}),
		place: 'templates',
		title: `Edit ${template.name}`,
		problem,
		actions: html`<a class="button" href="${path}">Back to the template</a>`,
		content: html`${
			overtook === undefined || base === null
				? nothing
				: html`<p><a href="${path}/compare?from=${overtook}&to=${base.version.version}" target="_blank">What version ${base.version.version} changed</a></p>`
		}${languages(editor, path)}<div class="halves"><div class="stack">${form(editor, path)}</div><div class="watch">${checks(checked, path)}${frame(editor, path)}</div></div>${removal(editor, path)}`,
	};
}

function languages({base, draft}: Editor, path: string): Html {
	const variants = base?.variants ?? [];
	const links = variants.map(({locale}) => {
		const isHere = !draft.added && (locale ?? '') === draft.locale;
		return chip(`${path}/edit?locale=${encodeURIComponent(locale ?? '')}`, localeName(locale), isHere);
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
		select({name: 'kind', label: 'The source is', value: kind}, kinds),
		choices.length > 1
			? select({name: 'layout', label: 'Layout, of all languages', value: layout}, choices)
			: nothing,
		textarea({name: 'source', label: 'Source', value: source}, 24),
		textarea({name: 'sample', label: 'Sample variables, JSON, of all languages', value: sample}, 8),
		textarea({name: 'text', label: 'Text part', value: text, hint: 'Empty: made from the source.'}, 4),
		checkbox('images', '1', 'Show remote images in the preview'),
		html`<div class="actions"><button formaction="${path}/draft" formtarget="${frameName}" data-preview>Preview</button><button formaction="${path}/check" data-live>Check</button></div>`,
	]);
	return act({to: `${path}/edit`, label: 'Save as a new version', fields, id: 'editor'});
}

/** What was found, with what a further save says of it. Fetched again with script. */
function checks(checked: Checked | null, path: string): Html {
	return html`<div id="checks" hx-post="${path}/check" hx-include="#editor" hx-trigger="input from:#editor delay:600ms" hx-select="#checks" hx-swap="outerMorph" role="status">${
		checked && found(checked)
	}</div>`;
}

function found({faults, doubts, mail}: Checked): Html {
	const lines = [...faults, ...doubts].map(line => html`<li>${line}</li>`);
	const tone = faults.length > 0 ? 'bad' : doubts.length > 0 ? 'warn' : 'good';
	const verdict = {
		bad: 'It cannot be saved like this:',
		warn: 'It can be saved, but look at this first:',
		good: 'The checks found nothing wrong.',
	}[tone];
	return html`<div class="notice ${tone}"><p>${verdict}</p>${lines.length === 0 ? nothing : html`<ul>${lines}</ul>`}</div>${
		mail &&
		html`<p><strong>${name(mail.subject)}</strong> <span class="soft">${kilobytes(Buffer.byteLength(mail.html))} of ${kilobytes(gmailOctets)} that Gmail shows</span></p>`
	}<input type="hidden" name="seen" form="editor" value="${doubtsSeen(doubts)}">`;
}

/** Before anything was previewed, how the saved version looks. */
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
	const fields = join([hidden('begun', draft.begun ?? ''), hidden('locale', draft.locale)]);
	return section(
		'Remove',
		opened(
			`Remove the variant ${label}`,
			html`<p>It stays in older versions. Its recipients get another language.</p>${act({to: `${path}/languages/delete`, label: 'Remove it', fields, look: 'danger'})}`,
		),
	);
}
