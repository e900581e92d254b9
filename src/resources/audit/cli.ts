import {count, past} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import {type Noun, printable, shortTime} from '../../cli/terminal-text.ts';
import {auditPages, auditView, csvColumns, streamCsv} from '../csv-lists.ts';
import {type AuditEntry, listAudit} from './store.ts';

type Options = {readonly since?: number; readonly limit?: number; readonly csv?: true};

const defaultLimit = 100;

/** Adds the command that lists the audit trail of all workspaces, or of the one of `--workspace`. */
export function auditCommands(audit: CliCommand): void {
	audit
		.verb('list', 'List the audit trail, newest first')
		.sample('mailctl audit list --since 24h')
		.option('--since <time>', 'from this time on: a time, or a duration before now', past('--since'))
		.option(
			'--limit <n>',
			`at most this many (default: ${defaultLimit}; all with --csv)`,
			count('--limit', 1, 10_000),
		)
		.option('--csv', 'print CSV')
		.does<Options>(async (session, {since, limit, csv}) => {
			const filter = {workspaceId: (await session.chosenWorkspace())?.id, since};
			const reader = await session.reader();
			if (csv) {
				await session.csv(streamCsv(csvColumns.audit, auditPages(reader, filter, limit), auditView));
			} else {
				session.list(acts, await listAudit(reader, {...filter, limit: limit ?? defaultLimit}));
			}
		});
}

const acts: Noun<AuditEntry> = {
	none: 'no entries in this period',
	json: auditView,
	fields: [
		{title: 'UTC', cell: row => shortTime(row.at).slice(0, 19)},
		{title: 'ACTOR', cell: row => printable(row.actor), cut: true},
		{title: 'FROM', cell: row => row.from && printable(row.from), cut: true},
		{title: 'ACTION', cell: row => row.action},
		{title: 'TARGET', cell: row => row.target && printable(row.target), cut: true},
	],
};
