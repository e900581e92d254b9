import {type FileHandle, open, realpath} from 'node:fs/promises';
import {setTimeout} from 'node:timers/promises';
import type {Command} from 'commander';
import {liveDaemon} from '../daemon/daemon-file.ts';
import {idAt} from '../mail/ids.ts';
import type {SuppressionReason} from '../mail/suppression.ts';
import {storeTime} from '../mail/time.ts';
import {pairKey} from '../store/pairs.ts';
import {findSuppressed, insertSuppressions, type NewSuppression} from '../store/suppressions.ts';
import {type CsvRecord, createCsvReader} from './csv-reader.ts';
import {csvLine} from './csv-writer.ts';
import {CliError} from './fault.ts';
import {type Input, openInput} from './files.ts';
import {reason} from './options.ts';
import {verb} from './program.ts';
import {createProgress, grouped} from './progress.ts';
import {action, type Session} from './session.ts';
import {
	badColumns,
	type Columns,
	type Layout,
	type Listed,
	plainCells,
	readLayout,
	readListed,
} from './suppression-file.ts';
import {fields} from './table.ts';

type ImportOptions = {reason?: SuppressionReason; bad?: string; dryRun?: boolean};

// A transaction of so many rows holds the writers of a running daemon off for some ten milliseconds.
const rowsAtOnce = 1000;
const mostFaultsShown = 20;

export function importCommand(suppression: Command): void {
	verb(
		suppression,
		'import <file>',
		'List the addresses of a CSV file; - is standard input',
		'mailctl suppression import bounces.csv --bad rest.csv',
	)
		.option('--reason <reason>', 'the reason of every line, whatever it says', reason)
		.option('--bad <file>', 'write the lines that were not taken here, to be corrected')
		.option('--dry-run', 'read and count, change nothing')
		.action(action<ImportOptions, [string]>(importFile));
}

/** What became of the lines of a file. */
type Counts = {read: number; added: number; listed: number; bad: number};
type Fault = {readonly line: number; readonly fault: string};

async function importFile(session: Session, options: ImportOptions, name: string): Promise<void> {
	const {id: workspaceId} = await session.workspace();
	const input = await openInput(name);
	const bad = options.bad === undefined ? undefined : await createFile(options.bad, name);
	const counts: Counts = {read: 0, added: 0, listed: 0, bad: 0};
	const faults: Fault[] = [];
	const progress = createProgress(session.terminal, session.tools.clock, 'lines');
	const write = options.dryRun ? await countOnly(session) : insertBeside(session);
	let layout: Layout | undefined;
	let batch: NewSuppression[] = [];

	async function flush(): Promise<void> {
		const added = await write(batch);
		counts.added += added;
		counts.listed += batch.length - added;
		batch = [];
	}

	async function refuse(fault: Fault, cells: readonly string[]): Promise<void> {
		counts.bad++;
		if (faults.length < mostFaultsShown) {
			faults.push(fault);
		}
		await bad?.write(csvLine([fault.line, fault.fault, ...cells]));
	}

	try {
		for await (const {records, bytes} of recordsOf(input, name)) {
			for (const record of records) {
				if (!layout) {
					const first = 'cells' in record ? record.cells : [record.text];
					layout = readLayout(first);
					await bad?.write(
						csvLine([...badColumns, ...(layout.header ?? ['recipient', ...first.slice(1).map(unnamed)])]),
					);
					if (layout.header) {
						continue;
					}
				}
				counts.read++;
				const {line} = record;
				if ('fault' in record) {
					await refuse({line, fault: record.fault}, [record.text]);
					continue;
				}
				const cells = plainCells(record.cells, layout);
				const read = readListed(cells, layout.columns, {reason: options.reason, now: session.tools.clock.now()});
				if (!read.ok) {
					await refuse({line, fault: read.fault}, cells.slice(layout.marks));
					continue;
				}
				batch.push(entryOf(session, workspaceId, read));
				if (batch.length === rowsAtOnce) {
					await flush();
				}
			}
			progress.show(counts.read, input.size === null ? null : bytes / Math.max(1, input.size));
		}
		await flush();
	} finally {
		progress.end();
		await bad?.close();
	}
	showCounts(session, {name, options, counts, faults, layout});
}

