import {type FileHandle, open, realpath} from 'node:fs/promises';
import {setTimeout} from 'node:timers/promises';
import {CliError} from '../../cli/fault.ts';
import {type Input, openInput} from '../../cli/files.ts';
import {count, address as parseAddress, reason} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {fields, grouped, type Noun, shortTime, toLines} from '../../cli/terminal-text.ts';
import {csvLine} from '../../kit/csv.ts';
import {storeTime} from '../../kit/time.ts';
import {type SuppressionReason, suppresses} from '../../mail/suppression.ts';
import {liveDaemon} from '../../store/data-folder/daemon-file.ts';
import {pairKey} from '../../store/engine/rows.ts';
import {findOptedOut, toBars} from '../topics/store.ts';
import {storedTime, suppressionView} from '../views.ts';
import {addSuppression, removeSuppression} from './rules.ts';
import {countSuppressions, findSuppressed, listSuppressions, readSuppressions, type Suppression} from './store.ts';
import {
	columnsOf,
	exportedHeader,
	exportedLine,
	exportPages,
	insertEntries,
	SuppressionImport,
	type WriteEntries,
} from './suppression-file.ts';
import {badColumns} from './suppression-layout.ts';

export function suppressionCommands(suppression: CliCommand): void {
	suppression
		.verb('list', 'List suppressed addresses, newest first')
		.sample('mailctl suppression list --reason complaint')
		.option('--reason <reason>', 'only entries with this reason', reason)
		.option('--limit <n>', 'at most this many', count('--limit', 1, 10_000), 25)
		.does<{reason?: SuppressionReason; limit: number}>(async (session, options) => {
			const {reader, workspaceId} = await session.inWorkspace();
			session.list(suppressions, await listSuppressions(reader, {workspaceId, after: null, ...options}));
		});

	suppression
		.verb('add <address>', 'Suppress an address; queued messages to it are stopped')
		.sample('mailctl suppression add user@x.example')
		.does<object, [string]>(async (session, _options, text) => {
			const {entry, isNew} = await session.perform(addSuppression, {recipient: text});
			session.show({...suppressionEntry(entry), added: isNew}, () => [
				isNew ? `${text} is suppressed` : `${text} was already suppressed`,
				...toLines(suppressions, entry),
			]);
		});

	suppression
		.verb('check <address>', 'Show whether an address is suppressed, and why')
		.sample('mailctl suppression check user@x.example')
		.does<object, [string]>(async (session, _options, text) => {
			const {key} = parseAddress(text, true);
			const {reader, workspaceId: id} = await session.inWorkspace();
			const entry = (await readSuppressions(reader, [[id, key]])).get(pairKey(id, key)) ?? null;
			const optOuts = (await findOptedOut(reader, [[id, key]])).get(pairKey(id, key));
			const {topics} = toBars(optOuts, storeTime(session.tools.clock.now()));
			const isSuppressed = suppresses(entry?.mode, 'live');
			session.show({suppressed: isSuppressed, entry: entry && suppressionEntry(entry), opted_out: topics}, () => [
				`${text} is ${isSuppressed ? '' : 'not '}suppressed${entry && !isSuppressed ? ', except for test messages' : ''}`,
				...(entry ? toLines(suppressions, entry) : []),
				...(topics.length > 0 ? [`opted out of ${topics.join(', ')}`] : []),
			]);
		});

	suppression
		.verb('remove <id|address>', 'Remove an address from the list; mail is sent to it again')
		.sample('mailctl suppression remove user@x.example --yes')
		.yesOption()
		.does<{yes?: boolean}, [string]>(remove);

	importCommand(suppression);

	suppression
		.verb('export', 'Write the list as CSV, in the format that import reads')
		.sample('mailctl suppression export --out suppressions.csv')
		.option('--reason <reason>', 'only entries with this reason', reason)
		.option('--out <file>', 'write to a file instead of standard output')
		.does<ExportOptions>(exportList);
}

