import {hostname} from 'node:os';
import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import {liveDaemon} from '../store/data-folder/daemon-file.ts';
import {listNodes, type SeenNode, silentMs} from '../store/nodes.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import {type Noun, shortTime} from './terminal-text.ts';

/** A node, and whether its heartbeat stopped. With SQLite, the daemon has no id and its start time is unknown. */
type ListedNode = Omit<SeenNode, 'id' | 'startedAt'> & {
	readonly id: string | null;
	readonly startedAt: string | null;
	readonly isSilent: boolean;
};

export function nodeCommands(node: CliCommand): void {
	node.verb('list', 'List the nodes on this PostgreSQL database; with SQLite there is one daemon')
		.sample('mailctl node list')
		.does(async session => {
			const reader = await session.reader();
			const isShared = session.settings().databaseUrl !== null;
			session.list(nodes, isShared ? await sharedNodes(reader, session) : ownDaemon(session));
		});
}

async function sharedNodes(reader: Knex, {tools}: Session): Promise<ListedNode[]> {
	const rows = await listNodes(reader, '');
	const silentBefore = storeTime(tools.clock.now() - silentMs);
	return rows.map(row => ({...row, isSilent: row.seenAt < silentBefore}));
}

/** With SQLite, a file in the data folder describes the only daemon. */
function ownDaemon(session: Session): ListedNode[] {
	const daemon = liveDaemon(session.settings().dataDir);
	if (daemon === null) {
		return [];
	}
	const {pid, version, roles} = daemon;
	const seenAt = storeTime(session.tools.clock.now());
	return [{id: null, host: hostname(), pid, version, roles, startedAt: null, seenAt, isSilent: false}];
}

const nodes: Noun<ListedNode> = {
	none: 'no nodes; start one with mailctl serve',
	json: row => ({
		id: row.id,
		host: row.host,
		pid: row.pid,
		version: row.version,
		roles: row.roles,
		state: stateOf(row),
		started_at: row.startedAt,
		seen_at: row.seenAt,
	}),
	fields: [
		{title: 'HOST', cell: row => row.host, cut: true},
		{title: 'PID', cell: row => String(row.pid)},
		{title: 'VERSION', cell: row => row.version},
		{title: 'ROLES', cell: row => row.roles.join(',')},
		{title: 'STATE', cell: stateOf},
		{title: 'STARTED', cell: row => row.startedAt && shortTime(row.startedAt).slice(0, 16)},
	],
};

function stateOf({isSilent}: ListedNode): string {
	return isSilent ? 'silent' : 'running';
}
