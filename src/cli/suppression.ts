import {open} from 'node:fs/promises';
import type {Command} from 'commander';
import {exportedHeader, exportedLine, exportPages} from '../admin/suppression-export.ts';
import {storedTime, suppressionView} from '../api/views.ts';
import {type SuppressionReason, suppresses} from '../mail/suppression.ts';
import {addSuppression, removeSuppression} from '../ops/suppressions.ts';
import {pairKey} from '../store/engine/rows.ts';
import {countSuppressions, listSuppressions, readSuppressions, type Suppression} from '../store/suppressions.ts';
import {findOptedOut} from '../store/topics.ts';
import {count, address as parseAddress, reason} from './options.ts';
import {verb, yesVerb} from './program.ts';
import {action, type Session} from './session.ts';
import {importCommand} from './suppression-import.ts';
import {createProgress} from './terminal.ts';
import {grouped, linesOf, type Noun, shortTime} from './text.ts';

export function suppressionCommands(suppression: Command): void {
	verb(suppression, 'list', 'List suppressed addresses, newest first', 'mailctl suppression list --reason complaint')
		.option('--reason <reason>', 'only entries made for this reason', reason)
		.option('--limit <n>', 'at most this many', count('--limit', 1, 10_000), 25)
		.action(
			action<{reason?: SuppressionReason; limit: number}, []>(async (session, options) => {
				const {id: workspaceId} = await session.workspace();
				const rows = await listSuppressions(await session.reader(), {workspaceId, after: null, ...options});
				session.list(suppressions, rows);
			}),
		);

	verb(
		suppression,
		'add <address>',
		'Add an address; it gets no mail, and queued copies stop',
		'mailctl suppression add user@x.example',
	).action(
		action<object, [string]>(async (session, _options, text) => {
			const {entry, isNew} = await session.perform(addSuppression, {recipient: text});
			session.show({...suppressionEntry(entry), added: isNew}, () => [
				isNew ? `${text} is suppressed` : `${text} was suppressed already`,
				...linesOf(suppressions, entry),
			]);
		}),
	);

	verb(
		suppression,
		'check <address>',
		'Show whether an address is suppressed, and why',
		'mailctl suppression check user@x.example',
	).action(
		action<object, [string]>(async (session, _options, text) => {
			const {key} = parseAddress(text, true);
			const {id} = await session.workspace();
			const reader = await session.reader();
			const entry = (await readSuppressions(reader, [[id, key]])).get(pairKey(id, key)) ?? null;
			const topics = [...((await findOptedOut(reader, [[id, key]])).get(pairKey(id, key)) ?? [])].sort();
			const suppressed = suppresses(entry?.mode, 'live');
			session.show({suppressed, entry: entry && suppressionEntry(entry), opted_out: topics}, () => [
				`${text} is ${suppressed ? '' : 'not '}suppressed${entry && !suppressed ? ', but for test mail' : ''}`,
				...(entry ? linesOf(suppressions, entry) : []),
				...(topics.length > 0 ? [`opted out of ${topics.join(', ')}`] : []),
			]);
		}),
	);

	yesVerb(
		suppression,
		'remove <id|address>',
		'Remove an address, so that it gets mail again',
		'mailctl suppression remove user@x.example --yes',
	).action(action<{yes?: boolean}, [string]>(remove));

	importCommand(suppression);

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

async function remove(session: Session, {yes}: {yes?: boolean}, text: string): Promise<void> {
	const id = await session.idOf('sup', text);
	// An id that nothing has is looked for all the same, to be refused as an address would be.
	const isId = text.startsWith('sup_') && !text.includes('@');
	if (!isId) {
		parseAddress(text, true);
	}
	await session.workspace();
	await session.confirm(`Remove ${text} from the suppression list? Mail will be sent to it again.`, yes);
	const removed = await session.perform(removeSuppression, isId ? {id: id ?? text} : {recipient: text});
	session.show({...suppressionEntry(removed), removed: true}, () => [`removed ${removed.address} (${removed.reason})`]);
}

/** An entry as the CLI shows it: as the API does, with the store's exact time. */
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

async function exportList(session: Session, {reason: only, out}: ExportOptions): Promise<void> {
	const {id: workspaceId} = await session.workspace();
	const reader = await session.reader();
	const pages = exportPages(reader, {workspaceId, mode: 'live', reason: only});
	if (out === undefined) {
		await pourList(session, pages);
		return;
	}
	const total = await countSuppressions(reader, workspaceId, only);
	const file = await open(out, 'w', 0o600);
	const progress = createProgress(session.terminal, session.tools.clock, 'entries');
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

/** To standard output: CSV, or with --json one array. Ends when the reader is gone. */
async function pourList(
	{terminal: {pour}, json}: Session,
	pages: AsyncIterable<readonly Suppression[]>,
): Promise<void> {
	let text = json ? '[' : exportedHeader;
	let separator = '';
	for await (const page of pages) {
		text += json
			? separator + page.map(entry => JSON.stringify(suppressionEntry(entry))).join(',')
			: page.map(exportedLine).join('');
		if (!(await pour(text))) {
			return;
		}
		text = '';
		separator = ',';
	}
	await pour(json ? `${text}]\n` : text);
}
