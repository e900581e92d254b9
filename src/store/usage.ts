import type {Knex} from 'knex';
import {insertRows} from './insert-rows.ts';

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
