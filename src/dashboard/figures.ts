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

/** The periods that pages can show, by their value in the query. */
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

/** The counts of each hour or day of a period, oldest first; the last one is not over yet. */
export type Traffic = {
	/** Hours or days as stored: `2026-11-05T13`, `2026-11-05`. */
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
	const each = mapStatuses(status => times.map(time => figures.get(`${time} ${status}`) ?? 0));
	return {times, each, sums: mapStatuses(status => each[status].reduce((total, n) => total + n, 0))};
}

/** Adds simulated messages, which count at the time of their acceptance, with their current state. */
export function withSimulated({times, each}: Traffic, {span}: Period, simulated: readonly SimulatedMessage[]): Traffic {
	const [, , length] = usageSpans[span];
	const sums = mapStatuses(status => {
		const added = times.map(() => 0);
		for (const {at, state} of simulated) {
			const index = times.indexOf(storeTime(at).slice(0, length));
			const isCounted =
				status === 'accepted' || state === status || (status === 'delivered' && state === 'complained');
			added[index] = (added[index] ?? 0) + (isCounted ? 1 : 0);
		}
		return each[status].map((n, index) => n + (added[index] ?? 0));
	});
	return {times, each: sums, sums: mapStatuses(status => sums[status].reduce((total, n) => total + n, 0))};
}

/**
 * Shows how many simulated messages a page includes or leaves out, with a link to the other view; empty if there are
 * none. `newest` is the number of messages that were searched for them, or `null` for the whole period.
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

function mapStatuses<Value>(toValue: (status: CountedStatus) => Value): Record<CountedStatus, Value> {
	return Object.fromEntries(countedStatuses.map(status => [status, toValue(status)])) as Record<CountedStatus, Value>;
}

const lineStyles: ReadonlyArray<{readonly status: CountedStatus} & Omit<Series, 'values'>> = [
	{status: 'accepted', label: 'Accepted', tone: 'busy', look: 'bars'},
	{status: 'delivered', label: 'Delivered', tone: 'good'},
	{status: 'opened', label: 'Opened', tone: 'warn', look: 'dotted'},
	{status: 'bounced', label: 'Bounced', tone: 'bad'},
	{status: 'complained', label: 'Complained', tone: 'bad', look: 'dashed'},
];

/** Returns the lines of the chart. Opens are shown only if there are any, because most workspaces do not track them. */
export function trafficSeries({each, sums}: Traffic): Series[] {
	return lineStyles
		.filter(({status}) => status !== 'opened' || sums.opened > 0)
		.map(({status, ...style}) => ({...style, values: each[status]}));
}

/** The length of the first window, and how far back its curve goes: figures are stored for eight days. */
const windowHours = 24;
const curveHours = 7 * 24;

/** The figures by which a workspace is judged: its current windows, and the window of 24 hours over time. */
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
	const figures = new Map(stored.map(({hour, ...counts}) => [hour, counts]));
	const sums: Figures[] = [];
	let window: Figures = {attempted: 0, hard: 0, delivered: 0, complained: 0};
	for (const [index, hour] of hours.entries()) {
		window = slideWindow(window, figures.get(hour), figures.get(hours[index - windowHours] ?? ''));
		sums.push(window);
	}
	return {status, times: hours.slice(windowHours), windows: sums.slice(windowHours)};
}

/** Returns the sum of a window after it moved by an hour. */
function slideWindow(window: Figures, added: Figures | undefined, removed: Figures | undefined): Figures {
	const next = figureNames.map(name => [name, window[name] + (added?.[name] ?? 0) - (removed?.[name] ?? 0)]);
	return Object.fromEntries(next);
}

const kinds = {
	bounces: {label: 'Hard bounces', n: 'hard', of: 'attempted', ofWhat: 'attempted'},
	complaints: {label: 'Complaints', n: 'complained', of: 'delivered', ofWhat: 'delivered'},
} as const satisfies Record<Kind, object>;

const shareOf = (kind: Kind, figures: Figures): number | null => {
	const {n, of} = kinds[kind];
	return figures[of] <= 0 ? null : Math.max(0, figures[n]) / figures[of];
};

/** Shows the bounce and complaint rates of a workspace, with the limits that cause a warning or a pause. */
export function reputationSection({status, times, windows}: Reputation, limits: ReputationLimits | null): Html {
	const curve = (kind: Kind): Html =>
		chart({
			label: `${kinds[kind].label} in the preceding 24 hours`,
			times,
			unit: 'share',
			series: [
				{label: kinds[kind].label, tone: 'busy', values: windows.map(figures => shareOf(kind, figures))},
				...(limits === null ? [] : limitLines(limits, kind, times.length)),
			],
		});
	const rule =
		limits === null
			? html`<p class="soft">Workspaces cause no warnings and are not paused: MAILCTL_REPUTATION is off.</p>`
			: html`<p class="soft">A workspace with high rates causes a warning, then is paused, so that the others are not blocked along with it. Small samples are not judged.</p>`;
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
	return [line('warning from', 'warn', warn[kind]), line('paused from', 'bad', pause[kind])];
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
			{title: 'Rate', cell: ({kind, span}) => `${kinds[kind].label}, ${spanNames[span]}`},
			{
				title: 'Current',
				cell: ({kind, span}) => {
					const share = shareOf(kind, windows[span]);
					return share === null ? '–' : percent(share);
				},
				right: true,
			},
			{
				title: 'Messages',
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
						limitColumn('Warning from', limits.warn),
						limitColumn('Paused from', limits.pause),
						{
							title: 'Status',
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
			return badge('ok', 'good');
	}
}
