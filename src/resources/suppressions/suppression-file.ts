import {Readable} from 'node:stream';
import {setImmediate} from 'node:timers/promises';
import type {Knex} from 'knex';
import {CsvReader, type CsvRecord, csvLine} from '../../kit/csv.ts';
import {apiTime, storeTime} from '../../kit/time.ts';
import {type Address, parseAddress} from '../../mail/address.ts';
import {createPastIds, isId} from '../../mail/ids.ts';
import type {Mode} from '../../mail/message.ts';
import type {Acting} from '../../mail/operator.ts';
import type {SuppressionReason} from '../../mail/suppression.ts';
import {beginAct} from '../audit/store.ts';
import {insertSuppressions, listSuppressions, type NewSuppression, type Suppression} from './store.ts';
import {
	beginsTable,
	type Columns,
	exportedColumns,
	isHeaderOf,
	isSkippable,
	type Layout,
	mentionsComplaints,
	normalizeWord,
	parseReason,
	plainCells,
	readLayout,
	timeOf,
} from './suppression-layout.ts';

/** The entry that a line describes. */
export type Listed = {
	readonly address: Address;
	readonly reason: SuppressionReason;
	/** Milliseconds; `null` if the line has no time. */
	readonly createdAt: number | null;
	/** `null` if the source is the import itself. */
	readonly source: string | null;
};

/** Reads a line. `reason` overrides that of the line; `now` is in milliseconds. */
export function readListed(
	cells: readonly string[],
	columns: Columns,
	{reason: override, now}: {readonly reason: SuppressionReason | undefined; readonly now: number},
): ({readonly ok: true} & Listed) | {readonly ok: false; readonly problem: string} {
	const cell = (index: number | undefined) => (index === undefined ? '' : (cells[index] ?? '').trim());
	const parsed = parseAddress(cell(columns.address), {allowsUtf8Local: true});
	if (!parsed.ok) {
		const isEmpty = cell(columns.address) === '';
		return {ok: false, problem: isEmpty ? 'the address is missing' : `the address ${parsed.problem}`};
	}

	const reason = override ?? reasonOfLine(cell, columns, cells);
	if (typeof reason === 'object') {
		return {ok: false, ...reason};
	}

	const timeText = cell(columns.createdAt);
	const createdAt = timeText === '' ? null : timeOf(timeText);
	if (createdAt === undefined) {
		return {ok: false, problem: `"${truncate(timeText)}" is not a valid time (example: 2026-11-21T10:15:30Z)`};
	}
	if (createdAt !== null && (createdAt > now || createdAt < 0)) {
		return {ok: false, problem: `the time ${timeText} is not between 1970 and now`};
	}

	const source = cell(columns.source);
	return {ok: true, address: parsed.address, reason, createdAt, source: isSource(source) ? source : null};
}

/** Truncates a cell for an error message, since it can be as long as a line. */
const truncate = (text: string) => (text.length > 100 ? `${text.slice(0, 99)}…` : text);

type CellOf = (index: number | undefined) => string;

function reasonOfLine(cell: CellOf, columns: Columns, cells: readonly string[]): SuppressionReason | {problem: string} {
	const text = cell(columns.reason);
	const known = parseReason(text);
	if (known === 'manual' && normalizeWord(cell(columns.origin)) === 'recipient') {
		return 'unsubscribe';
	}
	if (known) {
		return known;
	}
	// Lists of bounces contain the mail server's reply, `550 5.1.1 no such user`, or a column with `5.1.1`.
	const reply = /^([245])(?:\d\d|\.\d{1,3}\.\d{1,3})(?!\d)/.exec(cell(columns.reply) || text)?.[1];
	if (reply === '5') {
		return 'hard_bounce';
	}
	if (reply !== undefined) {
		return {problem: 'its bounce was temporary, so the address is not suppressed; --reason overrides this'};
	}
	if (text !== '') {
		return {problem: `the reason "${truncate(text)}" is unknown; give one with --reason`};
	}
	const elsewhere = reasonElsewhere(cells);
	if (elsewhere !== undefined) {
		return elsewhere;
	}
	const complaintCell = cells.find((value, index) => index !== columns.address && mentionsComplaints([value]));
	if (complaintCell !== undefined) {
		return {problem: `"${truncate(complaintCell)}" may be a complaint; give the reason with --reason`};
	}
	return columns.tags === undefined ? 'manual' : 'unsubscribe';
}

