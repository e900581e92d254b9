import {open} from 'node:fs/promises';
import type {Command} from 'commander';
import {storedTime, suppressionView} from '../api/views.ts';
import type {SuppressionReason} from '../mail/suppression.ts';
import {countSuppressions, listSuppressions, type Suppression} from '../store/suppressions.ts';
import {csvLine} from './csv.ts';
import {reason} from './options.ts';
import {verb} from './program.ts';
import {action, type Session} from './session.ts';
import {exportedColumns} from './suppression-file.ts';
import {createProgress} from './terminal.ts';
import {grouped} from './text.ts';

type ExportOptions = {reason?: SuppressionReason; out?: string};

const rowsAtOnce = 1000;

export function exportCommand(suppression: Command): void {
	verb(
		suppression,
		'export',
		'Write the list as CSV, which import reads again',
		'mailctl suppression export --out suppressions.csv',
	)
		.option('--reason <reason>', 'only entries made for this reason', reason)
		.option('--out <file>', 'write to a file instead of standard output')
		.action(action<ExportOptions, []>(exportList));
}

async function exportList(session: Session, options: ExportOptions): Promise<void> {
	if (options.out === undefined) {
		await pourList(session, options);
		return;
	}
	const file = await open(options.out, 'w', 0o600);
	const total = await countSuppressions(await session.reader(), (await session.workspace()).id, options.reason);
	const progress = createProgress(session.terminal, session.tools.clock, 'entries');
	let exported = 0;
	try {
		await file.write(csvLine(exportedColumns));
		for await (const page of pagesOf(session, options)) {
			await file.write(page.map(exportedLine).join(''));
			exported += page.length;
			progress.show(exported, exported / Math.max(1, total));
		}
		await file.sync();
	} finally {
		progress.end();
		await file.close();
	}
	session.show({file: options.out, exported}, () => [`exported ${grouped(exported)} entries to ${options.out}`]);
}

/** To standard output: CSV, or with --json one array. Ends when nobody reads any more. */
async function pourList(session: Session, options: ExportOptions): Promise<void> {
	const {pour} = session.terminal;
	let text = session.json ? '[' : csvLine(exportedColumns);
	let separator = '';
	for await (const page of pagesOf(session, options)) {
		text += session.json
			? separator + page.map(entry => JSON.stringify(suppressionEntry(entry))).join(',')
			: page.map(exportedLine).join('');
		if (!(await pour(text))) {
			return;
		}
		text = '';
		separator = ',';
	}
	await pour(session.json ? `${text}]\n` : text);
}

/** By keyset, so that a million entries take no more memory than a thousand, and no long transaction. */
async function* pagesOf(session: Session, {reason: only}: ExportOptions): AsyncGenerator<readonly Suppression[]> {
	const {id: workspaceId} = await session.workspace();
	const reader = await session.reader();
	let after: string | null = null;
	do {
		const page: Suppression[] = await listSuppressions(reader, {workspaceId, reason: only, after, limit: rowsAtOnce});
		// An import makes entries that stop all mail.
		const live = page.filter(({mode}) => mode === 'live');
		if (live.length > 0) {
			yield live;
		}
		after = page.length < rowsAtOnce ? null : (page.at(-1)?.id ?? null);
	} while (after !== null);
}

function exportedLine({id, address, reason: why, source, created_at}: Suppression): string {
	return csvLine([id, address, why, source, created_at]);
}

/** An entry as the CLI shows it: as the API does, with the store's exact time. */
export const suppressionEntry = (entry: Suppression) => suppressionView(entry, storedTime);