async function remove(session: Session, {yes}: {yes?: boolean}, text: string): Promise<void> {
	const id = await session.idOf('sup', text);
	// An unknown id is looked up too, so that it is refused like an unknown address.
	const isId = text.startsWith('sup_') && !text.includes('@');
	if (!isId) {
		parseAddress(text, true);
	}
	await session.workspace();
	await session.confirm(`Remove ${text} from the suppression list? Mail will be sent to it again.`, yes);
	const removed = await session.perform(removeSuppression, isId ? {id: id ?? text} : {recipient: text});
	session.show({...suppressionEntry(removed), removed: true}, () => [
		`removed ${removed.address} (${removed.reason})`,
	]);
}

/** Returns an entry as in the API, but with the store's exact time. */
export const suppressionEntry = (entry: Suppression) => suppressionView(entry, storedTime);

const suppressions: Noun<Suppression> = {
	none: 'no address is suppressed',
	json: suppressionEntry,
	fields: [
		{title: 'RECIPIENT', cell: row => row.address, cut: true},
		{title: 'REASON', cell: row => (row.mode === 'test' ? `${row.reason} (test)` : row.reason)},
		{title: 'SOURCE', cell: row => row.source, cut: true},
		{title: 'UTC', cell: row => shortTime(row.created_at).slice(0, 16)},
		{name: 'id', cell: row => row.id},
		{name: 'reason', cell: row => row.reason},
		{name: 'source', cell: row => row.source},
		{name: 'since', cell: row => `${shortTime(row.created_at)} UTC`},
	],
};

type ExportOptions = {reason?: SuppressionReason; out?: string};

async function exportList(session: Session, {reason: onlyReason, out}: ExportOptions): Promise<void> {
	const {reader, workspaceId} = await session.inWorkspace();
	const pages = exportPages(reader, {workspaceId, mode: 'live', reason: onlyReason});
	if (out === undefined) {
		await printList(session, pages);
		return;
	}
	const total = await countSuppressions(reader, workspaceId, onlyReason);
	const file = await open(out, 'w', 0o600);
	const progress = session.progress('entries');
	let exported = 0;
	try {
		await file.write(exportedHeader);
		for await (const page of pages) {
			await file.write(page.map(exportedLine).join(''));
			exported += page.length;
			progress.show(exported, exported / Math.max(1, total));
		}
		await file.sync();
	} finally {
		progress.end();
		await file.close();
	}
	session.show({file: out, exported}, () => [`exported ${grouped(exported)} entries to ${out}`]);
}

/** Prints the list as CSV, or with --json as one array. Stops if the output was closed. */
async function printList(
	{terminal: {writeText}, json}: Session,
	pages: AsyncIterable<readonly Suppression[]>,
): Promise<void> {
	let text = json ? '[' : exportedHeader;
	let separator = '';
	for await (const page of pages) {
		text += json
			? separator + page.map(entry => JSON.stringify(suppressionEntry(entry))).join(',')
			: page.map(exportedLine).join('');
		if (!(await writeText(text))) {
			return;
		}
		text = '';
		separator = ',';
	}
	await writeText(json ? `${text}]\n` : text);
}

type ImportOptions = {reason?: SuppressionReason; bad?: string; dryRun?: boolean};

export function importCommand(suppression: CliCommand): void {
	suppression
		.verb('import <file>', 'Suppress the addresses of a CSV file; - is standard input')
		.sample('mailctl suppression import bounces.csv --bad rest.csv')
		.option('--reason <reason>', 'the reason for every line, overriding the file', reason)
		.option('--bad <file>', 'write rejected lines to this file, to correct them')
		.option('--dry-run', 'read and count without changing anything')
		.does<ImportOptions, [string]>(importFile);
}

