import type {Knex} from 'knex';
import {maxDays, readStats} from '../../admin/stats.ts';
import {apiTime, dayMs, monthOf, storeTime} from '../../kit/time.ts';
import {Type} from '../../mail/type.ts';
import {readMonth, readUsage, statsFigures, statsGroups, usageStatuses} from '../../store/usage.ts';
import {findWorkspace} from '../../store/workspaces.ts';
import type {ApiParts, Routes} from '../api-parts.ts';
import {apiRoute} from '../api-route.ts';
import {createTurns} from '../turns.ts';

const count = Type.Integer();

const example = {
	period: '2026-11',
	period_start: '2026-11-01T00:00:00+00:00',
	period_end: '2026-12-01T00:00:00+00:00',
	accepted: 41_200,
	test: 12,
	quota: 100_000,
	remaining: 58_800,
	reset: 1_796_083_200,
	days: [{day: '2026-11-21', accepted: 2100, delivered: 2084, bounced: 9, complained: 0}],
};

/** What a workspace sent in a calendar month (UTC). */
const usageSchema = Type.Object(
	{
		period: Type.String({description: 'The month, `2026-11`.'}),
		period_start: Type.String({description: 'UTC, `2026-11-01T00:00:00+00:00`'}),
		period_end: Type.String({description: 'The start of the next month.'}),
		accepted: Type.Integer({description: 'Messages accepted, which the quota counts.'}),
		test: Type.Integer({description: 'Messages of test keys and to `simulator.test`, which it does not.'}),
		quota: Type.Union([Type.Integer(), Type.Null()], {description: 'Null: unlimited.'}),
		remaining: Type.Union([Type.Integer(), Type.Null()], {description: 'Null: unlimited.'}),
		reset: Type.Integer({description: 'When the next month starts, Unix seconds.'}),
		days: Type.Optional(
			Type.Array(
				Type.Object({
					day: Type.String({description: 'In UTC, `2026-11-05`.'}),
					accepted: count,
					delivered: count,
					bounced: count,
					complained: count,
				}),
				{description: 'Only with the parameter `days`. Outcomes count on the day on which they were recorded.'},
			),
		),
	},
	{examples: [example]},
);

const usageQuery = Type.Object(
	{
		days: Type.Optional(
			Type.String({
				format: 'day-count',
				description: `Also answers figures by day, for this many days up to today: 1 to ${maxDays}.`,
			}),
		),
	},
	{additionalProperties: false},
);

export function usageRoutes(parts: ApiParts): Routes {
	const {
		reader,
		tools: {clock},
	} = parts;
	return apiRoute(parts, {
		at: 'GET /v1/usage',
		scope: 'usage:read',
		tag: 'Usage',
		summary: 'Read the usage of the month',
		description:
			'What the workspace sent in this calendar month (UTC), and what is left of its quota. A message counts once, whatever its `cc`, when it is accepted. Sends by test keys and to `simulator.test` are counted apart, as `test`.',
		answer: [200, 'The month, and with `days` the days up to today, newest first.', usageSchema],
		query: usageQuery,
		async handle({workspaceId, query: {days}}) {
			const now = clock.now();
			const month = monthOf(now);
			const {accepted, test} = await readMonth(reader, workspaceId, month.name);
			const quota = (await findWorkspace(reader, workspaceId))?.monthly_quota ?? null;
			return {
				period: month.name,
				period_start: apiTime(storeTime(month.start)),
				period_end: apiTime(storeTime(month.end)),
				accepted,
				test,
				quota,
				remaining: quota === null ? null : Math.max(0, quota - accepted),
				reset: month.end / 1000,
				...(days !== undefined && {days: await figuresOfDays(reader, workspaceId, now, Number(days))}),
			};
		},
	});
}

