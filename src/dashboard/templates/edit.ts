import {addVersion, isContent, isTooLargeVersion, largestVersion} from '../../admin/templates.ts';
import {mostVariants} from '../../api/schemas/template.ts';
import type {TemplateVariant} from '../../store/templates.ts';
import {mailContent, textContent} from '../mail-frame.ts';
import {count} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, type Route, type Visit} from '../route.ts';
import {type Checked, createChecks, doubtsSeen} from './checks.ts';
import {chosenTemplate, chosenVersion, localeName, noTemplate, type Saved} from './chosen.ts';
import {type Draft, readDraft} from './draft.ts';
import {type Editor, editorPage} from './editor.ts';
import {firstDraft} from './first-draft.ts';

/** Editing a template, one language at a time. What is saved is the next version: versions never change. */
export function editPages({reader, change}: DashboardParts): readonly Route[] {
	const check = createChecks();

	/** The template that is edited, and the version that the draft was made from. */
	async function edited(visit: Visit, begun: number | null): Promise<Pick<Editor, 'template' | 'base'> | undefined> {
		const template = await chosenTemplate(reader, visit);
		const base = template && (await chosenVersion(reader, template, begun === null ? null : String(begun)));
		return template && {template, base: base ?? null};
	}

	async function open(visit: Visit): Promise<Answer> {
		const found = await edited(visit, null);
		return found
			? editorPage({...found, draft: draftOf(found.base, visit.query), checked: null, status: 200, problem: null})
			: noTemplate;
	}

	async function checkOnly(visit: Visit): Promise<Answer> {
		const draft = readDraft(visit.form);
		const found = await edited(visit, draft.begun);
		return found
			? editorPage({...found, draft, checked: await check(visit.workspace, draft), status: 200, problem: null})
			: noTemplate;
	}

	/** The draft as a mail, for the frame; or why there is none. */
	async function preview(visit: Visit): Promise<Answer> {
		if (!(await chosenTemplate(reader, visit))) {
			return noTemplate;
		}
		const {faults, doubts, mail} = await check(visit.workspace, readDraft(visit.form));
		return mail === null
			? textContent([...faults, ...doubts].join('\n'))
			: mailContent(mail.html, visit.form.get('images') === '1');
	}

	async function save(visit: Visit): Promise<Answer> {
		const draft = readDraft(visit.form);
		const found = await edited(visit, draft.begun);
		if (!found) {
			return noTemplate;
		}
		const {template, base} = found;
		const checked = await check(visit.workspace, draft);
		const again = (problem: string, status = 422, changes: Partial<Editor> = {}) =>
			editorPage({template, base, draft, checked, status, problem, ...changes});
		const {variant, sample} = checked;
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
		const variants = withVariant(others, variant);
		if (variants.length > mostVariants) {
			return again(`A version has at most ${mostVariants} languages: remove one first.`);
		}
		if (isTooLargeVersion(variants)) {
			return again(
				`A version has at most ${count(largestVersion)} characters, all languages and what they compile to together: shorten or remove one.`,
			);
		}
		if (base && template.latest_version === draft.begun && isContent(base.version, {variants, sample})) {
			return go(`/templates/${template.id}`, `Nothing changed: version ${base.version.version} is like this.`);
		}
		const saved = await next(visit, template.id, {variants, sample, after: draft.begun});
		if (saved === undefined) {
			return noTemplate;
		}
		if (saved === 'newer') {
			return await overtaken(visit, draft, checked);
		}
		const language = variant.locale === null ? '' : `?locale=${variant.locale}`;
		return go(`/templates/${template.id}${language}`, `Saved version ${saved.version}. New messages use it.`);
	}

	/** Somebody saved a version meanwhile: nothing is lost, and the next save goes on top of theirs. */
	async function overtaken(visit: Visit, draft: Draft, checked: Checked): Promise<Answer> {
		const found = await edited(visit, null);
		if (!found?.base) {
			return noTemplate;
		}
		const {version} = found.base.version;
		const problem = `Nothing was saved: version ${version} was saved while you edited ${
			draft.begun === null ? 'the first one' : `version ${draft.begun}`
		}. Look at what it changed, take over what you need, then save yours on top of it.`;
		const mine = {...draft, begun: version};
		return editorPage({...found, draft: mine, checked, status: 409, problem, overtook: draft.begun ?? 1});
	}

	async function removeLanguage(visit: Visit): Promise<Answer> {
		const {begun, locale} = readDraft(visit.form);
		const found = await edited(visit, begun);
		const rest = found?.base?.variants.filter(one => (one.locale ?? '') !== locale) ?? [];
		if (!found?.base || rest.length === found.base.variants.length) {
			return noTemplate;
		}
		const {template, base} = found;
		const draft = draftOf(base, new URLSearchParams({locale}));
		if (rest.length === 0) {
			const problem = 'This is the only language: delete the template instead.';
			return editorPage({template, base, draft, checked: null, status: 422, problem});
		}
		const {id} = template;
		const saved = await next(visit, id, {variants: rest, sample: base.version.sample, after: begun});
		if (saved === undefined) {
			return noTemplate;
		}
		return saved === 'newer'
			? go(`/templates/${id}/edit`, 'Nothing was removed: another version was saved meanwhile. Look at it first.')
			: go(`/templates/${id}`, `Saved version ${saved.version} without ${localeName(locale === '' ? null : locale)}.`);
	}

	type Next = {
		readonly variants: readonly TemplateVariant[];
		readonly sample: string | null;
		readonly after: number | null;
	};
	const next = ({tools, workspace}: Visit, id: string, version: Next) =>
		change(trx => addVersion(trx, tools, {workspaceId: workspace.id, id, ...version}));

	const path = '/templates/:id';
	return [
		{method: 'GET', path: `${path}/edit`, role: 'operator', answer: open},
		{method: 'POST', path: `${path}/edit`, role: 'operator', answer: save},
		{method: 'POST', path: `${path}/check`, role: 'operator', answer: checkOnly},
		{method: 'POST', path: `${path}/draft`, role: 'operator', answer: preview},
		{method: 'POST', path: `${path}/languages/delete`, role: 'operator', answer: removeLanguage},
	];
}

/** What the editor begins with: the variant that the query names, or one of a new language, like the first one. */
function draftOf(base: Saved | null, query: URLSearchParams): Draft {
	const added = query.get('add') === '1' && base !== null;
	const named = query.get('locale');
	const variant = base?.variants.find(({locale}) => locale === (named === '' ? null : named)) ?? base?.variants[0];
	if (!base || !variant) {
		return firstDraft;
	}
	return {
		begun: base.version.version,
		locale: added ? '' : (variant.locale ?? ''),
		added,
		subject: variant.subject,
		kind: variant.kind,
		source: variant.source,
		text: variant.text_source ?? '',
		sample: base.version.sample ?? '',
	};
}

/** In its place, or as the last one. */
function withVariant(others: readonly TemplateVariant[], variant: TemplateVariant): readonly TemplateVariant[] {
	return others.some(({locale}) => locale === variant.locale)
		? others.map(one => (one.locale === variant.locale ? variant : one))
		: [...others, variant];
}
