import type {Knex} from 'knex';
import {rowSource} from './engine/dialect.ts';
import {insertRows} from './engine/insert-rows.ts';

/** What is counted by the day. */
export const usageStatuses = ['accepted', 'delivered', 'bounced', 'complained'] as const;
export type UsageStatus = (typeof usageStatuses)[number];

/** So many more of a status on a UTC day (`2026-11-05`). */
export type DayCount = {
	readonly workspaceId: string;
	readonly day: string;
	readonly status: UsageStatus;
	readonly n: number;
};

/** Adds to the figures of days. */
export async function countDays(trx: Knex.Transaction, counts: readonly DayCount[]): Promise<void> {
	const sums = new Map<string, DayCount>();
	for (const count of counts) {
		const key = `${count.workspaceId} ${count.day} ${count.status}`;
		sums.set(key, {...count, n: count.n + (sums.get(key)?.n ?? 0)});
	}
	// In the order of their keys, for two nodes may count the same days.
	const rows = [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, sum]) => sum);
	await insertRows(
		trx,
		'usage_days',
		['workspace_id', 'day', 'status', 'n'],
		rows.map(one => [one.workspaceId, one.day, one.status, one.n]),
		'on conflict (workspace_id, day, status) do update set n = usage_days.n + excluded.n',
	);
}

/** The figures of a workspace's days from `since` on. */
export async function readDays(
	reader: Knex,
	workspaceId: string,
	since: string,
): Promise<Array<{readonly day: string; readonly status: UsageStatus; readonly n: number}>> {
	return await reader('usage_days')
		.where({workspace_id: workspaceId})
		.where('day', '>=', since)
		.select('day', 'status', 'n');
}

/** Sends of a workspace to be counted in a month (`2026-11`), real and simulated ones apart. */
export type MonthCount = {readonly workspaceId: string; readonly accepted: number; readonly test: number};

/**
 * Adds to the figures of a month and answers what `accepted` is now, by workspace. The rows stay locked until the
 * transaction ends, so that what is judged by them is exact.
 */
export async function countMonth(
	trx: Knex.Transaction,
	month: string,
	counts: readonly MonthCount[],
): Promise<Map<string, number>> {
	// In the order of their keys, for two nodes may count for the same workspaces.
	const rows = counts
		.toSorted((a, b) => (a.workspaceId < b.workspaceId ? -1 : 1))
		.map(one => [one.workspaceId, month, one.accepted, one.test]);
	const {sql, bindings} = rowSource(trx, rows, 4);
	const answer = await trx.raw(
		`insert into usage_months (workspace_id, month, accepted, test) ${sql}
			on conflict (workspace_id, month) do update
				set accepted = usage_months.accepted + excluded.accepted, test = usage_months.test + excluded.test
			returning workspace_id, accepted`,
		bindings as Knex.RawBinding[],
	);
	const counted: Array<{workspace_id: string; accepted: number}> = Array.isArray(answer) ? answer : answer.rows;
	return new Map(counted.map(row => [row.workspace_id, row.accepted]));
}

/** Takes back what `countMonth` added too much in the same transaction. */
export async function giveBack(
	trx: Knex.Transaction,
	month: string,
	excess: ReadonlyArray<{readonly workspaceId: string; readonly n: number}>,
): Promise<void> {
	for (const {workspaceId, n} of excess) {
		await trx('usage_months').where({workspace_id: workspaceId, month}).decrement('accepted', n);
	}
}

/** The figures of a workspace's month. */
export async function readMonth(
	reader: Knex,
	workspaceId: string,
	month: string,
): Promise<{readonly accepted: number; readonly test: number}> {
	const row = await reader('usage_months').where({workspace_id: workspaceId, month}).first('accepted', 'test');
	return row ?? {accepted: 0, test: 0};
}
