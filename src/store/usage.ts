import type {Knex} from 'knex';
import {rowSource, rowsOf} from './engine/dialect.ts';
import {insertRows} from './engine/insert-rows.ts';
import {unanswered} from './engine/postgres-pipeline.ts';

/** What the API tells of a day. */
export const usageStatuses = ['accepted', 'delivered', 'bounced', 'complained'] as const;

/** What is counted by the hour and by the day: `opened` is the first open of a message. */
export const countedStatuses = [...usageStatuses, 'opened'] as const;
export type CountedStatus = (typeof countedStatuses)[number];

/** So many more of a status at a time, in the store's form. */
export type UsageCount = {
	readonly workspaceId: string;
	readonly at: string;
	readonly status: CountedStatus;
	readonly n: number;
};

/** The tables of figures, each with its column of times and how much of a stored time stands there. */
export const usageSpans = {days: ['usage_days', 'day', 10], hours: ['usage_hours', 'hour', 13]} as const;
export type UsageSpan = keyof typeof usageSpans;

/** Adds to the figures of hours and days. */
export async function countUsage(trx: Knex.Transaction, counts: readonly UsageCount[]): Promise<void> {
	for (const [table, column, length] of Object.values(usageSpans)) {
		const sums = new Map<string, readonly [workspaceId: string, time: string, status: CountedStatus, n: number]>();
		for (const {workspaceId, at, status, n} of counts) {
			const key = `${workspaceId} ${at.slice(0, length)} ${status}`;
			sums.set(key, [workspaceId, at.slice(0, length), status, n + (sums.get(key)?.[3] ?? 0)]);
		}
		// In the order of their keys, for two nodes may count the same times.
		const rows = [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
		await insertRows(
			trx,
			table,
			['workspace_id', column, 'status', 'n'],
			rows,
			`on conflict (workspace_id, ${column}, status) do update set n = ${table}.n + excluded.n`,
		);
	}
}

/** So many of a status on a UTC day (`2026-11-05`) or in an hour of it (`2026-11-05T13`). */
export type UsageFigure = {readonly time: string; readonly status: CountedStatus; readonly n: number};

/** The figures of a workspace's days or hours from `since` on. Those of hours are kept for some days. */
export async function readUsage(
	reader: Knex,
	workspaceId: string,
	span: UsageSpan,
	since: string,
): Promise<UsageFigure[]> {
	const [table, column] = usageSpans[span];
	return await reader(table)
		.where({workspace_id: workspaceId})
		.where(column, '>=', since)
		.select(`${column} as time`, 'status', 'n');
}

/** Removes figures of hours before this one, at most this many; answers how many. */
export async function purgeUsageHours(trx: Knex.Transaction, firstHour: string, limit: number): Promise<number> {
	const columns = ['workspace_id', 'hour', 'status'];
	const old = trx('usage_hours').where('hour', '<', firstHour).limit(limit).select(columns);
	return await trx('usage_hours').whereIn(columns, old).delete();
}

/** Sends of a workspace to be counted in a month (`2026-11`), real and simulated ones apart. */
export type MonthCount = {readonly workspaceId: string; readonly accepted: number; readonly test: number};

/** Adds to the figures of a month. */
export async function addToMonth(trx: Knex.Transaction, month: string, counts: readonly MonthCount[]): Promise<void> {
	if (counts.length > 0) {
		await trx.raw(...addition(trx, month, counts)).options(unanswered);
	}
}

/**
 * The same; answers what `accepted` is now, by workspace. The rows stay locked until the transaction ends, so that what is
 * judged by them is exact.
 */
export async function countMonth(
	trx: Knex.Transaction,
	month: string,
	counts: readonly MonthCount[],
): Promise<Map<string, number>> {
	const [sql, bindings] = addition(trx, month, counts);
	const counted: Array<{workspace_id: string; accepted: number}> = await rowsOf(
		trx,
		`${sql} returning workspace_id, accepted`,
		bindings,
	);
	return new Map(counted.map(row => [row.workspace_id, row.accepted]));
}

function addition(
	trx: Knex.Transaction,
	month: string,
	counts: readonly MonthCount[],
): [sql: string, bindings: Knex.RawBinding[]] {
	// In the order of their keys, for two nodes may count for the same workspaces.
	const rows = counts
		.toSorted((a, b) => (a.workspaceId < b.workspaceId ? -1 : 1))
		.map(one => [one.workspaceId, month, one.accepted, one.test]);
	const {sql, bindings} = rowSource(trx, rows, 4);
	const adding = `insert into usage_months (workspace_id, month, accepted, test) ${sql}
		on conflict (workspace_id, month) do update
			set accepted = usage_months.accepted + excluded.accepted, test = usage_months.test + excluded.test`;
	return [adding, bindings as Knex.RawBinding[]];
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

/** How many messages workspaces had accepted in a month; those that are missing had none. */
export async function readAccepted(
	reader: Knex,
	workspaceIds: readonly string[],
	month: string,
): Promise<Map<string, number>> {
	const rows: Array<{id: string; accepted: number}> = await reader('usage_months')
		.whereIn('workspace_id', workspaceIds)
		.where({month})
		.select('workspace_id as id', 'accepted');
	return new Map(rows.map(({id, accepted}) => [id, accepted]));
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
