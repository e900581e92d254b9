import type {Knex} from 'knex';
import {type QueueKey, queueKeyText} from '../../mail/route.ts';
import {type WaitReason, waitParameters} from '../../mail/wait-reason.ts';
import {rowSource} from '../engine/dialect.ts';
import {insertRows} from '../engine/insert-rows.ts';
import type {GroupWrite} from '../engine/writer.ts';

/** Why mail of a lane is not claimed that is due, or that waits for a site that is left alone; times in the store's form. */
export type QueueWaitRow = QueueKey & {
	readonly site: string;
	readonly reason: WaitReason;
	/** When that ends; null: not known. */
	readonly until: string | null;
	readonly at: string;
};

/** What changed since the last note. */
export type QueueWaitNote = {readonly ended: readonly QueueKey[]; readonly rows: readonly QueueWaitRow[]};

const columns = ['destination', 'workspace_id', 'node', 'site', 'waits_for', 'detail', 'until', 'updated_at'];
const replaced = columns.slice(3).map(name => `${name} = excluded.${name}`);

/** Of several nodes' rows of a lane, `l`, the one that was written last: a condition. */
export const isNewestOfQueue = `not exists (select 1 from lane_waits as n
	where n.destination = l.destination and n.workspace_id = l.workspace_id and (n.updated_at, n.node) > (l.updated_at, l.node))`;

/** Notes what the lanes of this node, a daemon's boot id, wait for. */
export function createQueueWaitWrite(node: string): GroupWrite<QueueWaitNote, void> {
	return {
		name: 'lane_waits',
		rank: 9,
		size: ({ended, rows}) => ended.length + rows.length,
		async apply(trx, notes) {
			for (const {ended, rows} of notes) {
				await remove(trx, node, ended.toSorted(byKey));
				await insertRows(
					trx,
					'lane_waits',
					columns,
					rows.toSorted(byKey).map(row => rowOf(node, row)),
					`on conflict (destination, workspace_id, node) do update set ${replaced.join(', ')}`,
				);
			}
			return notes.map(() => undefined);
		},
	};
}

function rowOf(node: string, row: QueueWaitRow): Array<string | null> {
	const {reason} = row;
	const parameters = waitParameters(reason);
	return [row.destination, row.workspaceId, node, row.site, reason.code, parameters, row.until, row.at];
}

const byKey = (a: QueueKey, b: QueueKey): number => (queueKeyText(a) < queueKeyText(b) ? -1 : 1);

async function remove(trx: Knex.Transaction, node: string, queues: readonly QueueKey[]): Promise<void> {
	if (queues.length === 0) {
		return;
	}
	const {sql, bindings} = rowSource(
		trx,
		queues.map(({destination, workspaceId}) => [destination, workspaceId, node]),
		3,
	);
	await trx.raw(
		`delete from lane_waits where (destination, workspace_id, node) in (${sql})`,
		bindings as Knex.RawBinding[],
	);
}

/** A node that stops tells nothing any more. */
export async function removeOwnQueueWaits(trx: Knex.Transaction, node: string): Promise<void> {
	await trx('lane_waits').where({node}).delete();
}

/** On SQLite the folder's lock says that the daemons that wrote these are dead. */
export async function removeOtherQueueWaits(trx: Knex.Transaction, node: string): Promise<void> {
	await trx('lane_waits').whereNot({node}).delete();
}

/** What nodes noted that are no longer on the list (several machines on PostgreSQL). */
export async function removeGoneQueueWaits(trx: Knex.Transaction): Promise<void> {
	await trx('lane_waits').whereNotIn('node', trx('nodes').select('id')).delete();
}
