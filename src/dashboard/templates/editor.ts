import {type Html, html} from '../../hosted/html.ts';
import type {Template} from '../../store/templates.ts';
import {mailFrame} from '../mail-frame.ts';
import {act, input, join, name, nothing, opened, section, select, textarea} from '../markup.ts';
import type {Page} from '../route.ts';
import {type Checked, doubtsSeen, gmailOctets, kilobytes} from './checks.ts';
import {localeName, type Saved} from './chosen.ts';
import type {Draft} from './draft.ts';

export type Editor = {
	readonly template: Template;
	/** The version that the draft is made from; null: there is none. */
	readonly base: Saved | null;
	readonly draft: Draft;
	/** Null: nothing was checked yet. */
	readonly checked: Checked | null;
	readonly status: number;
	readonly problem: string | null;
	/** The version that the draft was made from before another one was saved. */
	readonly overtook?: number;
};

const frameName = 'draft';

/** The form at the left; at the right what it makes. With script both follow each pause in typing. */
export function editorPage(editor: Editor): Page {
	const {template, base, draft, checked, status, problem, overtook} = editor;
	const path = `/templates/${template.id}`;
	return {
		kind: 'page',
		status,
		place: 'templates',
		title: `Edit ${template.name}`,
		problem,
		actions: html`<a class="button" href="${path}">Back to the template</a>`,
		content: html`${
			overtook === undefined || base === null
				? nothing
				: html`<p><a href="${path}/compare?from=${overtook}&to=${base.version.version}" target="_blank">What version ${base.version.version} changed</a></p>`
		}${languages(editor, path)}<div class="halves"><div class="stack">${form(draft, path)}</div><div class="watch">${checks(checked, path)}${frame(editor, path)}</div></div>${removal(editor, path)}`,
	};
}

function languages({base, draft}: Editor, path: string): Html {
	const variants = base?.variants ?? [];
	const chip = (query: string, label: string, isHere: boolean) =>
		html`<a class="chip" href="${path}/edit?${query}"${isHere ? html` aria-current="true"` : nothing}>${label}</a>`;
	return variants.length === 0
		? nothing
		: html`<nav class="chips" aria-label="Language">${variants.map(({locale}) =>
				chip(
					`locale=${encodeURIComponent(locale ?? '')}`,
					localeName(locale),
					!draft.added && (locale ?? '') === draft.locale,
				),
			)}${chip('add=1', 'Add a language', draft.added)}</nav>`;
}

function form({begun, locale, added, subject, kind, source, text, sample}: Draft, path: string): Html {
	const kinds = [
		{value: 'mjml', label: 'MJML'},
		{value: 'html', label: 'HTML'},
	];
	const fields = join([
		html`<input type="hidden" name="begun" value="${begun ?? ''}">`,
		added
			? html`<input type="hidden" name="added" value="1">${input({
					name: 'locale',
					label: 'Language',
					value: locale,
					placeholder: 'de',
					hint: 'A tag such as de or pt-BR.',
					required: true,
				})}`
			: html`<input type="hidden" name="locale" value="${locale}">`,
		input({name: 'subject', label: 'Subject', value: subject}),
		select({name: 'kind', label: 'The source is', value: kind}, kinds),
		textarea({name: 'source', label: 'Source', value: source}, 24),
		textarea({name: 'sample', label: 'Sample variables, JSON, of all languages', value: sample}, 8),
		textarea({name: 'text', label: 'Text part', value: text, hint: 'Empty: made from the source.'}, 4),
		html`<label class="field check"><input type="checkbox" name="images" value="1"><span>Show remote images in the preview</span></label>`,
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
	const label = localeName(draft.locale === '' ? null : draft.locale);
	const fields = html`<input type="hidden" name="begun" value="${draft.begun ?? ''}"><input type="hidden" name="locale" value="${draft.locale}">`;
	return section(
		'Remove',
		opened(
			`Remove the variant ${label}`,
			html`<p>It stays in older versions. Its recipients get another language.</p>${act({to: `${path}/languages/delete`, label: 'Remove it', fields, look: 'danger'})}`,
		),
	);
}
