import {type AuditEntry, listAudit} from '../store/audit.ts';
import {count, past} from './options.ts';
import type {CliCommand} from './program.ts';
import {type Noun, printable, shortTime} from './terminal-text.ts';

type Options = {readonly since?: number; readonly limit: number};

/** Who did what, of every workspace unless one is named. */
export function auditCommands(audit: CliCommand): void {
	audit
		.verb('list', 'List who did what, on what, when and from where, newest first')
		.sample('mailctl audit list --since 24h')
		.option('--since <time>', 'since then: a time, or a duration before now', past('--since'))
		.option('--limit <n>', 'at most this many', count('--limit', 1, 10_000), 100)
		.does<Options>(async (session, {since, limit}) => {
			const workspace = await session.chosenWorkspace();
			const rows = await listAudit(await session.reader(), {workspaceId: workspace?.id, since, limit});
			session.list(acts, rows);
		});
}

const acts: Noun<AuditEntry> = {
	none: 'nothing was done in this time',
	json: view,
	fields: [
		{title: 'UTC', cell: row => shortTime(row.at).slice(0, 19)},
		{title: 'ACTOR', cell: row => printable(row.actor), cut: true},
		{title: 'FROM', cell: row => row.from && printable(row.from), cut: true},
		{title: 'ACTION', cell: row => row.action},
		{title: 'TARGET', cell: row => row.target && printable(row.target), cut: true},
	],
};

function view({workspaceId, ...entry}: AuditEntry) {
	const {id, at, actor, from, action: did, target, detail} = entry;
	return {id, at, workspace: workspaceId, actor, from, action: did, target, detail};
}