/** The records of a file as they come, with how many bytes are read. */
async function* recordsOf(
	{chunks}: Input,
	name: string,
): AsyncGenerator<{readonly records: readonly CsvRecord[]; readonly bytes: number}> {
	const reader = createCsvReader();
	const decoder = new TextDecoder();
	let bytes = 0;
	for await (const chunk of chunks) {
		// Other encodings and archives have a zero byte early on.
		if (bytes === 0 && chunk.includes(0)) {
			throw new CliError('data', `${name} is no text in UTF-8`, 'save it as CSV, UTF-8');
		}
		bytes += chunk.length;
		yield {records: reader.push(decoder.decode(chunk, {stream: true})), bytes};
	}
	yield {records: [...reader.push(decoder.decode()), ...reader.end()], bytes};
}

/** An entry sorts among the others by its own time, not by that of the import. */
function entryOf(
	{tools: {clock, newId, random}}: Session,
	workspaceId: string,
	{address, reason, createdAt, source}: Listed,
): NewSuppression {
	return {
		id: createdAt === null ? newId('sup') : idAt('sup', createdAt, random),
		workspaceId,
		address: address.spelling,
		addressKey: address.key,
		reason,
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
function insertBeside(session: Session): Write {
	const {databaseUrl, dataDir} = session.settings();
	return async entries => {
		const began = performance.now();
		const added = await session.write(trx => insertSuppressions(trx, entries));
		if (databaseUrl === null && liveDaemon(dataDir) !== null) {
			await setTimeout(performance.now() - began);
		}
		return added.size;
	};
}

async function countOnly(session: Session): Promise<Write> {
	const reader = await session.reader();
	return async entries => {
		const listed = await findSuppressed(
			reader,
			entries.map(({workspaceId, addressKey}) => [workspaceId, addressKey]),
		);
		return entries.filter(({workspaceId, addressKey}) => !listed.has(pairKey(workspaceId, addressKey))).length;
	};
}

async function createFile(name: string, input: string): Promise<FileHandle> {
	const isInput = input !== '-' && (await realpath(name).catch(() => null)) === (await realpath(input));
	if (isInput) {
		throw new CliError('usage', '--bad names the file that is imported', 'name another file');
	}
	return await open(name, 'w', 0o600);
}

function unnamed(_cell: string, index: number): string {
	return `column_${index + 2}`;
}

type Outcome = {
	readonly name: string;
	readonly options: ImportOptions;
	readonly counts: Counts;
	readonly faults: readonly Fault[];
	readonly layout: Layout | undefined;
};

/** Throws bad data (65) where lines were bad: the others are imported all the same. */
function showCounts(session: Session, {name, options, counts, faults, layout}: Outcome): void {
	const dryRun = options.dryRun ?? false;
	session.show({...counts, dry_run: dryRun, columns: layout ? columnNames(layout) : null, faults}, () => [
		...fields([
			['read', grouped(counts.read)],
			[dryRun ? 'would be added' : 'added', grouped(counts.added)],
			['already listed', grouped(counts.listed)],
			['bad', grouped(counts.bad)],
		]),
	]);
	if (counts.bad > 0) {
		const more = counts.bad - faults.length;
		throw new CliError(
			'data',
			`${grouped(counts.bad)} of ${grouped(counts.read)} lines were not taken`,
			options.bad === undefined
				? 'correct them and import the file again, or get them into a file with --bad FILE'
				: `correct ${options.bad} and import it`,
			[
				...faults.map(({line, fault}) => `${name}, line ${line}: ${fault}`),
				...(more > 0 ? [`and ${grouped(more)} more`] : []),
			],
		);
	}
}

/** Which column of the file was taken for what. */
function columnNames({columns, header, marks}: Layout): Record<string, string | number> {
	const nameOf = (index: number) => header?.[index - marks] ?? index + 1;
	const {address, reason, createdAt}: Columns = columns;
	return {
		recipient: nameOf(address),
		...(reason !== undefined && {reason: nameOf(reason)}),
		...(createdAt !== undefined && {created_at: nameOf(createdAt)}),
	};
}
