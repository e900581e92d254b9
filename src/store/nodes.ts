import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import type {AlertKind} from '../mail/alert.ts';
import {hasOneWriter, readServerTime} from './engine/dialect.ts';

export type Node = {
	readonly id: string;
	readonly host: string;
	readonly pid: number;
	readonly version: string;
	/** What it does: MAILCTL_ROLES. */
	readonly roles: readonly string[];
};

/** A node that is silent for this long is dead, milliseconds. */
export const silentMs = 30_000;

/** This daemon is alive at `now`; a node that was given up for dead in the meantime is there again. */
export async function beat(trx: Knex.Transaction, {id, host, pid, version, roles}: Node, now: string): Promise<void> {
	await trx('nodes')
		.insert({id, host, pid, version, roles: roles.join(','), started_at: now, seen_at: now})
		.onConflict('id')
		.merge({seen_at: now});
}

/**
 * Nodes that fell silent are taken off the list and noted as lost, for the alerts: until a daemon on the same host is
 * there again. Answers how many there were.
 */
export async function loseNodes(
	trx: Knex.Transaction,
	which: (query: Knex.QueryBuilder) => unknown,
	now: string,
): Promise<number> {
	const lost: Array<Pick<Node, 'id' | 'host'>> = await trx('nodes')
		.modify(query => void which(query))
		.select('id', 'host');
	for (const {host} of lost) {
		const news = {began_at: now, seen_at: now, announced_at: null, ended_at: null};
		const words = {
			detail: `the node on ${host} is gone`,
			fix: 'see whether the machine runs, and the log of its daemon',
		};
		await trx('conditions')
			.insert({
				kind: 'node_lost' satisfies AlertKind,
				subject: host,
				workspace_id: null,
				...words,
				...news,
				rings: 0,
			})
			.onConflict(['kind', 'subject'])
			.merge(news)
			.whereNotNull('conditions.ended_at');
	}
	const ids = lost.map(({id}) => id);
	return ids.length === 0 ? 0 : await trx('nodes').whereIn('id', ids).delete();
}

export async function removeNode(trx: Knex.Transaction, id: string): Promise<void> {
	await trx('nodes').where({id}).delete();
}

/**
 * Nodes that live, also in a store of the version before. Without several writers a lock keeps others out of the store.
 */
export async function runningNodes(trx: Knex.Transaction): Promise<Array<Pick<Node, 'host' | 'pid'>>> {
	if (hasOneWriter(trx)) {
		return [];
	}
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

/** What a node asks for of a key's window. */
export type PartAsked = {
	readonly keyId: string;
	readonly bucket: string;
	/** When the window ends, milliseconds. */
	readonly end: number;
	/** What all nodes may use in it together. */
	readonly limit: number;
	/** What requests wait for: given if there is as much. */
	readonly wants: number;
	/** What is given beyond that while much is left. */
	readonly usual: number;
};

export type PartGiven = {
	readonly granted: number;
	/** What is given out to all nodes now. */
	readonly given: number;
};

/** Of what is left no more than this part is given to one node beyond what it needs. */
const share = 8;

/** What is given out already of the window that is asked for: a row holds the newest window of its key. */
const before = 'case when w.ends_at = excluded.ends_at then w.given else 0 end';

/**
 * Gives a part of a key's window to the node that asks. PostgreSQL only. A statement of its own: the row is locked for
 * no longer. The table is unlogged, so that nothing waits for the disk; after a crash of the server windows restart.
 */
export async function sharePart(
	connection: Knex,
	{keyId, bucket, end, limit, wants, usual}: PartAsked,
): Promise<PartGiven> {
	const part = (given: string) =>
		`least(greatest(0, :limit - ${given}), greatest(:wants, least(:usual, ceil((:limit - ${given}) / ${share}.0))))::integer`;
	const {rows} = await connection.raw(
		`insert into rate_windows as w (key_id, bucket, ends_at, given, part)
			values (:keyId, :bucket, :endsAt, ${part('0')}, ${part('0')})
			on conflict (key_id, bucket) do update set
				ends_at = excluded.ends_at, given = ${before} + ${part(`(${before})`)}, part = ${part(`(${before})`)}
			returning part as granted, given`,
		{keyId, bucket, endsAt: storeTime(end), limit, wants, usual},
	);
	return rows[0];
}
