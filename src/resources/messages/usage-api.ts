import type {Knex} from 'knex';
import {apiRoute} from '../../api/api-route.ts';
import {apiTime, dayMs, monthOf, storeTime} from '../../kit/time.ts';
import {Type} from '../../mail/type.ts';
import {readMonth, readUsage, statsFigures, statsGroups, usageStatuses} from '../../store/usage.ts';
import {findWorkspace} from '../workspaces/store.ts';
import {maxDays, readStats} from './stats.ts';

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
		accepted: Type.Integer({description: 'Accepted messages, which count against the quota.'}),
		test: Type.Integer({description: 'Messages of test keys and to `simulator.test`, which do not count.'}),
		quota: Type.Union([Type.Integer(), Type.Null()], {description: '`null` if unlimited.'}),
		remaining: Type.Union([Type.Integer(), Type.Null()], {description: '`null` if unlimited.'}),
		reset: Type.Integer({description: 'When the next month starts, in Unix seconds.'}),
		days: Type.Optional(
			Type.Array(
				Type.Object({
					day: Type.String({description: 'The day in UTC, `2026-11-05`.'}),
					accepted: count,
					delivered: count,
					bounced: count,
					complained: count,
				}),
				{description: 'Only with the parameter `days`. Outcomes count on the day they were recorded.'},
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
				description: `Adds daily figures for this many days up to today: 1 to ${maxDays}.`,
			}),
		),
	},
	{additionalProperties: false},
);

export const usageRoute = apiRoute({
	endpoint: 'GET /v1/usage',
	scope: 'usage:read',
	tag: 'Usage',
	summary: 'Get the usage of the month',
	description:
		'The number of messages that the workspace sent in this calendar month (UTC), and the rest of its quota. A message counts once, regardless of `cc`, when it is accepted. Sends by test keys and to `simulator.test` are counted separately, as `test`.',
	answer: [200, 'The month and, with `days`, the days up to today, newest first.', usageSchema],
	query: usageQuery,
	async handle({workspaceId, query: {days}}, {reader, tools}) {
		const now = tools.clock.now();
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
			...(days !== undefined && {days: await readDailyFigures(reader, workspaceId, now, Number(days))}),
		};
	},
});

/** Returns the figures of each day up to today, newest first, including days without any. */
async function readDailyFigures(reader: Knex, workspaceId: string, now: number, count: number): Promise<object[]> {
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
	accepted: 'All messages, including queued ones.',
	delivered: 'Messages accepted by a mail server of the recipient, including those followed by a complaint.',
	bounced: 'Messages with the status `bounced`.',
	complained: 'Messages with the status `complained`.',
	opened: 'Messages with an `opened` event, counted once.',
	clicked: 'Messages with a `clicked` event, counted once.',
	errored: 'Messages with the status `errored` that were not canceled.',
};

const statsSchema = Type.Object(
	{
		from: Type.String({description: 'The start of the first day, UTC.'}),
		to: Type.String({description: 'The current time.'}),
		by: Type.Union([Type.Enum(statsGroups), Type.Null()], {description: 'As requested; `null` for a total.'}),
		rows: Type.Array(
			Type.Object({
				key: Type.String({
					description:
						'The name of the workspace or template, the domain, or the category. Without `by` it is `total`.',
				}),
				id: Type.Optional(Type.String({description: 'The id of the workspace or template.'})),
				...Object.fromEntries(statsFigures.map(name => [name, Type.Integer({description: meanings[name]})])),
			}),
			{description: `At most ${maxRows} groups, the ones with the most messages first.`},
		),
		truncated: Type.Boolean({description: 'Whether there are further groups.'}),
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
						accepted: 2100,
						delivered: 2084,
						bounced: 9,
						complained: 1,
						opened: 940,
						clicked: 112,
						errored: 0,
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
				description: `Counts messages accepted on this many days up to today (UTC): 1 to ${maxDays}, ${defaultDays} by default.`,
			}),
		),
		by: Type.Optional(
			Type.Enum(statsGroups, {
				description:
					'Groups by workspace, sender domain, template, recipient domain (`destination`), or bounce category (`category`, which counts only bounced messages).',
			}),
		),
	},
	{additionalProperties: false},
);

export const statsRoute = apiRoute({
	endpoint: 'GET /v1/stats',
	scope: 'stats:read',
	tag: 'Usage',
	summary: 'Get delivery statistics',
	description:
		'Counts recently accepted messages of the workspace by their outcome so far. Messages of test keys and to `simulator.test`, `cc` recipients, and messages removed by retention are not counted. Workspaces take turns: the response is 503 `unavailable` if too many of your requests are waiting.',
	answer: [200, 'The counts.', statsSchema],
	query: statsQuery,
	async handle({workspaceId, query: {days = defaultDays, by = null}}, {reader, tools, work}) {
		const query = {workspaceId, by, days: Number(days), now: tools.clock.now(), limit: maxRows + 1};
		const {from, to, rows} = await work.stats(workspaceId, () => readStats(reader, query));
		const period = {from: apiTime(from), to: apiTime(to)};
		return {...period, by, rows: rows.slice(0, maxRows), truncated: rows.length > maxRows};
	},
});
