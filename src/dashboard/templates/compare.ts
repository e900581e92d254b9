import {inSlice} from '../../api/turns.ts';
import {type Html, html} from '../../hosted/html.ts';
import type {TemplateVariant} from '../../store/templates.ts';
import {count, emptyNote, section, select} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, page, type Route, type Visit} from '../route.ts';
import {chosenTemplate, chosenVersion, localeName, noTemplate, type Saved, versionNumber} from './template.ts';

/** Offered in the lists; links lead to older versions. */
const mostChoices = 100;

/** What differs between two versions of a template. */
export function comparePages({reader}: DashboardParts): readonly Route[] {
	async function compare(visit: Visit): Promise<Answer> {
		const template = await chosenTemplate(reader, visit);
		const latest = template.latest_version ?? noTemplate();
		const to = versionNumber(visit.query.get('to') ?? '') ?? latest;
		const from = versionNumber(visit.query.get('from') ?? '') ?? Math.max(1, to - 1);
		const saved = (version: number) => chosenVersion(reader, template, String(version));
		const [before, after] = await Promise.all([saved(from), saved(to)]);
		const changes = await changesBetween(before, after);
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
	const newest = Array.from({length: Math.min(latest, mostChoices)}, (_, index) => latest - index);
	const choices = [...new Set([...newest, from, to])].map(one => ({value: String(one), label: `Version ${one}`}));
	return html`<form class="act full" action="/templates/${id}/compare">${select({name: 'from', label: 'From', value: String(from)}, choices)}${select({name: 'to', label: 'To', value: String(to)}, choices)}<button>Compare</button></form>`;
}

/** A part of a version that may change, with its text on both sides; null: that side has no such part. */
type Compared = readonly [title: string, before: string | null, after: string | null];

/** Compares one part at a time; other requests run in between. */
async function changesBetween(before: Saved, after: Saved): Promise<Html[]> {
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
	parts.push(['Sample', before.version.sample, after.version.sample]);
	const changed = parts.filter(([, old, fresh]) => old !== fresh);
	const changes: Html[] = [];
	for (const [title, old, fresh] of changed) {
		const lines = await inSlice(() => fold(diffLines(old ?? '', fresh ?? '')));
		const shown = beginningOf(lines, mostShown / changed.length);
		const more = shown !== lines ? html`<em>Only the beginning is shown.</em>` : null;
		changes.push(section(title, html`<pre class="diff">${shown.map(lineOf)}${more}</pre>`));
	}
	return changes;
}

/** Characters of all parts that are shown; a line counts as a hundred at least. */
const mostShown = 1024 * 1024;
const leastOfLine = 100;

function beginningOf(lines: readonly Folded[], room: number): readonly Folded[] {
	let left = room;
	for (const [index, line] of lines.entries()) {
		const length = line.kind === 'folded' ? 0 : line.text.length;
		if (Math.max(leastOfLine, length) > left) {
			const cut = line.kind === 'folded' ? [] : [{...line, text: line.text.slice(0, left)}];
			return [...lines.slice(0, index), ...cut];
		}
		left -= Math.max(leastOfLine, length);
	}
	return lines;
}

function lineOf(line: Folded): Html {
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

type DiffLine = {
	/** In both texts, only in the first, or only in the second. */
	readonly kind: 'same' | 'removed' | 'added';
	readonly text: string;
};

/** Cells of the table below: 2,000 lines against 2,000 take 8 MB and some ten milliseconds. */
const mostCells = 4_000_000;

/**
 * The lines of two texts beside one another, with the longest common sequence kept. Where what differs is too long to compare,
 * all of it is removed and added.
 */
export function diffLines(before: string, after: string): DiffLine[] {
	const [old, fresh] = [linesOf(before), linesOf(after)];
	let begin = 0;
	while (begin < old.length && begin < fresh.length && old[begin] === fresh[begin]) {
		begin++;
	}
	let end = 0;
	while (end < Math.min(old.length, fresh.length) - begin && old.at(-1 - end) === fresh.at(-1 - end)) {
		end++;
	}
	return [
		...old.slice(0, begin).map(text => ({kind: 'same', text}) as const),
		...middle(old.slice(begin, old.length - end), fresh.slice(begin, fresh.length - end)),
		...old.slice(old.length - end).map(text => ({kind: 'same', text}) as const),
	];
}

const linesOf = (text: string): string[] => (text === '' ? [] : text.split('\n'));

function middle(old: readonly string[], fresh: readonly string[]): DiffLine[] {
	const removed = (text: string): DiffLine => ({kind: 'removed', text});
	const added = (text: string): DiffLine => ({kind: 'added', text});
	const width = fresh.length + 1;
	if ((old.length + 1) * width > mostCells) {
		return [...old.map(removed), ...fresh.map(added)];
	}

	// How many lines the rests from here have in common: at most 2,000, the shorter side of the table.
	const common = new Uint16Array((old.length + 1) * width);
	const at = (i: number, j: number) => common[i * width + j] as number;
	// Long lines that differ at their ends are expensive to compare: each is compared once, and known by a number.
	const numbers = new Map<string, number>();
	const oldNumbers = Uint32Array.from(old, line => numberOf(line, numbers));
	const freshNumbers = Uint32Array.from(fresh, line => numberOf(line, numbers));
	for (let i = old.length - 1; i >= 0; i--) {
		for (let j = fresh.length - 1; j >= 0; j--) {
			common[i * width + j] =
				oldNumbers[i] === freshNumbers[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
		}
	}

	const lines: DiffLine[] = [];
	let [i, j] = [0, 0];
	while (i < old.length || j < fresh.length) {
		if (i < old.length && j < fresh.length && old[i] === fresh[j]) {
			lines.push({kind: 'same', text: old[i++] as string});
			j++;
		} else if (i < old.length && (j === fresh.length || at(i + 1, j) >= at(i, j + 1))) {
			lines.push(removed(old[i++] as string));
		} else {
			lines.push(added(fresh[j++] as string));
		}
	}
	return lines;
}

function numberOf(line: string, numbers: Map<string, number>): number {
	const number = numbers.get(line) ?? numbers.size;
	numbers.set(line, number);
	return number;
}

/** Lines that are the same and far from any change, as their number. */
type Folded = DiffLine | {readonly kind: 'folded'; readonly count: number};

const around = 3;

/** The changes with a few lines around each. */
export function fold(lines: readonly DiffLine[]): Folded[] {
	const near = new Uint8Array(lines.length);
	for (const [index, {kind}] of lines.entries()) {
		if (kind !== 'same') {
			near.fill(1, Math.max(0, index - around), index + around + 1);
		}
	}
	const folded: Folded[] = [];
	for (const [index, line] of lines.entries()) {
		const last = folded.at(-1);
		if (near[index] === 1) {
			folded.push(line);
		} else if (last?.kind === 'folded') {
			folded[folded.length - 1] = {kind: 'folded', count: last.count + 1};
		} else {
			folded.push({kind: 'folded', count: 1});
		}
	}
	return folded;
}
