import {type Html, html} from '../hosted/html.ts';
import {hourMs} from '../kit/time.ts';
import {csvFile} from '../resources/csv-lists.ts';
import {type Choice, chips, hidden, input, nothing, toHref} from './markup.ts';
import type {Content} from './route.ts';

// What lists have around them: a search, and the way to older rows.

type Search = {
	readonly to: string;
	readonly query: URLSearchParams;
	readonly placeholder: string;
	/** Other filters of the query that a search keeps. */
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

/** A list as a CSV file to be saved. */
export async function csvContent(file: string, text: AsyncGenerator<string>): Promise<Content> {
	return {kind: 'content', type: 'text/csv; charset=utf-8', saveAs: `${file}.csv`, body: await csvFile(text)};
}

/**
 * What a page of a list shows of rows that were read, one more than it shows; `last`: its last row if there are more.
 */
export function toPage<Row>(
	found: readonly Row[],
	perPage: number,
): {readonly rows: readonly Row[]; readonly last: Row | undefined} {
	const rows = found.slice(0, perPage);
	return {rows, last: found.length > perPage ? rows.at(-1) : undefined};
}

const spans = {1: 'Last hour', 4: '4 hours', 24: '24 hours', 168: '7 days', 720: '30 days'} as const;

/** Times that a list can be limited to: the last hours until now. */
export const timeChoices = (...hours: ReadonlyArray<keyof typeof spans>): readonly Choice[] =>
	hours.map(n => ({value: String(n), label: spans[n]}));

const anyTime: Choice = {value: '', label: 'Any time'};

/** Links to the same list of the last hours until now, or of any time. */
export const timeChips = (label: string, query: URLSearchParams, path: string, choices = timeChoices(24, 168, 720)) =>
	chips(label, query, 'hours', [anyTime, ...choices], path);

/** Where the last hours begin, in milliseconds; undefined: any time. */
export function sinceOf(hours: string | null, now: number): number | undefined {
	return Number(hours) > 0 ? Math.max(0, now - Number(hours) * hourMs) : undefined;
}

/** Links to the newest rows, where others are shown, and to those behind `next`; null: these are the last. */
export function pager(path: string, query: URLSearchParams, next: string | null, key = 'after'): Html {
	const newest = query.has(key)
		? html`<a href="${toHref(path, query, {[key]: null})}">Newest</a>`
		: html`<span></span>`;
	const older = next === null ? nothing : html`<a href="${toHref(path, query, {[key]: next})}" rel="next">Older</a>`;
	return html`<div class="more">${newest}${older}</div>`;
}