/** Finds a reason in any other column, such as `type`. A complaint takes precedence. */
function reasonElsewhere(cells: readonly string[]): SuppressionReason | undefined {
	const reasons = cells.map(parseReason);
	return reasons.includes('complaint') ? 'complaint' : reasons.find(reason => reason !== undefined);
}

function isSource(text: string): boolean {
	return ['api', 'one-click', 'cli', 'dashboard', 'import'].includes(text) || isId('msg', text);
}

const exportedAtOnce = 1000;

type ExportFilter = {
	readonly workspaceId: string;
	/** Entries of the other mode are left out, because an import creates entries of one mode only. */
	readonly mode: Mode;
	readonly reason: SuppressionReason | undefined;
};

/** Yields the entries page by page, so that a million of them need neither much memory nor a long transaction. */
export async function* exportPages(
	reader: Knex,
	{workspaceId, mode, reason}: ExportFilter,
): AsyncGenerator<readonly Suppression[]> {
	let after: string | null = null;
	do {
		const page: Suppression[] = await listSuppressions(reader, {workspaceId, reason, after, limit: exportedAtOnce});
		const ofMode = page.filter(entry => entry.mode === mode);
		if (ofMode.length > 0) {
			yield ofMode;
		}
		after = page.length < exportedAtOnce ? null : (page.at(-1)?.id ?? null);
	} while (after !== null);
}

/** The first line of an exported file. */
export const exportedHeader = csvLine(exportedColumns);

export function exportedLine({id, address, reason, source, created_at}: Suppression): string {
	return csvLine([id, address, reason, source, apiTime(created_at)]);
}

/**
 * Returns the exported file as a stream. Rejects if the first page cannot be read, while the response can still be an
 * error.
 */
export async function exportedFile(reader: Knex, filter: ExportFilter): Promise<Readable> {
	const pages = exportPages(reader, filter);
	const first = await pages.next();
	return Readable.from(streamBytes(first.done ? [] : first.value, pages), {objectMode: false});
}

async function* streamBytes(
	first: readonly Suppression[],
	rest: AsyncIterable<readonly Suppression[]>,
): AsyncGenerator<Buffer> {
	yield Buffer.from(exportedHeader + first.map(exportedLine).join(''));
	for await (const page of rest) {
		yield Buffer.from(page.map(exportedLine).join(''));
	}
}

/** Octets. A file with a longer line is rejected as a whole; `CsvReader` only skips shorter lines that are too long. */
const maxLineLength = 64 * 1024 ** 2;

/** The problem with a file as a whole, and how to fix it, as clauses. */
type FileProblem = {readonly problem: string; readonly fix: string};

/** Records of a file with the number of bytes read so far, or a problem. */
type FilePart = {readonly records: readonly CsvRecord[]; readonly bytes: number} | FileProblem;

