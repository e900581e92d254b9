import type {Knex} from 'knex';
import {type Html, html} from '../../hosted/html.ts';
import {hourMs, storeTime} from '../../kit/time.ts';
import type {SimulatedMessage} from '../../store/reputation.ts';
import {type CountedStatus, countedStatuses, readUsage, type UsageSpan, usageSpans} from '../../store/usage.ts';
import type {Series} from '../charts.ts';
import {count, hrefOf, nothing} from '../markup.ts';

/** What the pages look back on, by the value in their query. */
export const periods = [
	{value: '', label: '24 hours', span: 'hours', steps: 24},
	{value: '7d', label: '7 days', span: 'days', steps: 7},
	{value: '30d', label: '30 days', span: 'days', steps: 30},
] as const satisfies ReadonlyArray<{value: string; label: string; span: UsageSpan; steps: number}>;
export type Period = (typeof periods)[number];

export function periodOf(query: URLSearchParams): Period {
	return periods.find(({value}) => value === query.get('period')) ?? periods[0];
}

export const hoursOf = ({span, steps}: Period): number => (span === 'hours' ? steps : steps * 24);

/** What happened in each hour or day of a period, oldest first; the last one is not over. */
export type Traffic = {
	/** As the store has them: `2026-11-05T13`, `2026-11-05`. */
	readonly times: readonly string[];
	readonly each: Readonly<Record<CountedStatus, readonly number[]>>;
	readonly sums: Readonly<Record<CountedStatus, number>>;
};

export async function readTraffic(
	reader: Knex,
	workspaceId: string,
	{span, steps}: Period,
	now: number,
): Promise<Traffic> {
	const stepMs = span === 'hours' ? hourMs : 24 * hourMs;
	const [, , length] = usageSpans[span];
	const times = Array.from({length: steps}, (_, ago) => storeTime(now - ago * stepMs).slice(0, length)).reverse();
	const counted = await readUsage(reader, workspaceId, span, times[0] as string);
	const figures = new Map(counted.map(({time, status, n}) => [`${time} ${status}`, n]));
	const each = ofStatuses(status => times.map(time => figures.get(`${time} ${status}`) ?? 0));
	return {times, each, sums: ofStatuses(status => each[status].reduce((total, n) => total + n, 0))};
}

/** The same with simulated mail, which is counted when it was accepted, whatever became of it since. */
export function withSimulated({times, each}: Traffic, {span}: Period, simulated: readonly SimulatedMessage[]): Traffic {
	const [, , length] = usageSpans[span];
	const sums = ofStatuses(status => {
		const more = times.map(() => 0);
		for (const {at, state} of simulated) {
			const index = times.indexOf(storeTime(at).slice(0, length));
			const isOne = status === 'accepted' || state === status || (status === 'delivered' && state === 'complained');
			more[index] = (more[index] ?? 0) + (isOne ? 1 : 0);
		}
		return each[status].map((n, index) => n + (more[index] ?? 0));
	});
	return {times, each: sums, sums: ofStatuses(status => sums[status].reduce((total, n) => total + n, 0))};
}

/**
 * How many simulated messages a page leaves out, or counts, with a link to the other; nothing where there are none. `newest`:
 * it looked at this many messages and not at all of the period.
 */
export function simulatedLine(path: string, query: URLSearchParams, n: number, newest: number | null = null): Html {
	if (n === 0) {
		return nothing;
	}
	const isCounted = countsSimulated(query);
	const href = hrefOf(path, query, {simulated: isCounted ? null : '1'});
	return html`<p class="soft">${count(n)} simulated ${newest === null ? '' : `among the newest ${count(newest)} messages `}${isCounted ? 'counted too' : 'not counted'}. <a href="${href}">${isCounted ? 'Leave them out' : 'Count them'}</a></p>`;
}

export const countsSimulated = (query: URLSearchParams): boolean => query.get('simulated') === '1';

function ofStatuses<Value>(value: (status: CountedStatus) => Value): Record<CountedStatus, Value> {
	return Object.fromEntries(countedStatuses.map(status => [status, value(status)])) as Record<CountedStatus, Value>;
}

const looks: ReadonlyArray<{readonly status: CountedStatus} & Omit<Series, 'values'>> = [
	{status: 'accepted', label: 'Accepted', tone: 'busy', look: 'bars'},
	{status: 'delivered', label: 'Delivered', tone: 'good'},
	{status: 'opened', label: 'Opened', tone: 'warn', look: 'dotted'},
	{status: 'bounced', label: 'Bounced', tone: 'bad'},
	{status: 'complained', label: 'Complained', tone: 'bad', look: 'dashed'},
];

/** Opens only where there are any: most do not track them. */
export function trafficSeries({each, sums}: Traffic): Series[] {
	return looks
		.filter(({status}) => status !== 'opened' || sums.opened > 0)
		.map(({status, ...look}) => ({...look, values: each[status]}));
}