/** Imports line by line in bounded memory. Stored lines remain even if a later line fails. */
async function importFile(session: Session, options: ImportOptions, name: string): Promise<void> {
	const {id: workspaceId} = await session.workspace();
	const input = await openInput(name);
	try {
		const badFile = await openBadFile(options.bad, name);
		try {
			await importLines(session, options, {workspaceId, name, input, badFile});
		} finally {
			await badFile?.close();
		}
	} finally {
		await input.close();
	}
}

type ImportParts = {
	readonly workspaceId: string;
	readonly name: string;
	readonly input: Input;
	readonly badFile: FileHandle | undefined;
};

async function importLines(
	session: Session,
	options: ImportOptions,
	{workspaceId, name, input, badFile}: ImportParts,
): Promise<void> {
	const progress = session.progress('lines');
	const importer: SuppressionImport = new SuppressionImport({
		acting: session.tools,
		workspaceId,
		mode: 'live',
		reason: options.reason,
		write: options.dryRun ? await countOnly(session) : insertBeside(session, workspaceId),
		async onBad(line, fault, cells) {
			if (importer.bad === 1) {
				await badFile?.write(csvLine([...badColumns, ...(importer.layout?.header ?? ['recipient'])]));
			}
			await badFile?.write(csvLine([line, fault, ...cells]));
		},
	});
	try {
		const failure = await importer.read(input.chunks, bytes =>
			progress.show(importer.counts.read, input.size === null ? null : bytes / Math.max(1, input.size)),
		);
		if (failure) {
			throw new CliError('data', `${name} ${failure.problem}`, failure.fix);
		}
	} finally {
		progress.end();
	}
	showCounts(session, options, name, importer);
}

/** Opens the file of rejected lines. Each begins with its number and problem, so that it can be fixed and imported. */
async function openBadFile(file: string | undefined, input: string): Promise<FileHandle | undefined> {
	if (file !== undefined && input !== '-' && (await realpath(file).catch(() => null)) === (await realpath(input))) {
		throw new CliError('usage', '--bad names the input file', 'name another file');
	}
	return file === undefined ? undefined : await open(file, 'w', 0o600);
}

/**
 * Inserts entries and pauses after each transaction for as long as it took. SQLite has one writer at a time and others
 * poll for it, so without pauses a running daemon would always find the store busy.
 */
export function insertBeside(session: Session, workspaceId: string): WriteEntries {
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

const maxShown = 20;

/**
 * Shows the result of an import. Throws bad data (65) if lines were rejected; the others were imported nevertheless.
 */
export function showCounts(
	session: Session,
	{bad: badFile, dryRun = false}: ImportOptions,
	name: string,
	{counts, bad, problems, layout}: SuppressionImport,
	unit: 'line' | 'entry' = 'line',
): void {
	const faults = problems.slice(0, maxShown);
	const [units, retry] =
		unit === 'line'
			? ['lines', 'import the file again, or write them to a file with --bad FILE']
			: ['entries', 'add them with mailctl suppression add'];
	const columnsField = ['columns', layout ? Object.values(columnsOf(layout)).join(', ') : null] as const;
	session.show({...counts, bad, dry_run: dryRun, columns: layout ? columnsOf(layout) : null, faults}, () =>
		fields([
			...(unit === 'line' ? [columnsField] : []),
			[`${units} read`, grouped(counts.read)],
			[dryRun ? 'would be added' : 'added', grouped(counts.added)],
			['already listed', grouped(counts.listed)],
			['bad', grouped(bad)],
		]),
	);
	if (bad > 0) {
		const remaining = bad - faults.length;
		const fix = badFile === undefined ? `fix them and ${retry}` : `fix ${badFile} and import it`;
		throw new CliError('data', `${grouped(bad)} of ${grouped(counts.read)} ${units} were rejected`, fix, [
			...faults.map(({line, fault}) => `${name}, ${unit} ${line}: ${fault}`),
			...(remaining > 0 ? [`and ${grouped(remaining)} more`] : []),
		]);
	}
}
