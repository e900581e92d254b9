/** A record of a CSV file, or an invalid line. Lines count from 1, as in an editor. */
export type CsvRecord =
	| {readonly line: number; readonly cells: readonly string[]}
	| {readonly line: number; readonly problem: string; readonly text: string};

type Line = {readonly number: number; readonly text: string};

const maxLineLength = 64 * 1024;
const maxShownLength = 200;
const maxLines = 100;
/** A first line that declares the delimiter, as Excel writes it. */
const delimiterLine = /^"?sep=([^"\w])"?$/i;
const lineEnd = /\r\n|\n|\r/;
const trailingText = 'something follows its closing quote';

/**
 * Reads a CSV text incrementally, in chunks of any size. It follows RFC 4180, with the variations found in practice:
 * - Lines end in LF, CRLF or CR. Empty lines are skipped.
 * - Cells are separated by commas, semicolons or tabs: whichever is most frequent in the first line of the table, or
 *   declared by a first line such as `sep=;`.
 *
 * A quote that is never closed invalidates only its own line. After a hundred lines without a closing quote, reading
 * continues with the line after it, which bounds the memory. A line is scanned at most three times: as the first of a
 * record, within quotes, and for the cells of a multi-line record.
 */
export class CsvReader {
	#rest = '';
	/** A CR at the end of a chunk, because the next one may begin with its LF. */
	#pendingCr = '';
	#number = 0;
	/** Whether the current line is too long and has been reported. */
	#isSkipping = false;
	#delimiter = '';
	/** Whether the delimiter is final for the rest of the file. */
	#isFixed = false;
	readonly #beginsTable: (cells: readonly string[]) => boolean;
	/** The lines of a record whose quote is still open, and their total length. */
	#open: Line[] = [];
	#size = 0;

	/** `beginsTable` decides whether cells start the table. Until then, each line may have its own delimiter. */
	constructor(beginsTable: (cells: readonly string[]) => boolean = () => true) {
		this.#beginsTable = beginsTable;
	}

	push(text: string): CsvRecord[] {
		const records: CsvRecord[] = [];
		// Only the new chunk is searched for line ends, since a client may send one character at a time.
		const piece = this.#pendingCr + text;
		this.#pendingCr = piece.endsWith('\r') ? '\r' : '';
		const [first = '', ...laterLines] = piece.slice(0, piece.length - this.#pendingCr.length).split(lineEnd);
		this.#rest += first;
		for (const line of laterLines) {
			this.#addLine(this.#rest, records);
			this.#rest = line;
		}
		if (this.#rest.length > maxLineLength) {
			if (!this.#isSkipping) {
				this.#rejectLong({number: this.#number + 1, text: this.#rest}, records);
				this.#isSkipping = true;
			}
			this.#rest = '';
		}
		return records;
	}

	/** Returns the records that were still incomplete at the end of the text. */
	end(): CsvRecord[] {
		const records: CsvRecord[] = [];
		if (this.#rest !== '' || this.#pendingCr !== '') {
			this.#addLine(this.#rest, records);
		}
		this.#giveUp(records, () => true);
		return records;
	}

	#addLine(text: string, records: CsvRecord[]): void {
		this.#number++;
		const line = {number: this.#number, text};
		if (this.#isSkipping) {
			this.#isSkipping = false;
		} else if (text.length > maxLineLength) {
			this.#rejectLong(line, records);
		} else if (this.#open.length > 0) {
			this.#continueRecord(line, records);
		} else if (this.#opensRecord(line, records)) {
			this.#open = [line];
			this.#size = text.length;
		}
	}

	#rejectLong({number: line, text}: Line, records: CsvRecord[]): void {
		this.#giveUp(records, () => true);
		records.push({
			line,
			problem: `it is longer than ${maxLineLength} characters`,
			text: text.slice(0, maxShownLength),
		});
	}

	/** Returns `true` if the line starts a record that continues on the next line. Otherwise the line is processed. */
	#opensRecord({number: line, text}: Line, records: CsvRecord[]): boolean {
		if (text === '') {
			return false;
		}
		const declared = line === 1 ? delimiterLine.exec(text)?.[1] : undefined;
		if (declared !== undefined) {
			this.#delimiter = declared;
			this.#isFixed = true;
			return false;
		}
		if (!this.#isFixed) {
			this.#delimiter = guessDelimiter(text);
		}
		const cells = parseCells(text, this.#delimiter);
		this.#isFixed ||= Array.isArray(cells) && this.#beginsTable(cells);
		if (cells === 'broken') {
			records.push({line, problem: trailingText, text});
		} else if (cells !== 'open') {
			records.push({line, cells});
		}
		return cells === 'open';
	}

