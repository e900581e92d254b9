import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import type {AlertKind} from '../mail/alert.ts';
import {hasOneWriter, readServerTime} from './engine/dialect.ts';

export type Node = {
	readonly id: string;
	readonly host: string;
	readonly pid: number;
	readonly version: string;
	/** The roles of the node: MAILCTL_ROLES. */
	readonly roles: readonly string[];
};

/** A node that is silent for this long is considered dead, in milliseconds. */
export const silentMs = 30_000;

/** Notes that this daemon is alive at `now`. A node that was considered dead in the meantime is listed again. */
export async function beat(trx: Knex.Transaction, {id, host, pid, version, roles}: Node, now: string): Promise<void> {
	await trx('nodes')
		.insert({id, host, pid, version, roles: roles.join(','), started_at: now, seen_at: now})
		.onConflict('id')
		.merge({seen_at: now});
}

/**
 * Removes silent nodes from the list and notes them as lost, for the alerts, until a daemon on the same host is running
 * again. Returns how many there were.
 */
export async function loseNodes(
	trx: Knex.Transaction,
	filter: (query: Knex.QueryBuilder) => unknown,
	now: string,
): Promise<number> {
	const lost: Array<Pick<Node, 'id' | 'host'>> = await trx('nodes')
		.modify(query => void filter(query))
		.select('id', 'host');
	for (const {host} of lost) {
		const newlyLost = {began_at: now, seen_at: now, announced_at: null, ended_at: null};
		const texts = {
			detail: `the node on ${host} stopped responding`,
			fix: 'check that the machine is running, and read the log of its daemon',
		};
		await trx('conditions')
			.insert({
				kind: 'node_lost' satisfies AlertKind,
				subject: host,
				workspace_id: null,
				...texts,
				...newlyLost,
				rings: 0,
			})
			.onConflict(['kind', 'subject'])
			.merge(newlyLost)
			.whereNotNull('conditions.ended_at');
	}
	const ids = lost.map(({id}) => id);
	return ids.length === 0 ? 0 : await trx('nodes').whereIn('id', ids).delete();
}

export async function removeNode(trx: Knex.Transaction, id: string): Promise<void> {
	await trx('nodes').where({id}).delete();
}

/** Returns the running nodes, even in a store of the previous version. With SQLite, a lock excludes other processes. */
export async function runningNodes(trx: Knex.Transaction): Promise<Array<Pick<Node, 'host' | 'pid'>>> {
	if (hasOneWriter(trx)) {
		return [];
	}
	const since = storeTime((await readServerTime(trx)) - silentMs);
	return await trx('nodes').where('seen_at', '>=', since).orderBy('started_at').select('host', 'pid');
}

export type SeenNode = Node & {readonly startedAt: string; readonly seenAt: string};

/** Returns the nodes that were seen since `since`. */
export async function listNodes(reader: Knex, since: string): Promise<SeenNode[]> {
	const rows: Array<Omit<SeenNode, 'version' | 'roles'> & {version: string | null; roles: string | null}> =
		await reader('nodes')
			.where('seen_at', '>=', since)
			.orderBy(['host', 'started_at'])
			.select('id', 'host', 'pid', 'version', 'roles', 'started_at as startedAt', 'seen_at as seenAt');
	return rows.map(row => ({...row, version: row.version ?? '', roles: row.roles?.split(',') ?? []}));
}

/** The state of the daemons of a store, as far as the queue depends on it. */
export type Daemons = {
	/** Whether any daemon is running. */
	readonly isRunning: boolean;
	/** Whether a daemon with the role `deliver` is running. */
	readonly isDelivering: boolean;
	/** Whether the daemon that made a claim is running. */
	readonly isAlive: (claimedBy: string) => boolean;
	/** Claims of nodes last seen before this time are dead; `null` if no claim is. For compare-and-set updates. */
	readonly silentSince: string | null;
};

/** Returns the daemons on PostgreSQL, where every node records when it was last seen. */
export async function daemonsOfNodes(reader: Knex, silentSince: string): Promise<Daemons> {
	const nodes = await listNodes(reader, silentSince);
	return {
		isRunning: nodes.length > 0,
		isDelivering: nodes.some(({roles}) => roles.includes('deliver')),
		isAlive: claimedBy => nodes.some(({id}) => id === claimedBy),
		silentSince,
	};
}

/** A node's request for a part of a key's rate limit window. */
export type PartRequest = {
	readonly keyId: string;
	readonly bucket: string;
	/** When the window ends, in milliseconds. */
	readonly end: number;
	/** The limit of all nodes together. */
	readonly limit: number;
	/** What pending requests need. It is granted if that much is left. */
	readonly needed: number;
	/** What is granted beyond that while much is left. */
	readonly defaultPart: number;
};

export type PartGrant = {
	readonly granted: number;
	/** What is granted to all nodes so far. */
	readonly given: number;
};

/** Beyond its needs, a node gets at most one eighth of what is left. */
const share = 8;

/** What is already granted of the requested window. A row holds the newest window of its key. */
const before = 'case when w.ends_at = excluded.ends_at then w.given else 0 end';

/**
 * Grants a part of a key's window to a node. PostgreSQL only. It is a statement outside of a transaction, so that the
 * row is locked only briefly. The table is unlogged, so nothing waits for the disk; after a crash of the server,
 * windows restart.
 */
export async function sharePart(
	connection: Knex,
	{keyId, bucket, end, limit, needed, defaultPart}: PartRequest,
): Promise<PartGrant> {
	const part = (granted: string) =>
		`least(greatest(0, :limit - ${granted}), greatest(:needed, least(:defaultPart, ceil((:limit - ${granted}) / ${share}.0))))::integer`;
	const {rows} = await connection.raw(
		`insert into rate_windows as w (key_id, bucket, ends_at, given, part)
			values (:keyId, :bucket, :endsAt, ${part('0')}, ${part('0')})
			on conflict (key_id, bucket) do update set
				ends_at = excluded.ends_at, given = ${before} + ${part(`(${before})`)}, part = ${part(`(${before})`)}
			returning part as granted, given`,
		{keyId, bucket, endsAt: storeTime(end), limit, needed, defaultPart},
	);
	return rows[0];
}
