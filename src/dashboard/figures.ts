import type {Knex} from 'knex';
import {type Html, html} from '../hosted/html.ts';
import {hourMs, storeTime} from '../kit/time.ts';
import {
	type Figures,
	figureNames,
	type ReputationLevel,
	type ReputationLimits,
	type Span,
	spans,
	type Windows,
} from '../mail/reputation.ts';
import {findFindings, hourOf, type Kind, spanNames, windowStarts} from '../outcome/reputation-findings.ts';
import {type ReputationStatus, readReputationHours, readStatuses, type SimulatedMessage} from '../store/reputation.ts';
import {type CountedStatus, countedStatuses, readUsage, type UsageSpan, usageSpans} from '../store/usage.ts';
import {chart, percent, type Series} from './charts.ts';
import {badge, type Column, count, nothing, section, table, toHref} from './markup.ts';

/** What the pages look back on, by the value in their query. */
export const periods = [
	{value: '', label: '24 hours', span: 'hours', steps: 24},
	{value: '7d', label: '7 days', span: 'days', steps: 7},
	{value: '30d', label: '30 days', span: 'days', steps: 30},
] as const satisfies ReadonlyArray<{value: string; label: string; span: UsageSpan; steps: number}>;
export type Period = (typeof periods)[number];

export function parsePeriod(query: URLSearchParams): Period {
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

/** The same with simulated mail. It counts at the time of its acceptance, with its present state. */
export function withSimulated({times, each}: Traffic, {span}: Period, simulated: readonly SimulatedMessage[]): Traffic {
	const [, , length] = usageSpans[span];
	const sums = ofStatuses(status => {
		const more = times.map(() => 0);
		for (const {at, state} of simulated) {
			const index = times.indexOf(storeTime(at).slice(0, length));
			const isOne =
				status === 'accepted' || state === status || (status === 'delivered' && state === 'complained');
			more[index] = (more[index] ?? 0) + (isOne ? 1 : 0);
		}
		return each[status].map((n, index) => n + (more[index] ?? 0));
	});
	return {times, each: sums, sums: ofStatuses(status => sums[status].reduce((total, n) => total + n, 0))};
}

/**
 * How many simulated messages a page leaves out or counts, with a link to the other view; empty if there are no such
 * messages. `newest`: the page looked at this many messages, not at the whole period.
 */
export function simulatedLine(path: string, query: URLSearchParams, n: number, newest: number | null = null): Html {
	if (n === 0) {
		return nothing;
	}
	const isCounted = countsSimulated(query);
	const href = toHref(path, query, {simulated: isCounted ? null : '1'});
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

/** The first of the windows, and how far the curve goes back: figures are kept for eight days. */
const windowHours = 24;
const curveHours = 7 * 24;

/** By what a workspace is judged: its windows now, and how the window of 24 hours moved. */
type Reputation = {
	readonly status: ReputationStatus | undefined;
	/** The ends of the windows, `2026-11-05T13`. */
	readonly times: readonly string[];
	readonly windows: readonly Figures[];
};

export async function readReputation(reader: Knex, workspaceId: string, now: number): Promise<Reputation> {
	const [status] = await readStatuses(reader, {starts: windowStarts(now), ids: [workspaceId]});
	const hours = Array.from({length: curveHours + windowHours}, (_, ago) => hourOf(storeTime(now - ago * hourMs)));
	hours.reverse();
	const stored = await readReputationHours(reader, workspaceId, hours[0] as string);
	const figures = new Map(stored.map(({hour, ...one}) => [hour, one]));
	const sums: Figures[] = [];
	let window: Figures = {attempted: 0, hard: 0, delivered: 0, complained: 0};
	for (const [index, hour] of hours.entries()) {
		window = moved(window, figures.get(hour), figures.get(hours[index - windowHours] ?? ''));
		sums.push(window);
	}
	return {status, times: hours.slice(windowHours), windows: sums.slice(windowHours)};
}

/** The sum after one hour came and another went. */
function moved(window: Figures, came: Figures | undefined, went: Figures | undefined): Figures {
	const next = figureNames.map(name => [name, window[name] + (came?.[name] ?? 0) - (went?.[name] ?? 0)]);
	return Object.fromEntries(next);
}

const kinds = {
	bounces: {label: 'Hard bounces', n: 'hard', of: 'attempted', ofWhat: 'tried'},
	complaints: {label: 'Complaints', n: 'complained', of: 'delivered', ofWhat: 'delivered'},
} as const satisfies Record<Kind, object>;

const shareOf = (kind: Kind, figures: Figures): number | null => {
	const {n, of} = kinds[kind];
	return figures[of] <= 0 ? null : Math.max(0, figures[n]) / figures[of];
};

/** What receivers think of the workspace, with the limits at which it is warned of and paused. */
export function reputationSection({status, times, windows}: Reputation, limits: ReputationLimits | null): Html {
	const curve = (kind: Kind): Html =>
		chart({
			label: `${kinds[kind].label} in the 24 hours before`,
			times,
			unit: 'share',
			series: [
				{label: kinds[kind].label, tone: 'busy', values: windows.map(figures => shareOf(kind, figures))},
				...(limits === null ? [] : limitLines(limits, kind, times.length)),
			],
		});
	const rule =
		limits === null
			? html`<p class="soft">Nobody is warned of or paused: MAILCTL_REPUTATION is off.</p>`
			: html`<p class="soft">A workspace whose shares are too high is warned of, then paused, so that the others are not blocked with it. Few mails say nothing.</p>`;
	const hasFigures = windows.some(({attempted}) => attempted > 0);
	return section(
		'Reputation',
		html`${rule}${status ? windowTable(status.windows, limits) : nothing}${hasFigures ? html`<div class="halves">${curve('bounces')}${curve('complaints')}</div>` : nothing}`,
	);
}

function limitLines({warn, pause}: ReputationLimits, kind: Kind, length: number): Series[] {
	const line = (label: string, tone: Series['tone'], limit: number): Series => ({
		label: `${label} ${percent(limit)}`,
		tone,
		look: 'dashed',
		isLimit: true,
		values: new Array(length).fill(limit),
	});
	return [line('warned from', 'warn', warn[kind]), line('paused from', 'bad', pause[kind])];
}

function windowTable(windows: Windows, limits: ReputationLimits | null): Html {
	const findings = limits === null ? [] : findFindings(windows, limits);
	const rows = (['bounces', 'complaints'] as const).flatMap(kind => spans.map(span => ({kind, span})));
	const levelOf = (kind: Kind, span: Span) =>
		findings.find(finding => finding.kind === kind && finding.span === span)?.level;
	return table({
		label: 'Reputation',
		rows,
		empty: nothing,
		columns: [
			{title: 'Share', cell: ({kind, span}) => `${kinds[kind].label}, ${spanNames[span]}`},
			{
				title: 'Current',
				cell: ({kind, span}) => {
					const share = shareOf(kind, windows[span]);
					return share === null ? '–' : percent(share);
				},
				right: true,
			},
			{
				title: 'Of',
				cell: ({kind, span}) => {
					const {n, of, ofWhat} = kinds[kind];
					return `${count(windows[span][n])} of ${count(windows[span][of])} ${ofWhat}`;
				},
				right: true,
				wide: true,
			},
			...(limits === null
				? []
				: [
						limitColumn('Warned from', limits.warn),
						limitColumn('Paused from', limits.pause),
						{
							title: 'Standing',
							cell: ({kind, span}: {kind: Kind; span: Span}) =>
								windows[span][kinds[kind].of] > 0 ? statusBadge(levelOf(kind, span)) : '–',
						},
					]),
		],
	});
}

const limitColumn = (title: string, limit: ReputationLevel): Column<{readonly kind: Kind}> => ({
	title,
	right: true,
	wide: true,
	cell: ({kind}) => percent(limit[kind]),
});

function statusBadge(level: 'warn' | 'pause' | undefined): Html {
	switch (level) {
		case 'warn':
			return badge('high', 'warn');
		case 'pause':
			return badge('too high', 'bad');
		default:
			return badge('fine', 'good');
	}
}
