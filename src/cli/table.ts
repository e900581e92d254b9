import {cut, printable, widthOf, wrapped} from './text.ts';

export type Column<Row> = {
	readonly title: string;
	readonly cell: (row: Row) => string | number | null;
	/** Numbers stand at the right. */
	readonly right?: true;
	/** May be cut where the line is longer than the terminal. */
	readonly cut?: true;
};

/** A noun of the command line: what scripts read of one, and what people see, in lists and of one alone. */
export type Noun<Row> = {
	readonly json: (row: Row) => unknown;
	/** With a `title` a column of lists, with a `name` a line of what is shown alone, which `undefined` leaves out. */
	readonly fields: ReadonlyArray<
		Omit<Column<Row>, 'title' | 'cell'> & {
			readonly title?: string;
			readonly name?: string;
			readonly cell: (row: Row) => string | number | null | undefined;
		}
	>;
};

/** The columns of a noun. */
export function columnsOf<Row>(noun: Noun<Row>): Array<Column<Row>> {
	return noun.fields.flatMap(({title, cell, ...rest}) =>
		title === undefined ? [] : [{...rest, title, cell: row => cell(row) ?? null}],
	);
}

/** The lines of one of them. */
export function linesOf<Row>(noun: Noun<Row>, row: Row): string[] {
	const pairs = noun.fields.map(({name, cell}) => [name, name === undefined ? undefined : cell(row)] as const);
	return fields(pairs.flatMap(([name, value]) => (name === undefined || value === undefined ? [] : [[name, value]])));
}

const gap = '  ';
const leastWidth = 8;

/** Aligned columns under their titles; lines are at most `width` columns as far as the columns that may be cut allow. */
export function table<Row>(columns: ReadonlyArray<Column<Row>>, rows: readonly Row[], width: number): string[] {
	const cells = rows.map(row => columns.map(column => printable(String(column.cell(row) ?? '–'))));
	const titles = columns.map(column => column.title);
	const widths = columns.map((_, index) => Math.max(...[titles, ...cells].map(line => widthOf(line[index] ?? ''))));
	shrink(columns, widths, width);
	return [titles, ...cells].map(line =>
		line
			.map((text, index) => {
				const shown = cut(text, widths[index] ?? 0);
				const space = ' '.repeat((widths[index] ?? 0) - widthOf(shown));
				return columns[index]?.right ? space + shown : shown + space;
			})
			.join(gap)
			.trimEnd(),
	);
}

// Takes column by column from the widest that may be cut, so that short ones stay whole.
function shrink(columns: ReadonlyArray<Column<never>>, widths: number[], width: number): void {
	let excess = widths.reduce((sum, each) => sum + each, gap.length * (widths.length - 1)) - width;
	while (excess > 0) {
		const widest = columns.reduce(
			(best, column, index) => (column.cut && (widths[index] ?? 0) > (widths[best] ?? leastWidth) ? index : best),
			-1,
		);
		if (widest === -1) {
			return;
		}
		widths[widest] = (widths[widest] ?? 0) - 1;
		excess--;
	}
}

/** Names at the left, values at the right; one that is longer than a line goes on below itself. */
export function fields(
	pairs: ReadonlyArray<readonly [name: string, value: string | number | null]>,
	width = Number.POSITIVE_INFINITY,
): string[] {
	const names = Math.max(...pairs.map(([name]) => name.length));
	const indent = ' '.repeat(names + gap.length);
	return pairs.flatMap(([name, value]) => {
		const [first = '', ...rest] = wrapped(printable(String(value ?? '–')), width, indent);
		return [name.padEnd(indent.length) + first.slice(indent.length), ...rest].map(line => line.trimEnd());
	});
}
