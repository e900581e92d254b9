import {eastAsianWidth} from 'get-east-asian-width';
import {unprintable} from '../kit/text.ts';
import {durationText} from '../kit/time.ts';
import type {OwnRetry} from '../mail/retry.ts';

// Characters that a terminal would interpret, or that make text look different from what is stored. The output contains
// untrusted text: addresses, names and the replies of other servers.
const unsafe = new RegExp(`[${unprintable}]`, 'gu');

/** Escapes control, direction and invisible characters, as `\x1b` or `\u202e`. */
export function printable(text: string): string {
	return text.replace(unsafe, escaped);
}

// All controls except line ends, tabs, and our own colors.
const controls = /(?!\u001b\[\d{1,2}m|[\t\n])\p{Cc}/gu;

/** Escapes every control character that a terminal would interpret, in lines to print. */
export function escapeControls(lines: string): string {
	return lines.replace(controls, escaped);
}

function escaped(character: string): string {
	const code = character.codePointAt(0) ?? 0;
	const hex = code.toString(16);
	if (code < 0x100) {
		return `\\x${hex.padStart(2, '0')}`;
	}
	return code > 0xffff ? `\\u{${hex}}` : `\\u${hex}`;
}

// Sequences that a terminal shows as one character: a flag, or a character with its skin tone and combining marks.
const graphemes = /\p{Regional_Indicator}{2}|(?:\p{Emoji_Modifier_Base}\p{Emoji_Modifier}|.)[\p{Mn}\p{Me}]*/gsu;
// Texts whose characters all have one column, which is nearly everything that is printed.
const plain = /^[\x20-\x7e\xa0-\u024f]*$/;
const combiningMark = /^[\p{Mn}\p{Me}]/u;
/** Sequences of two columns although the first character has one: flags, and emoji made by a variation selector. */
const widePair = /^(?:\p{Regional_Indicator}{2}|\p{Emoji}\ufe0f)/u;

function splitGraphemes(text: string): readonly string[] {
	return text.match(graphemes) ?? [];
}

function graphemeWidth(grapheme: string): number {
	if (widePair.test(grapheme)) {
		return 2;
	}
	return combiningMark.test(grapheme) ? 0 : eastAsianWidth(grapheme.codePointAt(0) as number);
}

/** Returns how many terminal columns a text occupies. */
export function widthOf(text: string): number {
	return plain.test(text)
		? text.length
		: splitGraphemes(text).reduce((sum, grapheme) => sum + graphemeWidth(grapheme), 0);
}

/** Truncates a text to a number of columns, with an ellipsis. */
export function cut(text: string, width: number): string {
	if (widthOf(text) <= width) {
		return text;
	}
	if (plain.test(text)) {
		return `${text.slice(0, Math.max(0, width - 1))}…`;
	}
	let visible = '';
	let columns = 0;
	for (const grapheme of splitGraphemes(text)) {
		columns += graphemeWidth(grapheme);
		if (columns > width - 1) {
			break;
		}
		visible += grapheme;
	}
	return `${visible}…`;
}

/** Formats a stored time for people: `2026-06-09 10:15:30`, in UTC. */
export function shortTime(stored: string | null): string {
	return stored === null ? '–' : stored.slice(0, 19).replace('T', ' ');
}

/** Formats when a recipient is attempted next, or from when it was due if something else delays it. */
export function formatNextAttempt(stored: string, now: number): string {
	return `${Date.parse(stored) > now ? 'next attempt' : 'due since'} ${shortTime(stored)} UTC`;
}

/** Formats a duration in its two largest units: `4d 3h`, `90s`. */
export function duration(milliseconds: number): string {
	const seconds = Math.max(0, Math.round(milliseconds / 1000));
	const [days, hours, minutes] = [
		Math.floor(seconds / 86_400),
		Math.floor(seconds / 3600) % 24,
		Math.floor(seconds / 60) % 60,
	];
	if (days > 0) {
		return `${days}d ${hours}h`;
	}
	if (hours > 0) {
		return `${hours}h ${minutes}m`;
	}
	return minutes > 0 ? `${minutes}m ${seconds % 60}s` : `${seconds}s`;
}

/** Formats a destination's own retry rules as in the destinations file. */
export function retryTexts({schedule, lifetime}: OwnRetry): {
	readonly retry: string | null;
	readonly lifetime: string | null;
} {
	return {
		retry: schedule && schedule.waits.map(durationText).join(',') + (schedule.repeatLast ? '*' : ''),
		lifetime: lifetime === null ? null : durationText(lifetime),
	};
}

/** Formats 1000000 as `1,000,000`. */
export function grouped(count: number): string {
	return `${count}`.replaceAll(/\B(?=(?:\d{3})+$)/g, ',');
}

/**
 * Wraps a text at spaces into lines of at most `width` columns, including the indent. A longer word gets its own line.
 */
export function wrapped(text: string, width: number, indent = ''): string[] {
	const lines: string[] = [];
	let line = '';
	for (const word of text.split(' ')) {
		const longer = line === '' ? word : `${line} ${word}`;
		if (line !== '' && widthOf(indent + longer) > width) {
			lines.push(indent + line);
			line = word;
		} else {
			line = longer;
		}
	}
	return [...lines, indent + line];
}

/** Like `wrapped`, for untrusted text: words longer than a line are broken, because nobody needs to copy them. */
export function folded(text: string, width: number, indent = ''): string[] {
	return wrapped(breakLongWords(text, Math.max(1, width - widthOf(indent))), width, indent);
}

function breakLongWords(text: string, width: number): string {
	return text
		.split(' ')
		.map(word => {
			let columns = 0;
			let pieces = '';
			for (const grapheme of splitGraphemes(word)) {
				columns += graphemeWidth(grapheme);
				if (columns > width) {
					pieces += ' ';
					columns = graphemeWidth(grapheme);
				}
				pieces += grapheme;
			}
			return pieces;
		})
		.join(' ');
}

export type Column<Row> = {
	readonly title: string;
	readonly cell: (row: Row) => string | number | null;
	/** Right-aligns numbers. */
	readonly right?: true;
	/** Whether the column may be cut if the line is longer than the terminal; `first` is cut before the others. */
	readonly cut?: true | 'first';
	/**
	 * Marks an id. If the line is too long, it is shortened to a unique prefix of at least this many characters, which
	 * commands accept too.
	 */
	readonly id?: true | number;
};

/** A noun of the command line: its JSON for scripts, and its fields for people, in lists and alone. */
export type Noun<Row> = {
	/** The text for an empty list, with what to do next. */
	readonly none: string;
	readonly json: (row: Row) => unknown;
	/**
	 * A field with a `title` is a column of lists; one with a `name` is a line of a single row, unless it is
	 * `undefined`.
	 */
	readonly fields: ReadonlyArray<
		Omit<Column<Row>, 'title' | 'cell'> & {
			readonly title?: string;
			readonly name?: string;
			readonly cell: (row: Row) => string | number | null | undefined;
		}
	>;
};

/** Returns the columns of a noun's lists. */
function columnsOf<Row>(noun: Noun<Row>): Array<Column<Row>> {
	return noun.fields.flatMap(({title, cell, ...rest}) =>
		title === undefined ? [] : [{...rest, title, cell: row => cell(row) ?? null}],
	);
}

/** Formats rows as a table, or returns the text for an empty list. */
export function toTable<Row>(noun: Noun<Row>, rows: readonly Row[], width: number): string[] {
	return rows.length === 0 ? [noun.none] : table(columnsOf(noun), rows, width);
}

/** Formats a single row, wrapped to `width` columns. */
export function toLines<Row>(noun: Noun<Row>, row: Row, width?: number): string[] {
	const pairs = noun.fields.flatMap(({name, cell}) => (name === undefined ? [] : [[name, cell(row)] as const]));
	return fields(pairs, width);
}

const gap = '  ';
/** Columns are not cut below this width. */
const minWidth = 8;

/**
 * Formats rows in aligned columns under their titles. Lines fit into `width` if the columns that may be cut allow it.
 */
export function table<Row>(columns: ReadonlyArray<Column<Row>>, rows: readonly Row[], width: number): string[] {
	const cells = rows.map(row => columns.map(column => printable(String(column.cell(row) ?? '–'))));
	const titles = columns.map(column => column.title);
	const measureWidths = () =>
		columns.map((_, index) => Math.max(...[titles, ...cells].map(line => widthOf(line[index] ?? ''))));
	let widths = measureWidths();
	if (lineWidth(widths) > width) {
		shortenIds(columns, cells);
		widths = measureWidths();
	}
	shrink(columns, widths, width);
	return [titles, ...cells].map(line =>
		line
			.map((text, index) => {
				const truncated = cut(text, widths[index] ?? 0);
				const space = ' '.repeat((widths[index] ?? 0) - widthOf(truncated));
				return columns[index]?.right ? space + truncated : truncated + space;
			})
			.join(gap)
			.trimEnd(),
	);
}

const lineWidth = (widths: readonly number[]) =>
	widths.reduce((sum, width) => sum + width, gap.length * (widths.length - 1));

/** The minimum length of a shortened id. Ids begin with kind and time, so a shorter prefix may soon be ambiguous. */
const minId = 16;

function shortenIds(columns: ReadonlyArray<Column<never>>, cells: string[][]): void {
	for (const [index, {id: minLength}] of columns.entries()) {
		if (minLength === undefined) {
			continue;
		}
		const ids = new Set(cells.map(line => line[index] ?? ''));
		const maxWidth = Math.max(0, ...[...ids].map(id => id.length));
		let length = minLength === true ? minId : minLength;
		while (length < maxWidth && new Set([...ids].map(id => id.slice(0, length))).size < ids.size) {
			length++;
		}
		for (const line of cells) {
			line[index] = (line[index] ?? '').slice(0, length);
		}
	}
}

// Always narrows the widest column that may be cut, so that short ones stay complete.
function shrink(columns: ReadonlyArray<Column<never>>, widths: number[], width: number): void {
	const widest = (cutKind: Column<never>['cut']) =>
		columns.reduce(
			(best, {cut: kind}, index) =>
				kind === cutKind && (widths[index] ?? 0) > (widths[best] ?? minWidth) ? index : best,
			-1,
		);
	for (let excess = lineWidth(widths) - width; excess > 0; excess--) {
		const first = widest('first');
		const index = first === -1 ? widest(true) : first;
		if (index === -1) {
			return;
		}
		widths[index] = (widths[index] ?? 0) - 1;
	}
}

/** Formats names and values in two columns. Long values are wrapped; `undefined` values are omitted. */
export function fields(
	entries: ReadonlyArray<readonly [name: string, value: string | number | null | undefined]>,
	width = Number.POSITIVE_INFINITY,
): string[] {
	const pairs = entries.filter(([, value]) => value !== undefined);
	const nameWidth = Math.max(...pairs.map(([name]) => name.length));
	const indent = ' '.repeat(nameWidth + gap.length);
	return pairs.flatMap(([name, value]) => {
		const [firstLine = '', ...rest] = wrapped(printable(String(value ?? '–')), width, indent);
		return [name.padEnd(indent.length) + firstLine.slice(indent.length), ...rest].map(line => line.trimEnd());
	});
}
