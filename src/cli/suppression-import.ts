import {open, realpath} from 'node:fs/promises';
import {setTimeout} from 'node:timers/promises';
import type {Command} from 'commander';
import {liveDaemon} from '../data-folder/daemon-file.ts';
import {createPastIds, type PastId} from '../mail/ids.ts';
import type {SuppressionReason} from '../mail/suppression.ts';
import {storeTime} from '../mail/time.ts';
import {beginAct} from '../store/audit.ts';
import {pairKey} from '../store/engine/pairs.ts';
import {findSuppressed, insertSuppressions, type NewSuppression} from '../store/suppressions.ts';
import {type CsvRecord, createCsvReader, csvLine} from './csv.ts';
import {CliError} from './fault.ts';
import {type Input, openInput} from './files.ts';
import {reason} from './options.ts';
import {verb} from './program.ts';
import {action, type Session} from './session.ts';
import {badColumns, type Layout, type Listed, plainCells, readLayout, readListed} from './suppression-file.ts';
import {createProgress} from './terminal.ts';
import {fields, grouped} from './text.ts';

type ImportOptions = {reason?: SuppressionReason; bad?: string; dryRun?: boolean};

// A transaction of so many rows holds the writers of a running daemon off for some ten milliseconds. Twice as many are no
// faster by the row and take 20 MB more.
const rowsAtOnce = 500;

export function importCommand(suppression: Command): void {
	verb(
		suppression,
		'import <file>',
		'Suppress the addresses of a CSV file; - is standard input',
		'mailctl suppression import bounces.csv --bad rest.csv',
	)
		.option('--reason <reason>', 'the reason of every line, whatever it says', reason)
		.option('--bad <file>', 'write the lines that were not taken here, to be corrected')
		.option('--dry-run', 'read and count, change nothing')
		.action(action<ImportOptions, [string]>(importFile));
}

