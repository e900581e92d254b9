/** A record of a CSV file, or a line that is none. Lines are counted from 1 as an editor does. */
export type CsvRecord =
	| {readonly line: number; readonly cells: readonly string[]}
	| {readonly line: number; readonly fault: string; readonly text: string};

/** Reads a CSV text as it comes, in pieces of any size. */
export type CsvReader = {
	readonly push: (text: string) => CsvRecord[];
	/** The records that had no end yet. */
	readonly end: () => CsvRecord[];
};

type Line = {readonly number: number; readonly text: string};

const longestLine = 64 * 1024;
const shownOfLong = 200;
const mostLines = 100;

/**
 * RFC 4180, and what programs make of it: lines end in LF, CRLF or CR, cells are parted by commas, semicolons or tabs
 * (whatever the first line has most of), empty lines mean nothing. A quote that is never closed costs its own line only:
 * after a hundred lines without its end, reading goes on with the line that follows it. Memory is bounded by that.
 */
export function createCsvReader(): CsvReader {
	let rest = '';
	let number = 0;
	/** Within a line that is too long, whose fault was told. */
	let skipping = false;
	let delimiter = '';
	/** The lines of a record with a quote that is still open. */
	let open: Line[] = [];

	function takeLine(text: string, records: CsvRecord[]): void {
		number++;
		if (skipping) {
			skipping = false;
		} else if (text.length > longestLine) {
			refuseLong({number, text}, records);
		} else {
			take({number, text}, records);
		}
	}

	function refuseLong({number: line, text}: Line, records: CsvRecord[]): void {
		closeOpen(records);
		records.push({line, fault: `it is longer than ${longestLine} characters`, text: text.slice(0, shownOfLong)});
	}

	function take(line: Line, records: CsvRecord[]): void {
		if (open.length === 0 && line.text === '') {
			return;
		}
		delimiter ||= delimiterOf(line.text);
		// Without a quote nothing that is open can end.
		const stays = open.length > 0 && !line.text.includes('"');
		open.push(line);
		const cells = stays ? 'open' : cellsOf(open.map(({text}) => text).join('\n'), delimiter);
		if (cells === 'broken') {
			giveUp(records, 'something follows its closing quote');
		} else if (cells !== 'open') {
			records.push({line: (open[0] as Line).number, cells});
			open = [];
		} else if (open.length >= mostLines || sizeOf(open) > longestLine) {
			giveUp(records);
		}
	}

	/** The first line of what is open is no record; those after it are read anew. */
	function giveUp(records: CsvRecord[], fault = 'its quote is not closed'): void {
		const [first, ...others] = open as [Line, ...Line[]];
		open = [];
		records.push({line: first.number, fault, text: first.text});
		for (const line of others) {
			take(line, records);
		}
	}

	function closeOpen(records: CsvRecord[]): void {
		while (open.length > 0) {
			giveUp(records);
		}
	}

	return {
		push(text) {
			const records: CsvRecord[] = [];
			const lines = (rest + text).split(/\r\n|\n|\r(?!$)/);
			rest = lines.pop() as string;
			for (const line of lines) {
				takeLine(line, records);
			}
			if (rest.length > longestLine) {
				if (!skipping) {
					refuseLong({number: number + 1, text: rest}, records);
					skipping = true;
				}
				rest = rest.endsWith('\r') ? '\r' : '';
			}
			return records;
		},
		end() {
			const records: CsvRecord[] = [];
			if (rest !== '') {
				takeLine(rest.replace(/\r$/, ''), records);
			}
			closeOpen(records);
			return records;
		},
	};
}

function sizeOf(lines: readonly Line[]): number {
	return lines.reduce((sum, {text}) => sum + text.length, 0);
}

function delimiterOf(line: string): string {
	const unquoted = line.replace(/"[^"]*(?:"|$)/g, '');
	const countOf = (delimiter: string) => unquoted.split(delimiter).length;
	return [',', ';', '\t'].reduce((best, each) => (countOf(each) > countOf(best) ? each : best));
}

function cellsOf(text: string, delimiter: string): string[] | 'open' | 'broken' {
	if (!text.includes('"')) {
		return text.split(delimiter);
	}
	const cells: string[] = [];
	for (let at = 0; ; at++) {
		let end: number;
		if (text[at] === '"') {
			const quote = closingQuote(text, at + 1);
			if (quote === -1) {
				return 'open';
			}
			cells.push(text.slice(at + 1, quote).replaceAll('""', '"'));
			end = quote + 1;
		} else {
			const next = text.indexOf(delimiter, at);
			end = next === -1 ? text.length : next;
			cells.push(text.slice(at, end));
		}
		if (end === text.length) {
			return cells;
		}
		if (text[end] !== delimiter) {
			return 'broken';
		}
		at = end;
	}
}

/** The first quote from `start` on that is not doubled; -1: there is none. */
function closingQuote(text: string, start: number): number {
	let at = text.indexOf('"', start);
	while (at !== -1 && text[at + 1] === '"') {
		at = text.indexOf('"', at + 2);
	}
	return at;
}

// What spreadsheet programs run as a formula, and such a beginning that was made harmless before.
const formula = /^'*[=+\-@\t\r\n]/;
const harmless = /^'+[=+\-@\t\r\n]/;
const needsQuotes = /[",;\t\r\n]|^ | $/;

/** A line of a CSV file (RFC 4180), with its end. A cell that would be a formula gets an apostrophe before it. */
export function csvLine(cells: ReadonlyArray<string | number>): string {
	return `${cells.map(cell => csvCell(String(cell))).join(',')}\r\n`;
}

/** The text that `csvLine` was given; only for cells that it wrote, for an apostrophe may also be part of an address. */
export function withoutApostrophe(cell: string): string {
	return harmless.test(cell) ? cell.slice(1) : cell;
}

function csvCell(text: string): string {
	const safe = formula.test(text) ? `'${text}` : text;
	return needsQuotes.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