	#continueRecord(line: Line, records: CsvRecord[]): void {
		this.#open.push(line);
		this.#size += line.text.length;
		const end = parseCells(line.text, this.#delimiter, true);
		if (end === 'broken') {
			this.#giveUp(records, () => this.#open.length > 1, trailingText);
		} else if (end === 'open') {
			this.#giveUp(records, () => this.#open.length >= maxLines || this.#size > maxLineLength);
		} else {
			const cells = parseCells(this.#open.map(({text}) => text).join('\n'), this.#delimiter) as string[];
			this.#isFixed ||= this.#beginsTable(cells);
			records.push({line: (this.#open[0] as Line).number, cells});
			this.#open = [];
		}
	}

	/**
	 * Gives up open records as long as `shouldGiveUp` returns `true`: the first open line is reported, and the lines
	 * after it are read as the start of records. Lines within quotes need not be scanned again, because they continue a
	 * record in the same way wherever its quote was opened.
	 */
	#giveUp(records: CsvRecord[], shouldGiveUp: () => boolean, problem = 'its quote is not closed'): void {
		while (this.#open.length > 0 && shouldGiveUp()) {
			const {number: line, text} = this.#open[0] as Line;
			records.push({line, problem, text});
			do {
				this.#size -= (this.#open.shift() as Line).text.length;
			} while (this.#open.length > 0 && !this.#opensRecord(this.#open[0] as Line, records));
		}
	}
}

function guessDelimiter(line: string): string {
	const unquoted = line.replace(/"[^"]*(?:"|$)/g, '');
	const countOf = (delimiter: string) => unquoted.split(delimiter).length;
	return [',', ';', '\t'].reduce((best, next) => (countOf(next) > countOf(best) ? next : best));
}

/** @param isQuoted whether the text begins within quotes */
function parseCells(text: string, delimiter: string, isQuoted = false): string[] | 'open' | 'broken' {
	if (!text.includes('"')) {
		return isQuoted ? 'open' : text.split(delimiter);
	}
	const cells: string[] = [];
	for (let index = isQuoted ? -1 : 0; ; index++) {
		let end: number;
		if (index === -1 || text[index] === '"') {
			const quote = closingQuote(text, index + 1);
			if (quote === -1) {
				return 'open';
			}
			cells.push(text.slice(index + 1, quote).replaceAll('""', '"'));
			end = quote + 1;
		} else {
			const next = text.indexOf(delimiter, index);
			end = next === -1 ? text.length : next;
			cells.push(text.slice(index, end));
		}
		if (end === text.length) {
			return cells;
		}
		if (text[end] !== delimiter) {
			return 'broken';
		}
		index = end;
	}
}

/** Returns the index of the first quote from `start` that is not doubled, or -1. */
function closingQuote(text: string, start: number): number {
	let index = text.indexOf('"', start);
	while (index !== -1 && text[index + 1] === '"') {
		index = text.indexOf('"', index + 2);
	}
	return index;
}

// The beginnings of cells that spreadsheet programs run as a formula, full-width characters included, and the same
// after they were escaped with an apostrophe.
const formula = /^'*[=+\-@＝＋－＠\t\r\n]/;
const escapedFormula = /^'+[=+\-@＝＋－＠\t\r\n]/;
const needsQuotes = /[",;\t\r\n]|^ | $/;

/**
 * Returns a line of a CSV file (RFC 4180) with its line end. A cell that would be a formula is escaped by an
 * apostrophe.
 */
export function csvLine(cells: ReadonlyArray<string | number>): string {
	return `${cells.map(cell => csvCell(String(cell))).join(',')}\r\n`;
}

/**
 * Undoes the escaping of `csvLine`. Only for cells that it wrote, because an apostrophe can also be part of an address.
 */
export function withoutApostrophe(cell: string): string {
	return escapedFormula.test(cell) ? cell.slice(1) : cell;
}

function csvCell(text: string): string {
	const safe = formula.test(text) ? `'${text}` : text;
	return needsQuotes.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
