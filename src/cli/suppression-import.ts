import {open, realpath} from 'node:fs/promises';
import {setTimeout} from 'node:timers/promises';
import type {Command} from 'commander';
import {csvLine} from '../admin/csv.ts';
import {badColumns, type Layout} from '../admin/suppression-file.ts';
import {
	type Counts,
	columnsOf,
	createImport,
	insertEntries,
	readRecords,
	type WriteEntries,
} from '../admin/suppression-import.ts';
import {liveDaemon} from '../data-folder/daemon-file.ts';
import type {SuppressionReason} from '../mail/suppression.ts';
import {pairKey} from '../store/engine/rows.ts';
import {findSuppressed} from '../store/suppressions.ts';
import {CliError} from './fault.ts';
import {openInput} from './files.ts';
import {reason} from './options.ts';
import {verb} from './program.ts';
import {action, type Session} from './session.ts';
import {createProgress} from './terminal.ts';
import {fields, grouped} from './text.ts';

type ImportOptions = {reason?: SuppressionReason; bad?: string; dryRun?: boolean};

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

/** Line by line in bounded memory; what was written stays, even if a later line fails. */
async function importFile(session: Session, options: ImportOptions, name: string): Promise<void> {
	const {id: workspaceId} = await session.workspace();
	const input = await openInput(name);
	const bad = await openBadLines(options.bad, name);
	const progress = createProgress(session.terminal, session.tools.clock, 'lines');
	const {counts, take, flush, layout} = createImport({
		acting: session.tools,
		workspaceId,
		mode: 'live',
		reason: options.reason,
		write: options.dryRun ? await countOnly(session) : insertBeside(session, workspaceId),
		onBad: bad.add,
	});
	try {
		for await (const part of readRecords(input.chunks)) {
			if ('fault' in part) {
				throw new CliError('data', `${name} ${part.fault}`, part.mend);
			}
			for (const record of part.records) {
				await take(record);
			}
			progress.show(counts.read, input.size === null ? null : part.bytes / Math.max(1, input.size));
		}
		await flush();
	} finally {
		progress.end();
		await bad.close();
	}
	showCounts(session, {name, badFile: options.bad, dryRun: options.dryRun ?? false, counts, bad, layout: layout()});
}

/**
 * SQLite has one writer at a time, and others poll for it: after each transaction the import pauses
 * for as long as it took, or a daemon beside would find it busy whenever it asks.
 */
function insertBeside(session: Session, workspaceId: string): WriteEntries {
	const {databaseUrl, dataDir} = session.settings();
	const {clock} = session.tools;
	const write = insertEntries(session.tools, workspaceId, session.write);
	return async entries => {
		const began = clock.monotonic();
		const added = await write(entries);
		if (databaseUrl === null && liveDaemon(dataDir) !== null) {
			await setTimeout(clock.monotonic() - began);
		}
		return added;
	};
}

async function countOnly(session: Session): Promise<WriteEntries> {
	const reader = await session.reader();
	return async entries => {
		const pairs = entries.map(({workspaceId, addressKey}) => [workspaceId, addressKey] as const);
		const listed = await findSuppressed(reader, pairs);
		return pairs.filter(pair => listed.get(pairKey(...pair)) !== 'live').length;
	};
}

type Imported = {
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
function showCounts(session: Session, {name, badFile, dryRun, counts, bad, layout}: Imported): void {
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

type Fault = {readonly line: number; readonly fault: string};

/** The lines of an import that were not taken: how many, what was wrong with the first, all of them in a file. */
type BadLines = {
	readonly count: () => number;
	readonly first: readonly Fault[];
	/** `cells` as they were in the file, without apostrophes of ours. */
	readonly add: (line: number, fault: string, cells: readonly string[], layout: Layout | undefined) => Promise<void>;
	readonly close: () => Promise<void>;
};

const mostRemembered = 20;

/** `file` gets the lines with their numbers and faults before their own cells, so that it can be corrected and imported. */
async function openBadLines(file: string | undefined, input: string): Promise<BadLines> {
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
