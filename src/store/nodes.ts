import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import {readServerTime} from './engine/dialect.ts';

export type Node = {
	readonly id: string;
	readonly host: string;
	readonly pid: number;
	readonly version: string;
	/** What it does: MAILCTL_ROLES. */
	readonly roles: readonly string[];
};

/** A node that is silent for so long is dead, milliseconds. */
export const silentMs = 30_000;

/** This daemon is alive at `now`; a node that was given up for dead in the meantime is there again. */
export async function beat(trx: Knex.Transaction, {id, host, pid, version, roles}: Node, now: string): Promise<void> {
	await trx('nodes')
		.insert({id, host, pid, version, roles: roles.join(','), started_at: now, seen_at: now})
		.onConflict('id')
		.merge({seen_at: now});
}

export async function removeNode(trx: Knex.Transaction, id: string): Promise<void> {
	await trx('nodes').where({id}).delete();
}

/** Nodes that live, also in a store of the version before. */
export async function runningNodes(trx: Knex.Transaction): Promise<Array<Pick<Node, 'host' | 'pid'>>> {
	const since = storeTime((await readServerTime(trx)) - silentMs);
	return await trx('nodes').where('seen_at', '>=', since).orderBy('started_at').select('host', 'pid');
}

export type SeenNode = Node & {readonly startedAt: string; readonly seenAt: string};

/** Nodes that were seen since then. */
export async function listNodes(reader: Knex, since: string): Promise<SeenNode[]> {
	const rows: Array<Omit<SeenNode, 'version' | 'roles'> & {version: string | null; roles: string | null}> =
		await reader('nodes')
			.where('seen_at', '>=', since)
			.orderBy(['host', 'started_at'])
			.select('id', 'host', 'pid', 'version', 'roles', 'started_at as startedAt', 'seen_at as seenAt');
	return rows.map(row => ({...row, version: row.version ?? '', roles: row.roles?.split(',') ?? []}));
}
