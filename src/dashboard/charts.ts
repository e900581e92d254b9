import {type Html, html} from '../hosted/html.ts';
import {type Column, count, table} from './markup.ts';

/** One line or one set of bars in a chart; `tone` names a color of the style sheet. */
export type Series = {
	readonly label: string;
	readonly tone: 'busy' | 'good' | 'warn' | 'bad' | 'soft';
	/** One value for each time, or `null` if it has none. */
	readonly values: ReadonlyArray<number | null>;
	readonly look?: 'bars' | 'dashed' | 'dotted';
	/** Marks a limit, which is the same at all times and has no column in the table. */
	readonly isLimit?: true;
};

type Chart = {
	readonly label: string;
	/** Days or hours in UTC: `2026-11-05` or `2026-11-05T13`. */
	readonly times: readonly string[];
	/** Whether values are counts, or fractions from 0 to 1. */
	readonly unit: 'count' | 'share';
	readonly series: readonly Series[];
};

/**
 * Shows series over time, as a chart if scripts run (assets/charts.js), and always as a table, newest first. The page
 * must set `charts: true`.
 */
export function chart({label, times, unit, series}: Chart): Html {
	const seconds = times.map(time => Date.parse(time.length > 10 ? `${time}:00:00Z` : `${time}T00:00:00Z`) / 1000);
	const data = JSON.stringify({unit, daily: times[0]?.length === 10, times: seconds, series});
	const rows = times.map((time, index) => ({time, index})).reverse();
	const columns: Array<Column<(typeof rows)[number]>> = [
		{title: 'UTC', cell: ({time}) => (time.length > 10 ? `${time.replace('T', ' ')}:00` : time)},
		...series
			.filter(({isLimit}) => !isLimit)
			.map(({label, values}) => ({
				title: label,
				cell: ({index}: {index: number}) => formatValue(values[index] ?? null, unit),
				right: true as const,
			})),
	];
	return html`<figure class="charted card"><figcaption><h3>${label}</h3></figcaption><div class="chart" role="img" aria-label="${label}" data-chart="${data}" hidden></div>
<details><summary>As a table<span class="unseen">: ${label}</span></summary>${table({label, columns, rows, empty: html`<p>Nothing yet.</p>`})}</details></figure>`;
}

function formatValue(value: number | null, unit: Chart['unit']): string {
	if (value === null) {
		return '–';
	}
	return unit === 'count' ? count(value) : percent(value);
}

/** Formats a fraction (0 to 1) as `5 %` or `0.12 %`: small ones have more decimals. */
export function percent(share: number): string {
	return `${Number((share * 100).toFixed(share < 0.01 ? 2 : 1))} %`;
}
