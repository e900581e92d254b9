/** A record of a CSV file, or a line that cannot be read. Lines count from 1, as in an editor. */
export type CsvRecord =
	| {readonly line: number; readonly cells: readonly string[]}
	| {readonly line: number; readonly fault: string; readonly text: string};

type Line = {readonly number: number; readonly text: string};

const maxLineLength = 64 * 1024;
const shownOfLong = 200;
const maxLines = 100;
/** A first line that tells Excel the delimiter of the file. */
const namedDelimiter = /^"?sep=([^"\w])"?$/i;
const lineEnd = /\r\n|\n|\r/;
const broken = 'something follows its closing quote';

/**
 * Reads a CSV text as it comes, in pieces of any size. RFC 4180, and what programs make of it: lines end in LF, CRLF or
 * CR, cells are parted by commas, semicolons or tabs (the one that is most frequent in the first line of the table, or
 * the one that a first line such as `sep=;` names), empty lines mean nothing. A quote that is never closed costs its
 * own line only: after a hundred lines without its end, reading goes on with the line that follows it. That bounds the
 * memory. A line is scanned three times at most: as the first of a record, within quotes, and for the cells of a record
 * of several lines.
 */
export class CsvReader {
	#rest = '';
	/** A CR at the end of a piece: the next one may begin with its LF. */
	#held = '';
	#number = 0;
	/** Within a line that is too long and was reported. */
	#skipping = false;
	#delimiter = '';
	/** Whether the delimiter is settled for the rest of the file. */
	#isFixed = false;
	readonly #beginsTable: (cells: readonly string[]) => boolean;
	/** The lines of a record with a quote that is still open, and how long they are together. */
	#open: Line[] = [];
	#size = 0;

	/**
	 * `beginsTable`: whether the cells are the first of the table. Until then, each line may have its own delimiter.
	 */
	constructor(beginsTable: (cells: readonly string[]) => boolean = () => true) {
		this.#beginsTable = beginsTable;
	}

	push(text: string): CsvRecord[] {
		const records: CsvRecord[] = [];
		// Only what is new is looked through: a client may send a character at a time.
		const piece = this.#held + text;
		this.#held = piece.endsWith('\r') ? '\r' : '';
		const [first = '', ...others] = piece.slice(0, piece.length - this.#held.length).split(lineEnd);
		this.#rest += first;
		for (const line of others) {
			this.#takeLine(this.#rest, records);
			this.#rest = line;
		}
		if (this.#rest.length > maxLineLength) {
			if (!this.#skipping) {
				this.#refuseLong({number: this.#number + 1, text: this.#rest}, records);
				this.#skipping = true;
			}
			this.#rest = '';
		}
		return records;
	}

	/** The records that had no end yet. */
	end(): CsvRecord[] {
		const records: CsvRecord[] = [];
		if (this.#rest !== '' || this.#held !== '') {
			this.#takeLine(this.#rest, records);
		}
		this.#giveUp(records, () => true);
		return records;
	}

	#takeLine(text: string, records: CsvRecord[]): void {
		this.#number++;
		const line = {number: this.#number, text};
		if (this.#skipping) {
			this.#skipping = false;
		} else if (text.length > maxLineLength) {
			this.#refuseLong(line, records);
		} else if (this.#open.length > 0) {
			this.#goOn(line, records);
		} else if (this.#begins(line, records)) {
			this.#open = [line];
			this.#size = text.length;
		}
	}

	#refuseLong({number: line, text}: Line, records: CsvRecord[]): void {
		this.#giveUp(records, () => true);
		records.push({line, fault: `it is longer than ${maxLineLength} characters`, text: text.slice(0, shownOfLong)});
	}

