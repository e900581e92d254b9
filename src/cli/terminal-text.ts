import {eastAsianWidth} from 'get-east-asian-width';
import {unprintable} from '../kit/text.ts';
import {durationText} from '../kit/time.ts';
import type {OwnRetry} from '../mail/retry.ts';

// What a terminal would act on, and what makes text read otherwise than it is stored: addresses, names and the replies
// of foreign servers are printed too.
const unsafe = new RegExp(`[${unprintable}]`, 'gu');

/** The text with control, direction and invisible characters as `\x1b` or `\u202e`. */
export function printable(text: string): string {
	return text.replace(unsafe, escaped);
}

// Line ends and tabs are meant, and so are the colours that we give.
const obeyed = /(?!\u001b\[\d{1,2}m|[\t\n])\p{Cc}/gu;

/** Lines for a terminal: what it would obey is written as by `printable`, in every name and text. */
export function harmless(lines: string): string {
	return lines.replace(obeyed, escaped);
}

function escaped(character: string): string {
	const code = character.codePointAt(0) ?? 0;
	const hex = code.toString(16);
	return code < 0x100 ? `\\x${hex.padStart(2, '0')}` : code > 0xffff ? `\\u{${hex}}` : `\\u${hex}`;
}

// What a terminal shows in one place: a flag, or a character with its skin tone and the marks on it.
const places = /\p{Regional_Indicator}{2}|(?:\p{Emoji_Modifier_Base}\p{Emoji_Modifier}|.)[\p{Mn}\p{Me}]*/gsu;
// Letters of one column each, nearly all that is printed.
const plain = /^[\x20-\x7e\xa0-\u024f]*$/;
const mark = /^[\p{Mn}\p{Me}]/u;
/** Two columns, even if the first character alone has one: flags, and what a variation selector makes an emoji. */
const pair = /^(?:\p{Regional_Indicator}{2}|\p{Emoji}\ufe0f)/u;

function placesOf(text: string): readonly string[] {
	return text.match(places) ?? [];
}

function placeWidth(place: string): number {
	return pair.test(place) ? 2 : mark.test(place) ? 0 : eastAsianWidth(place.codePointAt(0) as number);
}

/** How many columns of a terminal the text takes. */
export function widthOf(text: string): number {
	return plain.test(text) ? text.length : placesOf(text).reduce((sum, place) => sum + placeWidth(place), 0);
}

/** The text cut to a number of columns, with an ellipsis where something is missing. */
export function cut(text: string, width: number): string {
	if (widthOf(text) <= width) {
		return text;
	}
	if (plain.test(text)) {
		return `${text.slice(0, Math.max(0, width - 1))}…`;
	}
	let kept = '';
	let columns = 0;
	for (const place of placesOf(text)) {
		columns += placeWidth(place);
		if (columns > width - 1) {
			break;
		}
		kept += place;
	}
	return `${kept}…`;
}

/** A stored time for people: `2026-06-09 10:15:30`, UTC. */
export function shortTime(stored: string | null): string {
	return stored === null ? '–' : stored.slice(0, 19).replace('T', ' ');
}

/** When a waiting recipient is tried: `next try` where that is ahead, `due since` where something else keeps it. */
export function nextTry(stored: string, now: number): string {
	return `${Date.parse(stored) > now ? 'next try' : 'due since'} ${shortTime(stored)} UTC`;
}

/** How long ago or ahead, in the two largest units: `4d 3h`, `90s`. */
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

/** A destination's own rules for retries, as the destinations file spells them. */
export function retryTexts({schedule, lifetime}: OwnRetry): {
	readonly retry: string | null;
	readonly lifetime: string | null;
} {
	return {
		retry: schedule && schedule.waits.map(durationText).join(',') + (schedule.repeatLast ? '*' : ''),
		lifetime: lifetime === null ? null : durationText(lifetime),
	};
}

/** 1000000 as `1,000,000`. */
export function grouped(count: number): string {
	return `${count}`.replaceAll(/\B(?=(?:\d{3})+$)/g, ',');
}

/**
 * The text in lines of at most this many columns, indent included, broken at spaces; a word that is longer stands
 * alone.
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

/**
 * The same of what strangers wrote, where a word may be longer than a line: it is broken, not to be copied from here.
 */
export function folded(text: string, width: number, indent = ''): string[] {
	return wrapped(broken(text, Math.max(1, width - widthOf(indent))), width, indent);
}

function broken(text: string, width: number): string {
	return text
		.split(' ')
		.map(word => {
			let columns = 0;
			let pieces = '';
			for (const place of placesOf(word)) {
				columns += placeWidth(place);
				if (columns > width) {
					pieces += ' ';
					columns = placeWidth(place);
				}
				pieces += place;
			}
			return pieces;
		})
		.join(' ');
}

export type Column<Row> = {
	readonly title: string;
	readonly cell: (row: Row) => string | number | null;
	/** Numbers stand at the right. */
	readonly right?: true;
	/** May be cut where the line is longer than the terminal; `first`: before the others are. */
	readonly cut?: true | 'first';
	/**
	 * An id: where the line is longer, as much of it as is unique, at least this number of characters. Commands take
	 * that too.
	 */
	readonly id?: true | number;
};

/** A noun of the command line: what scripts read of one, and what people see, in lists and of one alone. */
export type Noun<Row> = {
	/** What an empty list says to people, with what to do next. */
	readonly none: string;
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
function columnsOf<Row>(noun: Noun<Row>): Array<Column<Row>> {
	return noun.fields.flatMap(({title, cell, ...rest}) =>
		title === undefined ? [] : [{...rest, title, cell: row => cell(row) ?? null}],
	);
}

/** A list of them; what an empty one says. */
export function tableOf<Row>(noun: Noun<Row>, rows: readonly Row[], width: number): string[] {
	return rows.length === 0 ? [noun.none] : table(columnsOf(noun), rows, width);
}

/** The lines of one of them, of at most `width` columns where they have spaces. */
export function linesOf<Row>(noun: Noun<Row>, row: Row, width?: number): string[] {
	const pairs = noun.fields.flatMap(({name, cell}) => (name === undefined ? [] : [[name, cell(row)] as const]));
	return fields(pairs, width);
}

const gap = '  ';
const minWidth = 8;

/**
 * Aligned columns under their titles; lines are at most `width` columns as far as the columns that may be cut allow.
 */
export function table<Row>(columns: ReadonlyArray<Column<Row>>, rows: readonly Row[], width: number): string[] {
	const cells = rows.map(row => columns.map(column => printable(String(column.cell(row) ?? '–'))));
	const titles = columns.map(column => column.title);
	const measure = () =>
		columns.map((_, index) => Math.max(...[titles, ...cells].map(line => widthOf(line[index] ?? ''))));
	let widths = measure();
	if (lineWidth(widths) > width) {
		shortenIds(columns, cells);
		widths = measure();
	}
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

const lineWidth = (widths: readonly number[]) =>
	widths.reduce((sum, each) => sum + each, gap.length * (widths.length - 1));

/** An id begins with its kind and its time: less than this may be that of another one tomorrow. */
const minId = 16;

function shortenIds(columns: ReadonlyArray<Column<never>>, cells: string[][]): void {
	for (const [index, {id: least}] of columns.entries()) {
		if (least === undefined) {
			continue;
		}
		const ids = new Set(cells.map(line => line[index] ?? ''));
		const longest = Math.max(0, ...[...ids].map(id => id.length));
		let length = least === true ? minId : least;
		while (length < longest && new Set([...ids].map(id => id.slice(0, length))).size < ids.size) {
			length++;
		}
		for (const line of cells) {
			line[index] = (line[index] ?? '').slice(0, length);
		}
	}
}

// Takes column by column from the widest that may be cut, so that short ones stay whole.
function shrink(columns: ReadonlyArray<Column<never>>, widths: number[], width: number): void {
	const widest = (wanted: Column<never>['cut']) =>
		columns.reduce(
			(best, {cut: kind}, index) =>
				kind === wanted && (widths[index] ?? 0) > (widths[best] ?? minWidth) ? index : best,
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

/** Names at the left, values at the right; one that is longer than a line goes on below itself. Undefined: no line. */
export function fields(
	all: ReadonlyArray<readonly [name: string, value: string | number | null | undefined]>,
	width = Number.POSITIVE_INFINITY,
): string[] {
	const pairs = all.filter(([, value]) => value !== undefined);
	const names = Math.max(...pairs.map(([name]) => name.length));
	const indent = ' '.repeat(names + gap.length);
	return pairs.flatMap(([name, value]) => {
		const [first = '', ...rest] = wrapped(printable(String(value ?? '–')), width, indent);
		return [name.padEnd(indent.length) + first.slice(indent.length), ...rest].map(line => line.trimEnd());
	});
}
