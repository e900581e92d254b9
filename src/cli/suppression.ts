import type {Command} from 'commander';
import {manualEntry, removeSuppression, suppressWrite} from '../admin/suppressions.ts';
import {isId} from '../mail/ids.ts';
import {type SuppressionReason, suppresses} from '../mail/suppression.ts';
import {pairKey} from '../store/engine/pairs.ts';
import {listSuppressions, readSuppressions, type Suppression} from '../store/suppressions.ts';
import {findOptedOut} from '../store/topics.ts';
import {CliError} from './fault.ts';
import {count, address as parseAddress, reason} from './options.ts';
import {verb, yesOption} from './program.ts';
import {action, type Session} from './session.ts';
import {exportCommand, suppressionEntry} from './suppression-export.ts';
import {importCommand} from './suppression-import.ts';
import {linesOf, type Noun} from './table.ts';
import {shortTime} from './text.ts';

export function suppressionCommands(suppression: Command): void {
	verb(suppression, 'list', 'List suppressed addresses, newest first', 'mailctl suppression list --reason complaint')
		.option('--reason <reason>', 'only entries made for this reason', reason)
		.option('--limit <n>', 'at most so many', count('--limit', 1, 10_000), 25)
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
		'Send nothing to an address any more; queued copies stop',
		'mailctl suppression add user@x.example',
	).action(
		action<object, [string]>(async (session, _options, text) => {
			const address = parseAddress(text, true);
			const {id: workspaceId} = await session.workspace();
			const {writer} = await session.store();
			const entry = manualEntry(session.tools, {workspaceId, address, source: 'cli', mode: 'live'});
			const listed = await writer.submit(suppressWrite, entry);
			session.show({...suppressionEntry(listed.entry), added: listed.isNew}, () => [
				listed.isNew ? `${text} is suppressed` : `${text} was suppressed already`,
				...linesOf(suppressions, listed.entry),
			]);
		}),
	);

	verb(
		suppression,
		'check <address>',
		'Say whether an address gets mail, and if not, why',
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

	yesOption(
		verb(
			suppression,
			'remove <id|address>',
			'Let mail flow to an address again',
			'mailctl suppression remove user@x.example --yes',
		),
	).action(action<{yes?: boolean}, [string]>(remove));

	importCommand(suppression);
	exportCommand(suppression);
}

async function remove(session: Session, {yes}: {yes?: boolean}, text: string): Promise<void> {
	const by = isId('sup', text) ? {id: text} : {addressKey: parseAddress(text, true).key};
	const {id: workspaceId} = await session.workspace();
	await session.confirm(`Remove ${text} from the suppression list? Mail will be sent to it again.`, yes);
	const removed = await session.write(trx => removeSuppression(trx, session.tools, {workspaceId, by, mode: 'live'}));
	if (!removed || removed === 'live') {
		throw new CliError('data', `${text} is not on the suppression list`, 'see mailctl suppression list');
	}
	session.show({...suppressionEntry(removed), removed: true}, () => [`removed ${removed.address} (${removed.reason})`]);
}

const suppressions: Noun<Suppression> = {
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
