import {count, emptyNote, section, select} from '../../dashboard/markup.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {diffLines, type Folded, fold, maxDiffLines} from '../../kit/diff.ts';
import {inSlice} from '../../kit/turns.ts';
import type {TemplateVariant} from './store.ts';
import {chosenTemplate, chosenVersion, localeName, noTemplate, type Saved, versionNumber} from './template-page.ts';

/** Offered in the lists; links lead to older versions. */
const maxChoices = 100;

/** What differs between two versions of a template. */
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
	const choices = [...new Set([...newest, from, to])].map(one => ({value: String(one), label: `Version ${one}`}));
	return html`<form class="act full" action="/templates/${id}/compare">${select({name: 'from', label: 'From', value: String(from)}, choices)}${select({name: 'to', label: 'To', value: String(to)}, choices)}<button>Compare</button></form>`;
}

/** A part of a version that may change, with its text on both sides; null: that side has no such part. */
type Compared = readonly [title: string, before: string | null, after: string | null];

type Side = Pick<Saved, 'variants'> & {readonly sample: string | null};

/** Compares one part at a time; other requests run in between. */
export async function changesBetween(before: Side, after: Side): Promise<Html[]> {
	const locales = new Set([...before.variants, ...after.variants].map(({locale}) => locale));
	const parts = [...locales].flatMap((locale): Compared[] => {
		const [old, fresh] = [before, after].map(({variants}) => variants.find(one => one.locale === locale));
		const part = (title: string, of: (variant: TemplateVariant) => string | null): Compared => [
			locales.size === 1 ? title : `${title}, ${localeName(locale)}`,
			old ? of(old) : null,
			fresh ? of(fresh) : null,
		];
		return [
			part('Subject', ({subject}) => subject),
			part('Source', ({kind, source}) => `${kind === 'mjml' ? 'MJML' : 'HTML'}\n${source}`),
			part('Text', ({text_source: text}) => text),
		];
	});
	parts.push(['Sample', before.sample, after.sample]);
	const changed = parts.filter(([, old, fresh]) => old !== fresh);
	const changes: Html[] = [];
	for (const [title, old, fresh] of changed) {
		const compared = await inSlice(() => diffLines(old ?? '', fresh ?? ''));
		if (compared === null) {
			changes.push(
				section(title, html`<p>More than ${count(maxDiffLines)} lines differ. They are not shown.</p>`),
			);
			continue;
		}
		const lines = await inSlice(() => fold(compared));
		const shown = beginningOf(lines, maxShown / changed.length);
		const more = shown !== lines ? html`<em>Only the beginning is shown.</em>` : null;
		changes.push(section(title, html`<pre class="diff">${shown.map(renderLine)}${more}</pre>`));
	}
	return changes;
}

/** Characters of all parts that are shown; a line counts as a hundred at least. */
const maxShown = 1024 * 1024;
const minLineLength = 100;

function beginningOf(lines: readonly Folded[], room: number): readonly Folded[] {
	let left = room;
	for (const [index, line] of lines.entries()) {
		const length = line.kind === 'folded' ? 0 : line.text.length;
		if (Math.max(minLineLength, length) > left) {
			const cut = line.kind === 'folded' ? [] : [{...line, text: line.text.slice(0, left)}];
			return [...lines.slice(0, index), ...cut];
		}
		left -= Math.max(minLineLength, length);
	}
	return lines;
}

function renderLine(line: Folded): Html {
	switch (line.kind) {
		case 'folded':
			return html`<span class="soft">… ${count(line.count)} ${line.count === 1 ? 'line is' : 'lines are'} the same</span>`;
		case 'same':
			return html`<span>  ${line.text}</span>`;
		case 'removed':
			return html`<del>- ${line.text}</del>`;
		case 'added':
			return html`<ins>+ ${line.text}</ins>`;
	}
}
