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
