import {withoutApostrophe} from '../../kit/csv.ts';
import {parseTime} from '../../kit/time.ts';
import {parseAddress} from '../../mail/address.ts';
import type {SuppressionReason} from '../../mail/suppression.ts';

/** The names of the columns that `suppression export` writes. */
export const exportedColumns = ['id', 'recipient', 'reason', 'source', 'created_at'] as const;
/** The columns that a `--bad` file has before those of the rejected line. */
export const badColumns = ['line', 'fault'] as const;

/** The indexes of a file's columns; `undefined` if the file does not have the column. */
export type Columns = {
	readonly address: number;
	readonly reason?: number | undefined;
	readonly createdAt?: number | undefined;
	/** The SMTP code or enhanced status in a list of bounces. */
	readonly reply?: number | undefined;
	/** Who requested the suppression, in files from Postmark. */
	readonly origin?: number | undefined;
	/** The tags in a list of unsubscribes from Mailgun. */
	readonly tags?: number | undefined;
	/** Used only in files that `suppression export` wrote. */
	readonly source?: number | undefined;
};

export type Layout = {
	readonly columns: Columns;
	/** Whether the first line contains column names; otherwise it is an entry. */
	readonly hasHeader: boolean;
	/** The names of the columns, generated if the file has no header. */
	readonly header: readonly string[];
	/** The number of leading `badColumns`, if this is a corrected `--bad` file. */
	readonly marks: number;
	/** Whether cells may contain apostrophes that `csvLine` added. */
	readonly isEscaped: boolean;
};

const names: Readonly<Record<Exclude<keyof Columns, 'source'>, readonly string[]>> = {
	address: ['email', 'emailaddress', 'address', 'recipient', 'recipientaddress'],
	reason: ['reason', 'suppressionreason'],
	createdAt: ['createdat', 'created', 'lastupdatetime', 'timestamp', 'date'],
	reply: ['status', 'code'],
	origin: ['origin'],
	tags: ['tags'],
};

/** Recognizes the columns of a file by its first line: by their names or, if it is an entry, by their contents. */
export function readLayout(first: readonly string[]): Layout {
	const plain = first.map(normalizeWord);
	const find = (kind: keyof typeof names) => indexOrUndefined(plain.findIndex(name => names[kind].includes(name)));
	const address = find('address');
	// A line without an @ cannot be an entry.
	if (address === undefined && first.some(cell => cell.includes('@'))) {
		const reason = first.findIndex((cell, index) => index > 0 && parseReason(cell) !== undefined);
		const createdAt = first.findIndex((cell, index) => index > 0 && timeOf(cell.trim()) !== undefined);
		const known = new Map([
			[0, 'recipient'],
			[reason, 'reason'],
			[createdAt, 'created_at'],
		]);
		return {
			columns: {address: 0, reason: indexOrUndefined(reason), createdAt: indexOrUndefined(createdAt)},
			hasHeader: false,
			header: first.map((_, index) => known.get(index) ?? `column_${index + 1}`),
			marks: 0,
			isEscaped: false,
		};
	}
	const marks = startsWith(first, badColumns) ? badColumns.length : 0;
	const isExported = startsWith(first.slice(marks), exportedColumns);
	return {
		columns: {
			address: address ?? marks,
			reason: find('reason'),
			createdAt: find('createdAt'),
			reply: find('reply'),
			origin: find('origin'),
			tags: find('tags'),
			...(isExported && {source: marks + exportedColumns.indexOf('source')}),
		},
		hasHeader: true,
		header: first.slice(marks),
		marks,
		isEscaped: isExported || marks > 0,
	};
}

function indexOrUndefined(index: number): number | undefined {
	return index === -1 ? undefined : index;
}

function startsWith(cells: readonly string[], beginning: readonly string[]): boolean {
	return beginning.every((name, index) => cells[index] === name);
}

/** Returns the cells of a line as they were before `csvLine` escaped them. */
export function plainCells(cells: readonly string[], {isEscaped, marks}: Layout): readonly string[] {
	return isEscaped ? cells.map((cell, index) => (index < marks ? cell : withoutApostrophe(cell))) : cells;
}

const namesAddress = (cells: readonly string[]) => cells.some(cell => names.address.includes(normalizeWord(cell)));

/** Whether a line starts the table: it contains the name of the address column, or is an entry itself. */
export function beginsTable(cells: readonly string[]): boolean {
	return (
		namesAddress(cells) || (!isComment(cells) && cells.some(cell => /^[^\s@]+@\S+$|<\S+@\S+>$/.test(cell.trim())))
	);
}

function isComment([first = '']: readonly string[]): boolean {
	return /^\s*(?:#|\/\/)/.test(first) && !parseAddress(first.trim(), {allowsUtf8Local: true}).ok;
}

/** Whether the line before the first entry is a header whose column names are all unknown. */
export function isHeaderOf(cells: readonly string[], first: readonly string[]): boolean {
	return !namesAddress(first) && cells.length === first.length && isSkippable(cells) && !isComment(cells);
}

/** Whether a line before the table can be skipped because it contains no address. */
export function isSkippable(cells: readonly string[]): boolean {
	return isComment(cells) || !cells.some(cell => cell.includes('@'));
}

/** Whether a title or a column name mentions complaints. */
export function mentionsComplaints(texts: readonly string[]): boolean {
	return texts.some(text => /complain|spam|abuse|\bfbl\b/i.test(text));
}

const reasonsByWord: Readonly<Record<string, SuppressionReason>> = {
	hardbounce: 'hard_bounce',
	bounce: 'hard_bounce',
	bounced: 'hard_bounce',
	hardbounced: 'hard_bounce',
	bouncerule: 'hard_bounce',
	complaint: 'complaint',
	complaints: 'complaint',
	complained: 'complaint',
	spamcomplaint: 'complaint',
	spamreport: 'complaint',
	spamreports: 'complaint',
	spam: 'complaint',
	abuse: 'complaint',
	manual: 'manual',
	manualsuppression: 'manual',
	unsubscribe: 'unsubscribe',
	unsubscribed: 'unsubscribe',
	listunsubscribe: 'unsubscribe',
	unsubscribelink: 'unsubscribe',
};

export function parseReason(text: string): SuppressionReason | undefined {
	const word = normalizeWord(text);
	return Object.hasOwn(reasonsByWord, word) ? reasonsByWord[word] : undefined;
}

/** Normalizes a name or reason, which have many spellings: `Email Address`, `EmailAddress`, `email_address`. */
export function normalizeWord(text: string): string {
	return text.toLowerCase().replace(/[^a-z\d]/g, '');
}

// RFC 5322 §3.3, as Mailgun writes it: Fri, 21 Oct 2011 11:02:55 GMT.
const mailDate = /^(?:[A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d(?::\d\d)? (?:UTC|GMT|[+-]\d{4})$/;

/** Parses an RFC 3339 time, Unix seconds or milliseconds, or an RFC 5322 date. Returns milliseconds. */
export function timeOf(text: string): number | undefined {
	if (/^\d{10}$|^\d{13}$/.test(text)) {
		return text.length === 10 ? Number(text) * 1000 : Number(text);
	}
	const mail = mailDate.test(text) ? Date.parse(text) : Number.NaN;
	return Number.isNaN(mail) ? parseTime(text) : mail;
}
