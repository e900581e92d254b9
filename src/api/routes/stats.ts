import type {TypeBoxTypeProvider} from '@fastify/type-provider-typebox';
import {mostDays, readStats} from '../../admin/stats.ts';
import {apiTime} from '../../kit/time.ts';
import {Type} from '../../mail/type.ts';
import {statsFigures, statsGroups} from '../../store/usage.ts';
import type {ApiParts, Routes} from '../api-parts.ts';
import {callerOf} from '../auth.ts';
import {describe} from '../describe.ts';
import {createTurns} from '../turns.ts';

const usualDays = 30;
const mostRows = 1000;

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
			{description: `The group with the most messages first, at most ${mostRows}.`},
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
				description: `Messages that were accepted on so many days up to today (UTC): 1 to ${mostDays}, by default ${usualDays}.`,
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

export function statsRoutes({auth, reader, tools: {clock}}: ApiParts): Routes {
	// A million messages take a second or two.
	const turns = createTurns();
	return api => {
		api.withTypeProvider<TypeBoxTypeProvider>().get(
			'/v1/stats',
			{
				onRequest: auth.needs('stats:read'),
				schema: {
					...describe({
						tag: 'Usage',
						summary: 'Count what became of messages',
						description:
							'Counts the messages of the workspace that were accepted in the last days, by what has become of them so far. Mail by test keys and to `simulator.test` is not counted, nor are copies to `cc` and messages that retention removed. Workspaces take turns: 503 `unavailable` if too many of your requests wait.',
						answer: [200, 'The figures.', statsSchema],
					}),
					querystring: statsQuery,
				},
			},
			async request => {
				const {workspaceId} = callerOf(request);
				const {days = usualDays, by = null} = request.query;
				const query = {workspaceId, by, days: Number(days), now: clock.now(), limit: mostRows + 1};
				const {from, to, rows} = await turns(workspaceId, () => readStats(reader, query));
				const ends = {from: apiTime(from), to: apiTime(to)};
				return {...ends, by, rows: rows.slice(0, mostRows), truncated: rows.length > mostRows};
			},
		);
	};
}
