import {type Html, html} from '../hosted/html.ts';
import {type Column, count, table} from './markup.ts';

/** One line or row of bars of a chart; `tone` names a colour of the style sheet. */
export type Series = {
	readonly label: string;
	readonly tone: 'busy' | 'good' | 'warn' | 'bad' | 'soft';
	/** A value for each time; null: no value. */
	readonly values: ReadonlyArray<number | null>;
	readonly look?: 'bars' | 'dashed' | 'dotted';
	/** It is the same at all times, a limit, and has no column in the table. */
	readonly isLimit?: true;
};

type Chart = {
	/** What is shown. */
	readonly label: string;
	/** UTC, without what the step does not need: `2026-11-05` or `2026-11-05T13`. */
	readonly times: readonly string[];
	/** What values are: counts, or shares from 0 to 1. */
	readonly unit: 'count' | 'share';
	readonly series: readonly Series[];
};

/**
 * Series over time: drawn where scripts run (assets/charts.js), and as a table, newest first, for everybody. Its page
 * says `charts: true`.
 */
export function chart({label, times, unit, series}: Chart): Html {
	const seconds = times.map(time => Date.parse(time.length > 10 ? `${time}:00:00Z` : `${time}T00:00:00Z`) / 1000);
	const drawn = JSON.stringify({unit, daily: times[0]?.length === 10, times: seconds, series});
	const rows = times.map((time, index) => ({time, index})).reverse();
	const columns: Array<Column<(typeof rows)[number]>> = [
		{title: 'UTC', cell: ({time}) => (time.length > 10 ? `${time.replace('T', ' ')}:00` : time)},
		...series
			.filter(({isLimit}) => !isLimit)
			.map(one => ({
				title: one.label,
				cell: ({index}: {index: number}) => shown(one.values[index] ?? null, unit),
				right: true as const,
			})),
	];
	return html`<figure class="charted card"><figcaption><h3>${label}</h3></figcaption><div class="chart" role="img" aria-label="${label}" data-chart="${drawn}" hidden></div>
<details><summary>As a table<span class="unseen">: ${label}</span></summary>${table({label, columns, rows, empty: html`<p>Nothing yet.</p>`})}</details></figure>`;
}

function shown(value: number | null, unit: Chart['unit']): string {
	if (value === null) {
		return '–';
	}
	return unit === 'count' ? count(value) : percent(value);
}

/** A share (0 to 1) as `5 %`, `0.12 %`: with as many decimals as small ones need. */
export function percent(share: number): string {
	return `${Number((share * 100).toFixed(share < 0.01 ? 2 : 1))} %`;
}