/** Yields the records of a CSV file as they are read. After a problem nothing else follows. */
async function* readRecords(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<FilePart> {
	const reader = new CsvReader(beginsTable);
	const decoder = new TextDecoder();
	let bytes = 0;
	let lineStart = 0;
	for await (const chunk of chunks) {
		// A zero byte in the first chunk means another encoding, or an archive.
		if (bytes === 0 && chunk.includes(0)) {
			yield {problem: 'is not UTF-8 text', fix: 'save it as CSV, UTF-8'};
			return;
		}
		bytes += chunk.length;
		lineStart = chunk.includes(10) || chunk.includes(13) ? bytes : lineStart;
		if (bytes - lineStart > maxLineLength) {
			yield {problem: `contains a line of more than ${maxLineLength} octets`, fix: 'use a CSV file'};
			return;
		}
		yield {records: reader.push(decoder.decode(chunk, {stream: true})), bytes};
	}
	yield {records: [...reader.push(decoder.decode()), ...reader.end()], bytes};
}

/** How many lines were read, and how many addresses were added or already listed. */
export type Counts = {read: number; added: number; listed: number};

/** Writes entries and returns how many of them are new. */
export type WriteEntries = (entries: readonly NewSuppression[]) => Promise<number>;

type ImportOptions = {
	readonly acting: Acting;
	readonly workspaceId: string;
	readonly mode: Mode;
	/** Overrides the reason of each line. */
	readonly reason: SuppressionReason | undefined;
	readonly write: WriteEntries;
	/** Called with each rejected line. `cells` are as in the file, without the apostrophes of our own exports. */
	readonly onBad?: (line: number, problem: string, cells: readonly string[]) => Promise<void>;
};

/** A rejected line, counted from 1. */
export type LineProblem = {readonly line: number; readonly fault: string};

/** The number of rejected lines that an import remembers. */
export const maxProblems = 100;

// A transaction of this size blocks the writers of a running daemon for about ten milliseconds. With twice as many rows
// it is not faster per row, and needs 20 MB more.
const rowsAtOnce = 500;
/** The maximum number of lines before the table, such as a title and comments. */
const maxLinesBefore = 50;
/** Lines that are read before other work gets a turn: a millisecond or two. */
const linesAtOnce = 256;

/** Imports a file line by line in bounded memory. Entries that were written remain even if a later line fails. */
export class SuppressionImport {
	readonly #options: ImportOptions;
	readonly #pastId = createPastIds();
	readonly counts: Counts = {read: 0, added: 0, listed: 0};
	/** The number of rejected lines, and the problems of the first ones. */
	bad = 0;
	readonly problems: LineProblem[] = [];
	/** `undefined` until the table has been found. */
	layout: Layout | undefined;
	/** The lines before the table, until its first line is found. */
	#before: Array<{readonly line: number; readonly cells: readonly string[]}> = [];
	#batch: NewSuppression[] = [];
	#recordCount = 0;

	constructor(options: ImportOptions) {
		this.#options = options;
	}

	/**
	 * Reads a file to its end and calls `onRead` with the number of bytes read so far. Returns the problem with the
	 * file, or `null`.
	 */
	async read(
		chunks: AsyncIterable<Uint8Array>,
		onRead: (bytes: number) => void = () => undefined,
	): Promise<FileProblem | null> {
		for await (const part of readRecords(chunks)) {
			if ('problem' in part) {
				return part;
			}
			for (const record of part.records) {
				const problem = await this.#take(record);
				if (problem) {
					return problem;
				}
			}
			onRead(part.bytes);
		}
		const problem = this.layout ? null : await this.#begin();
		await this.flush();
		return problem;
	}

	async #take(record: CsvRecord): Promise<FileProblem | null> {
		this.#recordCount++;
		if (this.#recordCount % linesAtOnce === 0) {
			await setImmediate();
		}
		if ('problem' in record) {
			this.counts.read++;
			await this.refuse(record.line, record.problem, [record.text]);
			return null;
		}
		if (this.layout) {
			await this.#takeLine(record, this.layout);
			return null;
		}
		this.#before.push(record);
		const isBegun = beginsTable(record.cells) || this.#before.length === maxLinesBefore;
		return isBegun ? await this.#begin() : null;
	}

	/** Finds the table in the lines read so far. Only the last of them can start it. */
	async #begin(): Promise<FileProblem | null> {
		const before = this.#before;
		this.#before = [];
		const last = before.at(-1);
		if (last === undefined) {
			return null;
		}
		const tableStart = beginsTable(last.cells) ? before.length - 1 : 0;
		const above = before[tableStart - 1];
		const start = above && isHeaderOf(above.cells, last.cells) ? tableStart - 1 : tableStart;
		const first = before[start] ?? last;
		const layout = readLayout(first.cells);
		this.layout = layout;
		const titles = before.slice(0, start + (layout.hasHeader ? 1 : 0)).flatMap(({cells}) => cells);
		if (this.#options.reason === undefined && layout.columns.reason === undefined && mentionsComplaints(titles)) {
			return {
				problem: 'seems to list complaints, but has no column "reason"',
				fix: 'give the reason for all lines with --reason',
			};
		}
		for (const [index, line] of before.entries()) {
			if (index >= start ? index > start || !layout.hasHeader : !isSkippable(line.cells)) {
				await this.#takeLine(line, layout);
			}
		}
		return null;
	}

	async #takeLine(
		{line, cells: rawCells}: {readonly line: number; readonly cells: readonly string[]},
		layout: Layout,
	): Promise<void> {
		const {acting, reason} = this.#options;
		this.counts.read++;
		const cells = plainCells(rawCells, layout);
		const listed = readListed(cells, layout.columns, {reason, now: acting.clock.now()});
		if (!listed.ok) {
			await this.refuse(line, listed.problem, cells.slice(layout.marks));
			return;
		}
		await this.add(listed);
	}

	/** Adds an entry, which is written together with others. `flush` writes those that are pending. */
	async add(listed: Listed): Promise<void> {
		this.#batch.push(this.#entryOf(listed));
		if (this.#batch.length === rowsAtOnce) {
			await this.flush();
		}
	}

	/** Derives the id from the entry's own time, so that it sorts by that and not by the time of the import. */
	#entryOf({address, reason, createdAt, source}: Listed): NewSuppression {
		const {acting, workspaceId, mode} = this.#options;
		return {
			id: createdAt === null ? acting.newId('sup') : this.#pastId('sup', createdAt),
			workspaceId,
			address: address.spelling,
			addressKey: address.key,
			reason,
			source: source ?? 'import',
			mode,
			createdAt: storeTime(createdAt ?? acting.clock.now()),
		};
	}

	async refuse(line: number, problem: string, cells: readonly string[]): Promise<void> {
		this.bad++;
		if (this.problems.length < maxProblems) {
			this.problems.push({line, fault: problem});
		}
		await this.#options.onBad?.(line, problem, cells);
	}

	async flush(): Promise<void> {
		const added = await this.#options.write(this.#batch);
		this.counts.added += added;
		this.counts.listed += this.#batch.length - added;
		this.#batch = [];
	}
}

/** Returns a function that writes each batch in its own transaction. All batches share one audit entry. */
export function insertEntries(
	acting: Acting,
	workspaceId: string,
	transaction: <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => Promise<Result>,
): WriteEntries {
	const record = beginAct(acting, {action: 'suppression.imported', workspaceId, target: null});
	const counts = {added: 0, listed: 0};
	return async entries => {
		const {size} = await transaction(async trx => {
			const ids = await insertSuppressions(trx, entries);
			if (entries.length > 0) {
				await record(trx, {added: counts.added + ids.size, listed: counts.listed + entries.length - ids.size});
			}
			return ids;
		});
		counts.added += size;
		counts.listed += entries.length - size;
		return size;
	};
}

/** Returns the names of the file's columns that were recognized, by field. */
export function columnsOf({
	columns: {address, reason, createdAt},
	header,
	marks,
}: Layout): Record<string, string | undefined> {
	const nameOf = (index: number) => header[index - marks];
	return {
		recipient: nameOf(address),
		...(reason !== undefined && {reason: nameOf(reason)}),
		...(createdAt !== undefined && {created_at: nameOf(createdAt)}),
	};
}
