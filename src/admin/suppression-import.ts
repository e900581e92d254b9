import {setImmediate} from 'node:timers/promises';
import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import {createPastIds} from '../mail/ids.ts';
import type {Mode} from '../mail/message.ts';
import type {Acting} from '../mail/operator.ts';
import type {SuppressionReason} from '../mail/suppression.ts';
import {beginAct} from '../store/audit.ts';
import {insertSuppressions, type NewSuppression} from '../store/suppressions.ts';
import {type CsvRecord, createCsvReader} from './csv.ts';
import {type Layout, type Listed, plainCells, readLayout, readListed} from './suppression-file.ts';

/** A line that is longer never ends. The reader skips one that is shorter and goes on. */
const longestLine = 64 * 1024 ** 2;

/** Records of a file, and how many bytes of it are read; or why it is no CSV file, a clause, and how to fix that. */
type FilePart =
	| {readonly records: readonly CsvRecord[]; readonly bytes: number}
	| {readonly fault: string; readonly mend: string};

/** The records of a CSV file as they come. A fault is the last part. */
export async function* readRecords(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<FilePart> {
	const reader = createCsvReader();
	const decoder = new TextDecoder();
	let bytes = 0;
	let lineAt = 0;
	for await (const chunk of chunks) {
		// Other encodings and archives have a zero byte early on.
		if (bytes === 0 && chunk.includes(0)) {
			yield {fault: 'is not UTF-8 text', mend: 'save it as CSV, UTF-8'};
			return;
		}
		bytes += chunk.length;
		lineAt = chunk.includes(10) || chunk.includes(13) ? bytes : lineAt;
		if (bytes - lineAt > longestLine) {
			yield {fault: `holds a line of more than ${longestLine} octets`, mend: 'give a CSV file'};
			return;
		}
		yield {records: reader.push(decoder.decode(chunk, {stream: true})), bytes};
	}
	yield {records: [...reader.push(decoder.decode()), ...reader.end()], bytes};
}

/** Counts of the good lines of a file. */
export type Counts = {read: number; added: number; listed: number};

/** Answers how many of the entries are new. */
export type WriteEntries = (entries: readonly NewSuppression[]) => Promise<number>;

type ImportOptions = {
	readonly acting: Acting;
	readonly workspaceId: string;
	readonly mode: Mode;
	/** Overrides that of each line. */
	readonly reason: SuppressionReason | undefined;
	readonly write: WriteEntries;
	/** Gets a line that is not taken; `cells` as they were in the file, without apostrophes of ours. */
	readonly onBad: (line: number, fault: string, cells: readonly string[], layout: Layout | undefined) => Promise<void>;
};

// A transaction of this size blocks the writers of a running daemon for some ten milliseconds. Twice as many are no
// faster by the row and take 20 MB more.
const rowsAtOnce = 500;
/** Lines that are read before others have their turn: a millisecond or two. */
const linesAtOnce = 256;

/** Takes a file line by line in bounded memory; what was written stays, even if a later line fails. */
export function createImport({acting, workspaceId, mode, reason, write, onBad}: ImportOptions) {
	const {clock, newId} = acting;
	const counts: Counts = {read: 0, added: 0, listed: 0};
	const pastId = createPastIds();
	let layout: Layout | undefined;
	let batch: NewSuppression[] = [];
	let taken = 0;

	/** An entry sorts among the others by its own time, not by that of the import. */
	function entryOf({address, reason: why, createdAt, source}: Listed): NewSuppression {
		return {
			id: createdAt === null ? newId('sup') : pastId('sup', createdAt),
			workspaceId,
			address: address.spelling,
			addressKey: address.key,
			reason: why,
			source: source ?? 'import',
			mode,
			createdAt: storeTime(createdAt ?? clock.now()),
		};
	}

	async function flush(): Promise<void> {
		const added = await write(batch);
		counts.added += added;
		counts.listed += batch.length - added;
		batch = [];
	}

	return {
		counts,
		/** Undefined: nothing was read yet. */
		layout: () => layout,
		async take(record: CsvRecord): Promise<void> {
			taken++;
			if (taken % linesAtOnce === 0) {
				await setImmediate();
			}
			if ('fault' in record) {
				counts.read++;
				await onBad(record.line, record.fault, [record.text], layout);
				return;
			}
			if (!layout) {
				layout = readLayout(record.cells);
				if (layout.hasHeader) {
					return;
				}
			}
			counts.read++;
			const cells = plainCells(record.cells, layout);
			const read = readListed(cells, layout.columns, {reason, now: clock.now()});
			if (!read.ok) {
				await onBad(record.line, read.fault, cells.slice(layout.marks), layout);
				return;
			}
			batch.push(entryOf(read));
			if (batch.length === rowsAtOnce) {
				await flush();
			}
		},
		/** To be called after the last record. */
		flush,
	};
}

/** Writes entries in a transaction each; they are one act. */
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

/** Which column of the file was taken for what. */
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
