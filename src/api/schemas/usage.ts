import {Type} from './type.ts';

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
export const usageSchema = Type.Object(
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
