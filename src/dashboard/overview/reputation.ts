import type {Knex} from 'knex';
import {type Html, html} from '../../hosted/html.ts';
import {hourMs, storeTime} from '../../kit/time.ts';
import {
	type Figures,
	figureNames,
	type ReputationLevel,
	type ReputationLimits,
	type Span,
	spans,
	type Windows,
} from '../../mail/reputation.ts';
import {findingsOf, hourOf, type Kind, spanNames, windowStarts} from '../../reputation/findings.ts';
import {type ReputationStatus, readReputationHours, readStatuses} from '../../store/reputation.ts';
import {chart, percent, type Series} from '../charts.ts';
import {badge, type Column, count, nothing, section, table} from '../markup.ts';

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
		...{tone, look: 'dashed', isLimit: true, values: new Array(length).fill(limit)},
	});
	return [line('warned from', 'warn', warn[kind]), line('paused from', 'bad', pause[kind])];
}

function windowTable(windows: Windows, limits: ReputationLimits | null): Html {
	const findings = limits === null ? [] : findingsOf(windows, limits);
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
	...{title, right: true, wide: true},
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
