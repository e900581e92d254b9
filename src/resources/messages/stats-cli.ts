import {CliError} from '../../cli/fault.ts';
import {count, oneOf} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {type Column, grouped, printable, shortTime, table} from '../../cli/terminal-text.ts';
import {watch, watchOption} from '../../cli/watch.ts';
import {csvLine} from '../../kit/csv.ts';
import {storeTime} from '../../kit/time.ts';
import {type StatsFigures, type StatsGroup, statsFigures, statsGroups} from '../../store/usage.ts';
import {maxDays, readStats, readStatsByDay, type StatsLine} from './stats.ts';

type Options = {
	readonly days?: number;
	readonly by?: StatsGroup | null;
	readonly csv?: true;
	readonly watch?: true;
};

const defaultDays = 30;
/** The periods that the summary shows, in days. */
const defaultPeriods = [1, 7, defaultDays];
/** The maximum number of rows in a table for people. */
const maxLines = 25;

export function statsCommand(command: CliCommand): void {
	watchOption(
		command
			.sample('mailctl stats --by destination --days 7')
			.option(
				'--days <n>',
				`number of days up to today, in UTC (default: ${defaultDays})`,
				count('--days', 1, maxDays),
			)
			.option('--by <group>', `one row per ${statsGroups.join(', ')}`, oneOf('--by', statsGroups))
			.option('--csv', 'print CSV'),
	).does<Options>(stats);
}

async function stats(session: Session, options: Options): Promise<void> {
	const render = options.by === undefined ? summaryLines : groupLines;
	if (options.csv && (session.json || options.watch)) {
		throw new CliError('usage', '--csv cannot be combined with --json or --watch', 'leave out --json and --watch');
	}
	if (options.watch) {
		await watch(session, () => render(session, options));
	} else if (session.json || options.csv) {
		const result = await readFigures(session, options);
		if (session.json) {
			session.terminal.printJson(result);
		} else {
			await session.terminal.writeText(formatCsv(result.rows));
		}
	} else {
		session.terminal.print(await render(session, options));
	}
}

async function readFigures(session: Session, {by = null, days = defaultDays}: Pick<Options, 'by' | 'days'>) {
	const workspaceId = (await session.chosenWorkspace())?.id;
	const reader = await session.reader();
	return await readStats(reader, {workspaceId, by, days, now: session.tools.clock.now()});
}

function formatCsv(rows: readonly StatsLine[]): string {
	const cells = (row: StatsLine) => [row.key, ...statsFigures.map(name => row[name])];
	return [['key', ...statsFigures], ...rows.map(cells)].map(csvLine).join('');
}

async function groupLines(session: Session, options: Options): Promise<string[]> {
	const {by, from, to, rows} = await readFigures(session, options);
	// Hides the other columns if they are empty, to leave room for long names.
	const visible = statsFigures.filter((name, index) => index < 3 || rows.some(row => row[name] > 0));
	const columns: Array<Column<StatsLine>> = [
		{title: `${by}`.toUpperCase(), cell: row => row.key, cut: true},
		...visible.map(
			(name): Column<StatsLine> => ({title: name.toUpperCase(), cell: row => grouped(row[name]), right: true}),
		),
	];
	const remaining = rows.length - maxLines;
	return [
		`Mail accepted from ${shortTime(from)} to ${shortTime(to)} UTC`,
		'',
		...(rows.length === 0
			? [by === 'category' ? 'Nothing bounced.' : 'No messages were accepted.']
			: table(columns, rows.slice(0, maxLines), session.terminal.width)),
		...(remaining > 0 ? [`and ${grouped(remaining)} more: --csv and --json print all`] : []),
	];
}

type Line = {readonly name: keyof StatsFigures; readonly sums: readonly number[]; readonly days: readonly number[]};

/** Formats the figures of today and of the last 7 and 30 days, with a bar for each day. */
async function summaryLines(session: Session, {days}: Options): Promise<string[]> {
	const periods = days === undefined ? defaultPeriods : [days];
	const dayCount = Math.max(...periods);
	const now = session.tools.clock.now();
	const workspace = await session.chosenWorkspace();
	const daily = await readStatsByDay(await session.reader(), {workspaceId: workspace?.id, now, days: dayCount});
	const lines = statsFigures.map((name): Line => {
		const counts = daily.map(day => day[name]);
		return {name, days: counts, sums: periods.map(period => counts.slice(-period).reduce((sum, n) => sum + n, 0))};
	});
	const accepted = lines[0]?.sums.at(-1) ?? 0;
	const columns: Array<Column<Line>> = [
		{title: '', cell: line => line.name},
		...periods.map((period, index) => ({
			title: period === 1 ? 'TODAY' : `${period} DAYS`,
			cell: (line: Line) => grouped(line.sums[index] ?? 0),
			right: true as const,
		})),
		{title: 'SHARE', cell: line => share(line.sums.at(-1) ?? 0, accepted), right: true},
		{title: 'BY DAY', cell: line => barChart(line.days.slice(-defaultDays))},
	];
	return [
		`Mail accepted up to ${shortTime(storeTime(now))} UTC, ${workspace ? printable(workspace.name) : 'all workspaces'}`,
		'',
		...table(columns, lines, session.terminal.width),
	];
}

function share(part: number, total: number): string | null {
	return total === 0 ? null : `${((100 * part) / total).toFixed(1)} %`;
}

const heights = '▂▃▄▅▆▇█';

/** Draws a bar for each number, relative to the largest; the lowest bar means zero. */
function barChart(numbers: readonly number[]): string {
	const max = Math.max(...numbers);
	return numbers.map(n => (n === 0 ? '▁' : heights[Math.ceil((n / max) * heights.length) - 1])).join('');
}
