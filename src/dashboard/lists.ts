import {type Html, html} from '../hosted/html.ts';
import {hourMs} from '../kit/time.ts';
import {csvFile} from '../resources/csv-lists.ts';
import {type Choice, chips, hidden, input, nothing, toHref} from './markup.ts';
import type {Content} from './route.ts';

// The parts around a list: its search, its filters, and the links to older rows.

type Search = {
	readonly to: string;
	readonly query: URLSearchParams;
	readonly placeholder: string;
	/** Other filters of the query that a search retains. */
	readonly kept?: readonly string[];
	/** Further fields beside the search. */
	readonly fields?: Html;
	readonly hint?: string;
};

export function searchForm({to, query, placeholder, kept = [], fields = nothing, hint}: Search): Html {
	const field = input({name: 'q', label: 'Search', type: 'search', value: query.get('q') ?? '', placeholder});
	const filters = kept.flatMap(key => {
		const value = query.get(key);
		return value ? [hidden(key, value)] : [];
	});
	return html`<form class="filter" role="search" action="${to}">${field}${fields}${filters}<button>Search</button>${hint === undefined ? null : html`<small>${hint}</small>`}</form>`;
}

/** Returns a list as a CSV file to download. */
export async function csvContent(file: string, text: AsyncGenerator<string>): Promise<Content> {
	return {kind: 'content', type: 'text/csv; charset=utf-8', saveAs: `${file}.csv`, body: await csvFile(text)};
}

/** Returns the rows of a page. `last` is its last row if `found` has more rows, for the link to the next page. */
export function toPage<Row>(
	found: readonly Row[],
	perPage: number,
): {readonly rows: readonly Row[]; readonly last: Row | undefined} {
	const rows = found.slice(0, perPage);
	return {rows, last: found.length > perPage ? rows.at(-1) : undefined};
}

const spans = {1: 'Last hour', 4: '4 hours', 24: '24 hours', 168: '7 days', 720: '30 days'} as const;

/** Returns the choices of a period that ends now. */
export const timeChoices = (...hours: ReadonlyArray<keyof typeof spans>): readonly Choice[] =>
	hours.map(n => ({value: String(n), label: spans[n]}));

const anyTime: Choice = {value: '', label: 'Any time'};

/** Links to the same list, limited to a period that ends now or to none. */
export const timeChips = (label: string, query: URLSearchParams, path: string, choices = timeChoices(24, 168, 720)) =>
	chips(label, query, 'hours', [anyTime, ...choices], path);

/** Returns when the last hours began, in milliseconds, or `undefined` for any time. */
export function sinceOf(hours: string | null, now: number): number | undefined {
	return Number(hours) > 0 ? Math.max(0, now - Number(hours) * hourMs) : undefined;
}

/** Links to the newest rows unless they are shown, and to the rows after `next`, which is `null` on the last page. */
export function pager(path: string, query: URLSearchParams, next: string | null, key = 'after'): Html {
	const newest = query.has(key)
		? html`<a href="${toHref(path, query, {[key]: null})}">Newest</a>`
		: html`<span></span>`;
	const older = next === null ? nothing : html`<a href="${toHref(path, query, {[key]: next})}" rel="next">Older</a>`;
	return html`<div class="more">${newest}${older}</div>`;
}