/** Line by line in bounded memory; what was written stays, whatever comes after it. */
async function importFile(session: Session, options: ImportOptions, name: string): Promise<void> {
	const {id: workspaceId} = await session.workspace();
	const {clock} = session.tools;
	const input = await openInput(name);
	const bad = await openBadLines(options.bad, name);
	const counts: Counts = {read: 0, added: 0, listed: 0};
	const progress = createProgress(session.terminal, clock, 'lines');
	const write = options.dryRun ? await countOnly(session) : insertBeside(session, workspaceId);
	const pastId = createPastIds();
	let layout: Layout | undefined;
	let batch: NewSuppression[] = [];

	async function flush(): Promise<void> {
		const added = await write(batch);
		counts.added += added;
		counts.listed += batch.length - added;
		batch = [];
	}

	async function take(record: CsvRecord): Promise<void> {
		if ('fault' in record) {
			counts.read++;
			await bad.add(record.line, record.fault, [record.text], layout);
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
		const read = readListed(cells, layout.columns, {reason: options.reason, now: clock.now()});
		if (!read.ok) {
			await bad.add(record.line, read.fault, cells.slice(layout.marks), layout);
			return;
		}
		batch.push(entryOf(session, pastId, workspaceId, read));
		if (batch.length === rowsAtOnce) {
			await flush();
		}
	}

	try {
		for await (const {records, bytes} of recordsOf(input, name)) {
			for (const record of records) {
				await take(record);
			}
			progress.show(counts.read, input.size === null ? null : bytes / Math.max(1, input.size));
		}
		await flush();
	} finally {
		progress.end();
		await bad.close();
	}
	showCounts(session, {name, badFile: options.bad, dryRun: options.dryRun ?? false, counts, bad, layout});
}

/** A line that is longer never ends. The reader skips one that is shorter and goes on. */
const longestLine = 64 * 1024 ** 2;

/** The records of a file as they come, with how many bytes are read. */
async function* recordsOf(
	{chunks}: Input,
	name: string,
): AsyncGenerator<{readonly records: readonly CsvRecord[]; readonly bytes: number}> {
	const reader = createCsvReader();
	const decoder = new TextDecoder();
	let bytes = 0;
	let lineAt = 0;
	for await (const chunk of chunks) {
		// Other encodings and archives have a zero byte early on.
		if (bytes === 0 && chunk.includes(0)) {
			throw new CliError('data', `${name} is not UTF-8 text`, 'save it as CSV, UTF-8');
		}
		bytes += chunk.length;
		lineAt = chunk.includes('\n') || chunk.includes('\r') ? bytes : lineAt;
		if (bytes - lineAt > longestLine) {
			throw new CliError('data', `${name} holds a line of more than ${longestLine} octets`, 'give a CSV file');
		}
		yield {records: reader.push(decoder.decode(chunk, {stream: true})), bytes};
	}
	yield {records: [...reader.push(decoder.decode()), ...reader.end()], bytes};
}

/** An entry sorts among the others by its own time, not by that of the import. */
function entryOf(
	{tools: {clock, newId}}: Session,
	pastId: PastId,
	workspaceId: string,
	{address, reason: why, createdAt, source}: Listed,
): NewSuppression {
	return {
		id: createdAt === null ? newId('sup') : pastId('sup', createdAt),
		workspaceId,
		address: address.spelling,
		addressKey: address.key,
		reason: why,
		source: source ?? 'import',
		createdAt: storeTime(createdAt ?? clock.now()),
	};
}

/** Answers how many of the entries are new. */
type Write = (entries: readonly NewSuppression[]) => Promise<number>;

/**
 * SQLite has one writer at a time, and who waits for it asks now and then: after each transaction the store is left alone
 * for as long as it took, or a daemon beside would find it busy whenever it asks.
 */
function insertBeside(session: Session, workspaceId: string): Write {
	const {databaseUrl, dataDir} = session.settings();
	const {clock} = session.tools;
	const record = beginAct(session.tools, {action: 'suppression.imported', workspaceId, target: null});
	const counts = {added: 0, listed: 0};
	return async entries => {
		const began = clock.monotonic();
		const added = await session.write(async trx => {
			const ids = await insertSuppressions(trx, entries);
			if (entries.length > 0) {
				const {size} = ids;
				await record(trx, {added: counts.added + size, listed: counts.listed + entries.length - size});
			}
			return ids;
		});
		counts.added += added.size;
		counts.listed += entries.length - added.size;
		if (databaseUrl === null && liveDaemon(dataDir) !== null) {
			await setTimeout(clock.monotonic() - began);
		}
		return added.size;
	};
}

async function countOnly(session: Session): Promise<Write> {
	const reader = await session.reader();
	return async entries => {
		const pairs = entries.map(({workspaceId, addressKey}) => [workspaceId, addressKey] as const);
		const listed = await findSuppressed(reader, pairs);
		return pairs.filter(pair => listed.get(pairKey(...pair)) !== 'live').length;
	};
}

/** What became of the lines of a file, besides those that were bad. */
export type Counts = {read: number; added: number; listed: number};

export type Imported = {
	readonly name: string;
	/** What --bad named. */
	readonly badFile: string | undefined;
	readonly dryRun: boolean;
	readonly counts: Counts;
	readonly bad: BadLines;
	/** Undefined: the file is empty. */
	readonly layout: Layout | undefined;
};

/** The end of an import. Throws bad data (65) where lines were bad: the others are on the list all the same. */
export function showCounts(session: Session, {name, badFile, dryRun, counts, bad, layout}: Imported): void {
	const badCount = bad.count();
	session.show(
		{...counts, bad: badCount, dry_run: dryRun, columns: layout ? columnsOf(layout) : null, faults: bad.first},
		() =>
			fields([
				['columns', layout ? Object.values(columnsOf(layout)).join(', ') : null],
				['lines read', grouped(counts.read)],
				[dryRun ? 'would be added' : 'added', grouped(counts.added)],
				['already listed', grouped(counts.listed)],
				['bad', grouped(badCount)],
			]),
	);
	if (badCount > 0) {
		const more = badCount - bad.first.length;
		const mend =
			badFile === undefined
				? 'correct them and import the file again, or get them into a file with --bad FILE'
				: `correct ${badFile} and import it`;
		throw new CliError('data', `${grouped(badCount)} of ${grouped(counts.read)} lines were not taken`, mend, [
			...bad.first.map(({line, fault}) => `${name}, line ${line}: ${fault}`),
			...(more > 0 ? [`and ${grouped(more)} more`] : []),
		]);
	}
}

/** Which column of the file was taken for what. */
function columnsOf({columns: {address, reason, createdAt}, header, marks}: Layout): Record<string, string | undefined> {
	const nameOf = (index: number) => header[index - marks];
	return {
		recipient: nameOf(address),
		...(reason !== undefined && {reason: nameOf(reason)}),
		...(createdAt !== undefined && {created_at: nameOf(createdAt)}),
	};
}

export type Fault = {readonly line: number; readonly fault: string};

/** The lines of an import that were not taken: how many, what was wrong with the first, all of them in a file. */
export type BadLines = {
	readonly count: () => number;
	readonly first: readonly Fault[];
	/** `cells` as they were in the file, without apostrophes of ours. */
	readonly add: (line: number, fault: string, cells: readonly string[], layout: Layout | undefined) => Promise<void>;
	readonly close: () => Promise<void>;
};

const mostRemembered = 20;

/** `file` gets the lines with their numbers and faults before their own cells, so that it can be corrected and imported. */
export async function openBadLines(file: string | undefined, input: string): Promise<BadLines> {
	if (file !== undefined && input !== '-' && (await realpath(file).catch(() => null)) === (await realpath(input))) {
		throw new CliError('usage', '--bad names the file that is imported', 'name another file');
	}
	const handle = file === undefined ? undefined : await open(file, 'w', 0o600);
	const first: Fault[] = [];
	let count = 0;
	return {
		count: () => count,
		first,
		async add(line, fault, cells, layout) {
			if (count === 0) {
				await handle?.write(csvLine([...badColumns, ...(layout?.header ?? ['recipient'])]));
			}
			count++;
			if (first.length < mostRemembered) {
				first.push({line, fault});
			}
			await handle?.write(csvLine([line, fault, ...cells]));
		},
		close: async () => await handle?.close(),
	};
}
