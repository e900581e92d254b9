import {count, emptyNote, section, select} from '../../dashboard/markup.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {diffLines, type Folded, fold, maxDiffLines} from '../../kit/diff.ts';
import {inSlice} from '../../kit/turns.ts';
import type {TemplateVariant} from './store.ts';
import {chosenTemplate, chosenVersion, localeName, noTemplate, type Saved, versionNumber} from './template-page.ts';

/** The number of versions in the lists. Links open older ones. */
const maxChoices = 100;

/** The page that compares two versions of a template. */
export function comparePages({reader}: DashboardParts): readonly Route[] {
	async function compare(visit: Visit): Promise<Answer> {
		const template = await chosenTemplate(reader, visit);
		const latest = template.latest_version ?? noTemplate();
		const to = versionNumber(visit.query.get('to') ?? '') ?? latest;
		const from = versionNumber(visit.query.get('from') ?? '') ?? Math.max(1, to - 1);
		const saved = (version: number) => chosenVersion(reader, template, String(version));
		const [before, after] = await Promise.all([saved(from), saved(to)]);
		const changes = await changesBetween(
			{variants: before.variants, sample: before.version.sample},
			{variants: after.variants, sample: after.version.sample},
		);
		return {
			kind: 'page',
			place: 'templates',
			title: `${template.name}: versions ${from} and ${to}`,
			actions: html`<a class="button" href="/templates/${template.id}">Back to the template</a>`,
			content: html`${chooser(template.id, latest, from, to)}${
				changes.length > 0 ? changes : emptyNote(html`<p>Versions ${from} and ${to} are the same.</p>`)
			}`,
		};
	}

	return [page('/templates/:id/compare', compare)];
}

function chooser(id: string, latest: number, from: number, to: number): Html {
	const newest = Array.from({length: Math.min(latest, maxChoices)}, (_, index) => latest - index);
	const choices = [...new Set([...newest, from, to])].map(number => ({
		value: `${number}`,
		label: `Version ${number}`,
	}));
	return html`<form class="act full" action="/templates/${id}/compare">${select({name: 'from', label: 'From', value: String(from)}, choices)}${select({name: 'to', label: 'To', value: String(to)}, choices)}<button>Compare</button></form>`;
}

/** A part of a version with its text on both sides, which is `null` if that side does not have the part. */
type Compared = readonly [title: string, before: string | null, after: string | null];

type Side = Pick<Saved, 'variants'> & {readonly sample: string | null};

/** Compares one part at a time, so that other requests can run in between. */
export async function changesBetween(before: Side, after: Side): Promise<Html[]> {
	const locales = new Set([...before.variants, ...after.variants].map(({locale}) => locale));
	const parts = [...locales].flatMap((locale): Compared[] => {
		const find = ({variants}: Side) => variants.find(variant => variant.locale === locale);
		const [oldVariant, newVariant] = [find(before), find(after)];
		const part = (title: string, toText: (variant: TemplateVariant) => string | null): Compared => [
			locales.size === 1 ? title : `${title}, ${localeName(locale)}`,
			oldVariant ? toText(oldVariant) : null,
			newVariant ? toText(newVariant) : null,
		];
		return [
			part('Subject', ({subject}) => subject),
			part('Source', ({kind, source}) => `${kind === 'mjml' ? 'MJML' : 'HTML'}\n${source}`),
			part('Text', ({text_source: text}) => text),
		];
	});
	parts.push(['Sample', before.sample, after.sample]);
	const changed = parts.filter(([, oldText, newText]) => oldText !== newText);
	const changes: Html[] = [];
	for (const [title, oldText, newText] of changed) {
		const diff = await inSlice(() => diffLines(oldText ?? '', newText ?? ''));
		if (diff === null) {
			changes.push(
				section(title, html`<p>More than ${count(maxDiffLines)} lines differ. They are not shown.</p>`),
			);
			continue;
		}
		const lines = await inSlice(() => fold(diff));
		const visible = truncate(lines, maxShownLength / changed.length);
		const note = visible !== lines ? html`<em>Only the beginning is shown.</em>` : null;
		changes.push(section(title, html`<pre class="diff">${visible.map(renderLine)}${note}</pre>`));
	}
	return changes;
}

/** The maximum number of characters of all parts that are shown. A line counts as at least a hundred. */
const maxShownLength = 1024 * 1024;
const minLineLength = 100;

function truncate(lines: readonly Folded[], maxLength: number): readonly Folded[] {
	let remaining = maxLength;
	for (const [index, line] of lines.entries()) {
		const length = line.kind === 'folded' ? 0 : line.text.length;
		if (Math.max(minLineLength, length) > remaining) {
			const cut = line.kind === 'folded' ? [] : [{...line, text: line.text.slice(0, remaining)}];
			return [...lines.slice(0, index), ...cut];
		}
		remaining -= Math.max(minLineLength, length);
	}
	return lines;
}

function renderLine(line: Folded): Html {
	switch (line.kind) {
		case 'folded':
			return html`<span class="soft">… ${count(line.count)} unchanged ${line.count === 1 ? 'line' : 'lines'}</span>`;
		case 'same':
			return html`<span>  ${line.text}</span>`;
		case 'removed':
			return html`<del>- ${line.text}</del>`;
		case 'added':
			return html`<ins>+ ${line.text}</ins>`;
	}
}
