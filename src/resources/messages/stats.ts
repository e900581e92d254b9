import type {Knex} from 'knex';
import {dayMs, storeTime} from '../../kit/time.ts';
import {
	countStats,
	type StatsFigures,
	type StatsGroup,
	type StatsQuery,
	type StatsRow,
	statsFigures,
} from '../../store/usage.ts';
import {readTemplateNames} from '../templates/store.ts';
import {readWorkspaceNames} from '../workspaces/store.ts';

/** Outcomes of the messages accepted between `from` (inclusive) and `to` (exclusive), the largest groups first. */
type Stats = {
	readonly from: string;
	readonly to: string;
	/** `null` if there is a single row, `total`. */
	readonly by: StatsGroup | null;
	readonly rows: readonly StatsLine[];
};

/** `key` is the name of the group; a workspace or template also has its `id`. */
export type StatsLine = StatsFigures & {readonly key: string; readonly id?: string};

/** Statistics cover at most this many days. The number equals the default of MAILCTL_RETENTION_DAYS. */
export const maxDays = 90;

/** Returns the start of the UTC day `ago` days before `now`, in milliseconds. */
function dayStart(now: number, ago: number): number {
	return (Math.floor(now / dayMs) - ago) * dayMs;
}

/** Returns the figures of the last `days` UTC days, including today. */
export async function readStats(
	reader: Knex,
	{
		now,
		days,
		...query
	}: Pick<StatsQuery, 'workspaceId' | 'by' | 'limit'> & {readonly now: number; readonly days: number},
): Promise<Stats> {
	const [from, to] = [dayStart(now, days - 1), now];
	const rows = await countStats(reader, {...query, from, to});
	const range = {from: storeTime(from), to: storeTime(to), by: query.by};
	if (query.by === null) {
		return {...range, rows: [{key: 'total', ...toFigures(rows[0])}]};
	}
	const names = await readNames(reader, query, rows);
	return {
		...range,
		rows: rows.map(row => {
			const key = row.key ?? '';
			return names ? {key: names.get(key) ?? key, id: key, ...toFigures(row)} : {key, ...toFigures(row)};
		}),
	};
}

function toFigures(row: StatsRow | undefined): StatsFigures {
	return Object.fromEntries(statsFigures.map(name => [name, row?.[name] ?? 0])) as StatsFigures;
}

async function readNames(
	reader: Knex,
	{by, workspaceId}: Pick<StatsQuery, 'by' | 'workspaceId'>,
	rows: readonly StatsRow[],
): Promise<ReadonlyMap<string, string> | null> {
	switch (by) {
		case 'workspace':
			return await readWorkspaceNames(
				reader,
				rows.map(({key}) => key ?? ''),
			);
		case 'template':
			return await readTemplateNames(
				reader,
				workspaceId,
				rows.map(({key}) => key ?? ''),
			);
		default:
			return null;
	}
}

/** Returns the figures of each of the last `days` UTC days, including today, oldest first. */
export async function readStatsByDay(
	reader: Knex,
	{workspaceId, now, days}: {readonly workspaceId?: string | undefined; readonly now: number; readonly days: number},
): Promise<StatsFigures[]> {
	const figures: StatsFigures[] = [];
	for (let ago = days - 1; ago >= 0; ago--) {
		const to = ago === 0 ? now : dayStart(now, ago - 1);
		const [row] = await countStats(reader, {workspaceId, by: null, from: dayStart(now, ago), to});
		figures.push(toFigures(row));
	}
	return figures;
}