/** Every day up to today, newest first, also those on which nothing happened. */
async function figuresOfDays(reader: Knex, workspaceId: string, now: number, count: number): Promise<object[]> {
	const days = Array.from({length: count}, (_, ago) => storeTime(now - ago * dayMs).slice(0, 10));
	const counts = await readUsage(reader, workspaceId, 'days', days.at(-1) as string);
	const figures = new Map(counts.map(({time, status, n}) => [`${time} ${status}`, n]));
	return days.map(day => ({
		day,
		...Object.fromEntries(usageStatuses.map(status => [status, figures.get(`${day} ${status}`) ?? 0])),
	}));
}

const defaultDays = 30;
const maxRows = 1000;

const meanings: Readonly<Record<(typeof statsFigures)[number], string>> = {
	accepted: 'All messages, also those that wait.',
	delivered: 'That a host of the recipient took, also if a complaint followed.',
	bounced: 'Whose status is `bounced`.',
	complained: 'Whose status is `complained`.',
	opened: 'With an `opened` event, once each.',
	clicked: 'With a `clicked` event, once each.',
	errored: 'Whose status is `errored`.',
};

const statsSchema = Type.Object(
	{
		from: Type.String({description: 'The start of the first day, UTC.'}),
		to: Type.String({description: 'Now: the days are up to today.'}),
		by: Type.Union([Type.Enum(statsGroups), Type.Null()], {description: 'As asked for; null: one row of all.'}),
		rows: Type.Array(
			Type.Object({
				key: Type.String({
					description:
						'The name of the workspace or template, the domain, or the category; without `by` it is `total`.',
				}),
				id: Type.Optional(Type.String({description: 'Of the workspace or template.'})),
				...Object.fromEntries(statsFigures.map(name => [name, Type.Integer({description: meanings[name]})])),
			}),
			{description: `The group with the most messages first, at most ${maxRows}.`},
		),
		truncated: Type.Boolean({description: 'Whether there are more groups.'}),
	},
	{
		examples: [
			{
				from: '2026-11-15T00:00:00+00:00',
				to: '2026-11-21T10:15:30+00:00',
				by: 'destination',
				rows: [
					{
						key: 'example.com',
						...{accepted: 2100, delivered: 2084, bounced: 9, complained: 1},
						...{opened: 940, clicked: 112, errored: 0},
					},
				],
				truncated: false,
			},
		],
	},
);

const statsQuery = Type.Object(
	{
		days: Type.Optional(
			Type.String({
				format: 'day-count',
				description: `Messages that were accepted on so many days up to today (UTC): 1 to ${maxDays}, by default ${defaultDays}.`,
			}),
		),
		by: Type.Optional(
			Type.Enum(statsGroups, {
				description:
					'A row for each workspace, domain of the sender, template, domain of the recipient (`destination`), or category of bounce (`category`: only messages that bounced).',
			}),
		),
	},
	{additionalProperties: false},
);

export function statsRoutes(parts: ApiParts): Routes {
	// A million messages take a second or two.
	const turns = createTurns();
	return apiRoute(parts, {
		at: 'GET /v1/stats',
		scope: 'stats:read',
		tag: 'Usage',
		summary: 'Count what became of messages',
		description:
			'Counts the messages of the workspace that were accepted in the last days, by what has become of them so far. Mail by test keys and to `simulator.test` is not counted, nor are copies to `cc` and messages that retention removed. Workspaces take turns: 503 `unavailable` if too many of your requests wait.',
		answer: [200, 'The figures.', statsSchema],
		query: statsQuery,
		async handle({workspaceId, query: {days = defaultDays, by = null}}) {
			const query = {workspaceId, by, days: Number(days), now: parts.tools.clock.now(), limit: maxRows + 1};
			const {from, to, rows} = await turns(workspaceId, () => readStats(parts.reader, query));
			const ends = {from: apiTime(from), to: apiTime(to)};
			return {...ends, by, rows: rows.slice(0, maxRows), truncated: rows.length > maxRows};
		},
	});
}