	/** Whether the line is the first one of a record that goes on; otherwise it is dealt with. */
	#begins({number: line, text}: Line, records: CsvRecord[]): boolean {
		if (text === '') {
			return false;
		}
		const named = line === 1 ? namedDelimiter.exec(text)?.[1] : undefined;
		if (named !== undefined) {
			this.#delimiter = named;
			this.#isFixed = true;
			return false;
		}
		if (!this.#isFixed) {
			this.#delimiter = delimiterOf(text);
		}
		const cells = cellsOf(text, this.#delimiter);
		this.#isFixed ||= Array.isArray(cells) && this.#beginsTable(cells);
		if (cells === 'broken') {
			records.push({line, fault: broken, text});
		} else if (cells !== 'open') {
			records.push({line, cells});
		}
		return cells === 'open';
	}

	#goOn(line: Line, records: CsvRecord[]): void {
		this.#open.push(line);
		this.#size += line.text.length;
		const end = cellsOf(line.text, this.#delimiter, true);
		if (end === 'broken') {
			this.#giveUp(records, () => this.#open.length > 1, broken);
		} else if (end === 'open') {
			this.#giveUp(records, () => this.#open.length >= maxLines || this.#size > maxLineLength);
		} else {
			const cells = cellsOf(this.#open.map(({text}) => text).join('\n'), this.#delimiter) as string[];
			this.#isFixed ||= this.#beginsTable(cells);
			records.push({line: (this.#open[0] as Line).number, cells});
			this.#open = [];
		}
	}

	/**
	 * While what is open can be no record, its first line is at fault and the next ones are read as beginnings. Nothing
	 * is scanned again within quotes: wherever they were opened, the lines that follow go on as they did.
	 */
	#giveUp(records: CsvRecord[], isNone: () => boolean, fault = 'its quote is not closed'): void {
		while (this.#open.length > 0 && isNone()) {
			const {number: line, text} = this.#open[0] as Line;
			records.push({line, fault, text});
			do {
				this.#size -= (this.#open.shift() as Line).text.length;
			} while (this.#open.length > 0 && !this.#begins(this.#open[0] as Line, records));
		}
	}
}

function delimiterOf(line: string): string {
	const unquoted = line.replace(/"[^"]*(?:"|$)/g, '');
	const countOf = (delimiter: string) => unquoted.split(delimiter).length;
	return [',', ';', '\t'].reduce((best, each) => (countOf(each) > countOf(best) ? each : best));
}

/** @param quoted whether the text begins within quotes */
function cellsOf(text: string, delimiter: string, quoted = false): string[] | 'open' | 'broken' {
	if (!text.includes('"')) {
		return quoted ? 'open' : text.split(delimiter);
	}
	const cells: string[] = [];
	for (let at = quoted ? -1 : 0; ; at++) {
		let end: number;
		if (at === -1 || text[at] === '"') {
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

/** The first quote from `start` on that is not doubled; -1: no such quote. */
function closingQuote(text: string, start: number): number {
	let at = text.indexOf('"', start);
	while (at !== -1 && text[at + 1] === '"') {
		at = text.indexOf('"', at + 2);
	}
	return at;
}

// What spreadsheet programs run as a formula, and such a beginning that was made harmless before. Some of them take
// wide signs too.
const formula = /^'*[=+\-@＝＋－＠\t\r\n]/;
const harmless = /^'+[=+\-@＝＋－＠\t\r\n]/;
const needsQuotes = /[",;\t\r\n]|^ | $/;

/** A line of a CSV file (RFC 4180), with its end. A cell that would be a formula gets an apostrophe before it. */
export function csvLine(cells: ReadonlyArray<string | number>): string {
	return `${cells.map(cell => csvCell(String(cell))).join(',')}\r\n`;
}

/**
 * The text that `csvLine` was given; only for cells that it wrote, for an apostrophe may also be part of an address.
 */
export function withoutApostrophe(cell: string): string {
	return harmless.test(cell) ? cell.slice(1) : cell;
}

function csvCell(text: string): string {
	const safe = formula.test(text) ? `'${text}` : text;
	return needsQuotes.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
